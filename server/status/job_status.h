// What shard 0 knows of the whole job at one moment, for its page, `tern top` and metrics. Plain
// values: a thread that has one may read it for as long as it likes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace tern::server {

// A value that is not known (yet) is unset. Rates and shares are of the last ten seconds.
struct WorkerRow {
  uint32_t rank = 0;
  std::string state = "absent";  // one of the words in observation.h
  std::string host;              // as the worker calls it: printable ASCII, but untrusted
  uint32_t pid = 0;
  std::optional<double> silent_s;  // since its newest message
  uint64_t step = 0;               // how many of the job's steps its weights include
  uint64_t lag_steps = 0;          // by how many it is behind the worker with the most
  double samples_per_s = 0;
  std::optional<double> loss;  // of its newest step
  // Shares of its training time: forward and backward; the coder thread's work, in parallel, and
  // decoding; waiting for servers.
  std::optional<double> computing, coding, waiting;
  // Frames of training rounds.
  std::optional<double> up_bytes_per_step, down_bytes_per_step;
  uint64_t up_bytes = 0, down_bytes = 0;  // all frames of its process so far
  std::optional<double> round_trip_s;     // from a heartbeat to its echo
};

struct ShardRow {
  uint32_t shard = 0;
  std::string state = "absent";  // absent, present or silent
  std::string host;              // as WorkerRow::host
  std::optional<double> silent_s;
};

// A point of the training curve: the mean loss of the workers after `step` steps.
struct LossPoint {
  uint64_t step = 0;
  double loss = 0;
};

// An evaluation on the whole test set.
struct TestPoint {
  uint64_t step = 0;
  double accuracy = 0, loss = 0;
};

struct JobEvent {
  double unix_s = 0;  // when it last happened, in seconds since 1970
  std::string text;
  uint64_t times = 1;  // how often it happened in a row
};

struct JobStatus {
  Time at{};               // by Now()
  std::string state;       // gathering, returning, running or ending
  uint64_t step = 0;       // how many steps are done
  uint64_t steps = 0;      // the job's length; 0: not known yet
  double steps_per_s = 0;  // over the last half minute
  double samples_per_s = 0;
  std::optional<double> left_s;
  std::optional<double> loss;                  // the mean over the workers
  std::optional<double> up_ratio, down_ratio;  // setup::RatioToFp32
  std::vector<WorkerRow> workers;              // by rank
  std::vector<ShardRow> shards;                // by shard, with shard 0
  // The newest checkpoint that all workers present have written or come from; 0: none.
  uint64_t checkpoint_step = 0;
  std::optional<double> checkpoint_age_s;  // since shard 0 learned that it is written
  uint64_t failed_checkpoints = 0;
  std::vector<LossPoint> losses;
  std::vector<TestPoint> tests;
  std::deque<JobEvent> events;  // the newest last
};

// For whom the job waits, for example "worker 1, server shard 2"; empty if it runs or ends.
std::string WaitingFor(const JobStatus& status);

}  // namespace tern::server

// Sums and means over the counters of a job's workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/counters.pb.h"
#include "setup/job_position.h"

namespace tern::setup {

// Bytes of the frames of training rounds (scalers, pushes, sums), and of all frames.
struct WorkerTraffic {
  uint64_t up_bytes = 0, down_bytes = 0;  // up: sent by the worker; down: received by it
  uint64_t all_up_bytes = 0, all_down_bytes = 0;
};
// The traffic of one worker.
WorkerTraffic TrafficOf(const pb::Counters& counters);

// Times, in seconds, are means over the present workers (over all workers if none is present);
// the loss is the mean over those of them that have computed one. evaluated and to_evaluate are
// sums over the present workers. samples_per_s is their speed together: their samples, divided by
// the mean train_s of those that have trained. All other members are sums over all workers.
struct Totals {
  uint64_t rounds = 0, samples = 0, refusals = 0, failed_checkpoints = 0;
  uint64_t evaluated = 0, to_evaluate = 0;
  double samples_per_s = 0;
  std::optional<double> loss;
  double train_s = 0;
  // Parts of train_s. communication_s is the time of waiting for sums, without waiting at the start
  // and during evaluations.
  double compute_s = 0, decode_s = 0, data_s = 0, communication_s = 0;
  double encode_s = 0;      // beside train_s, on the coder thread
  double checkpoint_s = 0;  // after train_s
  WorkerTraffic traffic;

  // A part of train_s, or encode_s, divided by train_s; 0 if train_s is 0.
  double ShareOf(double seconds) const { return train_s > 0 ? seconds / train_s : 0; }
  // Means over the workers; 0 before the first round.
  uint64_t up_bytes_per_step() const { return rounds > 0 ? traffic.up_bytes / rounds : 0; }
  uint64_t down_bytes_per_step() const { return rounds > 0 ? traffic.down_bytes / rounds : 0; }
};
Totals TotalsOf(const std::vector<WorkerStatus>& workers);

// The part of train_s in which a worker waited for sums. Its wait_s includes waiting at the start
// and during evaluations, which train_s does not: so this is at most what the other parts of
// train_s leave. The seconds are those of one worker, since its start or in some span.
double CommunicationOf(double train_s, double compute_s, double decode_s, double data_s,
                       double wait_s);

// The bytes that the exchanges would need in fp32, divided by `bytes`: 4 * parameters * rounds /
// bytes; 0 if `bytes` is 0. `rounds` and `bytes` are of one worker, or sums over the same workers.
double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes);

// How many workers are present.
size_t CountPresent(const std::vector<WorkerStatus>& workers);

// What a worker has done since it reported `before`; all that it has done if `before` is of an
// earlier process. Differences are the rounds, samples, seconds and traffic; other fields are those
// of `now`.
pb::Counters CountersSince(const pb::Counters& before, const pb::Counters& now);

}  // namespace tern::setup

// What the control thread of shard 0 sees of the job when it updates the job's status.
//
// The state of a worker is one of these words:
//
//   absent    no process has the rank
//   waiting   its process has said hello to a job that does not run yet
//   joining   it gets the state from which it continues
//   planning  it plans its network, which can take minutes on a GPU
//   training
//   silent    nothing has come from it for longer than faults.suspect_after_s
//   stuck     lost, because its compute thread hangs
//   left      lost, because its process said that it leaves
//   lost      silent for longer than faults.dead_after_s, or its connection is gone
//   done      it has finished the job, and waits for its end
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/members/shard0/coordinator.h"
#include "proto/counters.pb.h"

namespace tern::server {

struct WorkerObservation {
  std::string state = "absent";
  std::string host;
  uint32_t pid = 0;
  uint64_t incarnation = 0;
  std::optional<Time> silent;
  bool is_present = false;  // it takes part or has finished
  bool is_joining = false;
  pb::Counters counters;  // of its process
  pb::Counters earlier;   // the sums over the rank's processes before that one
};

struct ShardObservation {
  uint32_t shard = 0;
  std::string state = "absent";
  std::string host;
  std::optional<Time> silent;
};

struct Observation {
  std::string state = "gathering";         // of the job, as in JobStatus
  std::vector<WorkerObservation> workers;  // by rank
  std::vector<ShardObservation> shards;    // without shard 0
  uint64_t failed_checkpoints = 0;         // by shards; workers count their own
};

// `now`: of the clock that the coordinator is given.
Observation Observe(const protocol::Coordinator& coordinator, Time now);

}  // namespace tern::server

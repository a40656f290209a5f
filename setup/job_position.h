// How far a job is, in steps of the job, over all its runs and processes.
//
// It does not fall if a worker is lost, returns, or counts from 0 again. It falls if the whole job
// goes back to a checkpoint, once training has continued from there.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

// What shard 0 knows about a worker.
struct WorkerStatus {
  uint32_t rank = 0;
  pb::Counters counters;
  pb::Figures figures;   // of the whole job; only parameters_hash is the worker's own
  bool present = true;   // takes part or has finished; false: lost, or not connected yet
  bool joining = false;  // has not received the state from which it continues
};

class JobPosition {
 public:
  // Takes the newest counters. `steps` as in steps(). `beginning` changes whenever the whole job
  // has gone back, or has started from a checkpoint.
  void Update(uint64_t steps, uint64_t beginning, const std::vector<WorkerStatus>& workers);

  uint64_t steps() const { return steps_; }                // the job's length; 0: not known yet
  uint64_t done() const { return done_; }                  // steps of the worker that is farthest
  uint64_t resumed_from() const { return resumed_from_; }  // the step of the last resume; 0: none
  uint64_t beginning() const { return beginning_; }

 private:
  uint64_t steps_ = 0, beginning_ = 0, done_ = 0, resumed_from_ = 0;
  uint64_t reached_ = 0;  // the most steps of a worker since beginning_ changed
};

}  // namespace tern::setup

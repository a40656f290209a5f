// How far a job is: in steps of the job, whichever process or run of it did them.
//
// It never falls while the job goes on, whoever is lost, comes back or counts anew. It falls where
// all go back to a checkpoint, and then only once they train again.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

// A worker as shard 0 knows it.
struct WorkerEnd {
  uint32_t rank = 0;
  pb::Counters counters;
  pb::Figures figures;   // of the job; all the same but for parameters_hash, which is its own
  bool there = true;     // takes part, or is done; false: lost, or it has not come
  bool joining = false;  // has yet to take up the state that it goes on from
};

class JobPosition {
 public:
  // The newest counters. `steps` as in steps(); `beginning` is another number once all have gone
  // back, or begun from a checkpoint.
  void See(uint64_t steps, uint64_t beginning, const std::vector<WorkerEnd>& workers);

  uint64_t steps() const { return steps_; }  // the job's length; 0: not known yet
  uint64_t done() const { return done_; }    // the most that any worker has behind it
  uint64_t from() const { return from_; }    // where all went on from last; 0: the beginning
  uint64_t beginning() const { return beginning_; }

 private:
  uint64_t steps_ = 0, beginning_ = 0, done_ = 0, from_ = 0;
  uint64_t reached_ = 0;  // in this beginning
};

}  // namespace tern::setup

// A job's settings for workers that are lost, and for rounds that close without some workers.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"

namespace tern::algorithm {

// What happens to the job when a worker is lost.
enum class OnLoss {
  kFail,    // the job ends
  kWait,    // the job waits for the worker or a replacement
  kShrink,  // the job continues with the remaining workers
};

struct Elasticity {
  uint32_t quorum = 0;  // how many workers' contributions close a round; 0: all workers'
  OnLoss on_loss = OnLoss::kFail;
  uint32_t min_workers = 1;  // with kShrink: the job ends if fewer are left
  // With kShrink: whether a new job may begin with min_workers, if no more come in time.
  bool begins_with_min = false;
  // With kShrink: a new job begins as soon as this many workers are here; 0: as soon as all are.
  uint32_t begin_workers = 0;

  bool shrinks_on_loss() const { return on_loss == OnLoss::kShrink; }
  // Whether a worker may get an unsolicited outcome: the answer of a round to which it did not
  // contribute.
  bool has_unsolicited_outcomes() const { return quorum != 0 || shrinks_on_loss(); }
  static Elasticity FromJob(const pb::Job& job);
};

}  // namespace tern::algorithm

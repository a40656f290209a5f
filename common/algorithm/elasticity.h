// What a job says of rounds that go on without some of their workers.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"

namespace tern::algorithm {

// What becomes of the job when a worker is lost.
enum class OnLoss {
  kFail,    // it ends
  kWait,    // it waits for the worker, or another in its place
  kShrink,  // it goes on with those who are left
};

struct Elasticity {
  uint32_t quorum = 0;  // a round closes with so many contributions; 0: it waits for all
  OnLoss on_loss = OnLoss::kFail;
  uint32_t min_workers = 1;  // with kShrink: fewer, and the job ends

  bool shrink() const { return on_loss == OnLoss::kShrink; }
  // Whether a worker may be sent the outcome of a round that it had no part in.
  bool unsolicited() const { return quorum != 0 || shrink(); }
  static Elasticity Of(const pb::Job& job);
};

}  // namespace tern::algorithm

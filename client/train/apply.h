// Computes the next W (the weights on which the workers agree) from the servers' answers of a
// round, in one pass over the model. A bucket is a range of the model whose answers come together.
#pragma once

#include <cstdint>

#include "client/exchange/sums.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "common/update/lookahead.h"
#include "setup/setup.h"

namespace tern::client {

class RoundApplier {
 public:
  // `steps`: the job's length in steps. The other arguments outlive this object.
  RoundApplier(const setup::Setup& setup, uint64_t steps, Replica& replica, const Sums& sums);

  // Changes W(round - 1) to W(round). If the workers hold the parameters (localized), applies the
  // mean gradient with the optimizer (TernGrad, Algorithm 1, lines 5 and 6), and then Lookahead if
  // it is due. If the servers hold the parameters (central), installs the weights or changes that
  // the servers sent. kMismatch for an invalid answer. REQUIRES all answers of the round.
  Status ApplyRound(uint64_t round);
  // Applies one bucket only. REQUIRES that the workers hold the parameters, and the bucket's
  // answers. W(round) is complete after one call for each bucket, in any order.
  Status ApplyBucket(uint64_t round, uint32_t bucket);
  // Whether a round may be applied bucket by bucket while other answers are on their way. Between
  // two buckets the parameters are not a valid W. So this is false if a joining worker may request
  // W at any time (on_worker_loss: wait or shrink).
  bool applies_by_bucket() const { return applies_by_bucket_; }

 private:
  const setup::Setup& setup_;
  Replica& replica_;
  const Sums& sums_;
  const bool applies_by_bucket_;
  const update::Lookahead lookahead_;
};

}  // namespace tern::client

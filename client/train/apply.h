// Turns the answers of a round into the next W, in one pass over the model.
#pragma once

#include <cstdint>

#include "client/exchange/sums.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class Apply {
 public:
  // All outlive it.
  Apply(const setup::Setup& setup, Replica& replica, const Sums& sums);

  // W(round - 1) -> W(round). Localized parameters: applies the mean gradient with the optimizer
  // (TernGrad, Algorithm 1, lines 5 and 6). Central ones: takes what the servers sent. kMismatch
  // for an invalid answer. REQUIRES all answers of the round.
  Status Run(uint64_t round);
  // The same for one bucket, with localized parameters: all buckets, once each and in any order,
  // make W(round). REQUIRES the bucket's answers.
  Status Run(uint64_t round, uint32_t bucket) {
    return replica_.arenas().Apply(sums_, round, bucket);
  }
  // Whether a round may be applied bucket by bucket while other answers are on their way. Between
  // two buckets the parameters are not a valid W, so nobody may be able to request one, as a
  // joining worker could (on_worker_loss: wait, shrink).
  bool by_bucket() const { return by_bucket_; }

 private:
  const setup::Setup& setup_;
  Replica& replica_;
  const Sums& sums_;
  const bool by_bucket_;
};

}  // namespace tern::client

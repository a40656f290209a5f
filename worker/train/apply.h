// From the answers of a round to the next W, in one pass over the model.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/train/replica.h"
#include "worker/train/sums.h"

namespace tern::train {

class Apply {
 public:
  // All outlive it.
  Apply(const setup::Setup& setup, Replica& replica, const Sums& sums);

  // W(round - 1) -> W(round). Localized parameters: the mean gradient through the optimizer
  // (TernGrad, Algorithm 1, lines 5 and 6). Central ones: what the servers sent. kMismatch for an
  // answer that cannot be one. REQUIRES all answers of the round.
  Status Run(uint64_t round);
  // The same of one bucket, for localized parameters: all of them, once each and in any order, make
  // W(round). REQUIRES its answers.
  Status Run(uint64_t round, uint32_t bucket);
  // Whether a round may be applied bucket by bucket while others are still on their way. Between
  // two of them the parameters are no W at all, so nobody may be able to ask for one: a worker that
  // joins would (on_worker_loss: wait, shrink).
  bool by_bucket() const { return by_bucket_; }

 private:
  Status RunOnDevice(uint64_t round, uint32_t bucket, const update::Step& step);
  // Where the rule looks at tensors as a whole.
  Status RunTensorsOnDevice(uint64_t round, uint32_t bucket, const update::Step& step,
                            engine::DeviceModel& device);

  const setup::Setup& setup_;
  Replica& replica_;
  const Sums& sums_;
  const bool by_bucket_;
  std::vector<float> decay_;  // by tensor, where replicas add it
};

}  // namespace tern::train

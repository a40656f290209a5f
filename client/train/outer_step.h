// The step of the common weights W at a synchronization of algorithms with local steps. D is the
// mean, over the workers, of the change of their weights since the last synchronization:
//
//   W = W + D             without an outer optimizer
//   W = W - U_outer(-D)   with one: its gradient is -D (algorithm 1 of SlowMo,
//                         arXiv 1910.00643, and of DiLoCo, arXiv 2311.08105)
//
// U_outer is sgd, momentum or nesterov of common/update/optimizer.h, with a fixed learning rate.
// All workers know W and D, and have the same state of U_outer, so they get the same bits. docs/
// ALGORITHMS.md, section 10, compares U_outer with the papers' forms. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <span>

#include "client/train/replica.h"
#include "common/base/floats.h"
#include "setup/setup.h"

namespace tern::client {

class OuterStep {
 public:
  // The arguments outlive this object. Changes the host's arrays of the replica.
  OuterStep(const setup::Setup& setup, Replica& replica);

  // Makes the step of elements [first, first + n) in a round. Call it once per element and round:
  // AddChange with the mean change D of these elements, or MoveToMean with the mean of the workers'
  // weights, from which it computes D. Without an outer optimizer, MoveToMean sets W to that mean.
  void AddChange(uint64_t round, uint64_t first, std::span<const float> mean_change);
  void MoveToMean(uint64_t round, uint64_t first, std::span<const float> mean_weights);

 private:
  // Makes the step with the gradients in gradients_, for elements from `first` on.
  void StepWithGradients(uint64_t round, uint64_t first);

  Replica& replica_;
  double learning_rate_ = 0;  // of the outer optimizer
  Floats gradients_;          // -D of the elements of a call
};

}  // namespace tern::client

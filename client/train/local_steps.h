// The base class of the algorithms with local steps. Each worker updates its own weights (the
// point) with its own optimizer. Some steps also synchronize the workers, which then have common
// weights W.
#pragma once

#include <memory>
#include <vector>

#include "client/train/algorithm.h"
#include "client/train/descent.h"

namespace tern::client {

class LocalSteps : public Algorithm {
 public:
  explicit LocalSteps(const Context& context);

  Status Begin(uint64_t applied) override;
  // Saves the State without the optimizer's state, because each worker has its own optimizer state.
  Bytes SaveState() override { return context_.state.SaveWeights(applied_); }

 protected:
  // Computes the gradient g at the point x and updates x with the optimizer U: x = x - U(g(x)).
  Status Descend(uint64_t step);
  // Updates the point with the gradient that was computed last.
  void MovePoint(uint64_t step);
  // Sets the state of the optimizer to zero, of the whole model or of elements [first, first + n).
  void ResetOptimizer() { context_.replica.ResetOptimizer(); }
  void ResetOptimizer(uint64_t first, uint64_t n) { context_.replica.ResetOptimizer(first, n); }
  bool EndsRound(uint64_t step) const { return facts_.EndsRound(step, context_.steps); }
  // The round that `step` belongs to.
  uint64_t RoundOf(uint64_t step) const { return facts_.RoundOfStep(step); }

  const size_t num_parameters_;  // elements of the model

 private:
  Descent descent_;
};

}  // namespace tern::client

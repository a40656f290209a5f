// The base of the algorithms with local steps: each worker descends on its own point with its own
// optimizer, and every p steps (and after the last) the workers agree on W again.
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
  // W alone: each worker's optimizer state is its own.
  Bytes SaveState() override { return c_.state.SaveWeights(applied_); }

 protected:
  // x_{j+1} = x_j - U(g(x_j)): takes the gradient at the point and moves the point.
  Status Descend(uint64_t step);
  void MovePoint(uint64_t step);  // the second half
  void ResetOptimizer() { descent_.Reset(); }
  bool EndsRound(uint64_t step) const { return facts_.EndsRound(step, c_.steps); }
  // The round that step belongs to.
  uint64_t RoundOf(uint64_t step) const { return facts_.RoundOfStep(step); }

  const size_t size_;

 private:
  Descent descent_;
};

}  // namespace tern::client

// The base of the algorithms with local steps: each worker descends on its own point with its own
// optimizer, and every p steps (and after the last) the workers agree on W again.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "worker/train/algorithm.h"
#include "worker/train/descent.h"

namespace tern::train {

class LocalSteps : public Algorithm {
 public:
  LocalSteps(const Context& context, uint64_t p);

  Status Begin(uint64_t applied) override;
  uint64_t StepOfRound(uint64_t round) const override { return std::min(round * p_, c_.steps); }
  // The last round may be shorter than p: such a round is no place to resume a longer job.
  bool MeetsAfter(uint64_t step) const override {
    return step % p_ == 0 && Algorithm::MeetsAfter(step);
  }
  // W alone: each worker's optimizer state is its own.
  Bytes SaveState() override { return c_.replica.SaveWeights(applied_); }

 protected:
  // x_{j+1} = x_j - U(g(x_j)): takes the gradient at the point and moves the point.
  Status Descend(uint64_t step, const data::Batch& batch);
  void MovePoint(uint64_t step);  // the second half
  void ResetOptimizer() { descent_.Reset(); }
  bool EndsRound(uint64_t step) const { return step % p_ == 0 || step == c_.steps; }
  // The round that step belongs to.
  uint64_t RoundOf(uint64_t step) const { return (step + p_ - 1) / p_; }

  const uint64_t p_;
  const size_t size_;

 private:
  Descent descent_;
};

}  // namespace tern::train

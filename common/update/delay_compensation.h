// Delay compensation (DC-ASGD; OD-SGD, equations 4 to 6): a gradient g(w_bak) that was taken at
// older weights becomes one for the weights w of now:
//
//   constant (dcasgd_c)  g + lambda g g (w - w_bak)
//   adaptive (dcasgd_a)  MS = rho MS + (1 - rho) g g, then g + lambda / sqrt(MS + 1e-7) g g (w -
//   w_bak)
//
// by element. g is as the worker took it: with the decay that is coded with it, without the decay
// that an optimizer adds later. MS starts at zero, is updated before it is used, and holds no
// epsilon (the released code adds it to the state each time; algorithms.md A2.6).
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/floats.h"
#include "common/update/optimizer.h"
#include "kernels/local_step_inl.h"

namespace tern::update {

class DelayCompensation {
 public:
  // Of `parameters` elements. One object has one MS: a caller that keeps one a worker
  // (Dcasgd.ms_scope) keeps an object a worker.
  static DelayCompensation Constant(double lambda);
  static DelayCompensation Adaptive(double lambda, double rho, size_t parameters);

  // State, as an optimizer's: "mean_square" where adaptive.
  std::vector<Optimizer::Slot> Slots();

  // out[0, n) for elements [first, first + n): all pointers stand at element `first`. `out` may be
  // g or backup. REQUIRES each element once a gradient.
  void Apply(const float* g, const float* w, const float* backup, size_t first, size_t n,
             float* out);
  // Its numbers, for who does it elsewhere.
  void AddTo(kernels::LocalStep* step) const;

 private:
  DelayCompensation(bool adaptive, double lambda, double rho, size_t parameters);

  bool adaptive_;
  float lambda_, rho_, fresh_;
  Floats mean_square_;
};

}  // namespace tern::update

// Delay compensation (DC-ASGD; OD-SGD, equations 4 to 6): turns a gradient g taken at older weights
// w_bak into one for the current weights w. By element:
//
//   constant (dcasgd_c)  g' = g + lambda g g (w - w_bak)
//   adaptive (dcasgd_a)  MS = rho MS + (1 - rho) g g
//                        g' = g + lambda / sqrt(MS + 1e-7) g g (w - w_bak)
//
// g is the worker's gradient: it includes the weight decay that is coded with it, not the decay
// that an optimizer adds later. MS starts at zero, is updated before it is used, and never contains
// the epsilon (the released code adds epsilon to MS in every step; docs/ALGORITHMS.md, section 9).
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/floats.h"
#include "common/update/optimizer.h"
#include "kernels/update/local_step_math.h"

namespace tern::update {

class DelayCompensation {
 public:
  // For a model of `parameters` elements. An object has one MS: with a mean square per worker
  // (Dcasgd.mean_square_scope), the caller keeps one object per worker.
  static DelayCompensation Constant(double lambda);
  static DelayCompensation Adaptive(double lambda, double rho, size_t parameters);

  // State, as in Optimizer: "mean_square" if adaptive, else none.
  std::vector<Optimizer::StateArray> StateArrays();

  // Writes out[0, n) for elements [first, first + n); all pointers point at element `first`. `out`
  // may be g or backup. REQUIRES exactly one call per element and gradient.
  void Apply(const float* g, const float* w, const float* backup, size_t first, size_t n,
             float* out);
  // Copies its coefficients, for a caller that computes on a device.
  void CopyCoefficientsTo(kernels::LocalStep* step) const;

 private:
  DelayCompensation(bool adaptive, double lambda, double rho, size_t parameters);

  bool adaptive_;
  float lambda_, rho_, one_minus_rho_;
  Floats mean_square_;
};

}  // namespace tern::update

// Delay compensation (DC-ASGD; OD-SGD, equations 4 to 6): turns a gradient g taken at older weights
// w_bak into one for the current weights w. By element:
//
//   constant (dcasgd_c)  g' = g + lambda g g (w - w_bak)
//   adaptive (dcasgd_a)  MS = rho MS + (1 - rho) g g
//                        g' = g + lambda / sqrt(MS + 1e-7) g g (w - w_bak)
//
// MS is a moving mean of the squared gradients; lambda and rho are keys of the job. g is the
// worker's gradient: it includes the weight decay that the worker adds to it, not the decay that an
// optimizer adds later. MS starts at zero, is updated before it is used, and does not include the
// 1e-7. (The code released with the paper adds 1e-7 to the stored MS in every step.)
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/floats.h"
#include "common/update/optimizer.h"
#include "kernels/update/local_step_math.h"

namespace tern::update {

class DelayCompensation {
 public:
  // `num_parameters`: the number of elements of the model. An object has one MS; if each worker has
  // its own MS (job key mean_square_scope), the caller keeps one object per worker.
  static DelayCompensation MakeConstant(double lambda);
  static DelayCompensation MakeAdaptive(double lambda, double rho, size_t num_parameters);

  // The arrays to save in checkpoints: "mean_square" if adaptive, else none.
  std::vector<Optimizer::StateArray> StateArrays();

  // Writes the compensated gradient g' of elements [first, first + n) of the model to out[0, n).
  // All pointers point at element `first`; `backup` is w_bak. `out` may be g or backup. REQUIRES
  // exactly one call per element and gradient.
  void CompensateGradient(const float* g, const float* w, const float* backup, size_t first,
                          size_t n, float* out);
  // Copies lambda, rho and the choice between constant and adaptive to *step, for a caller that
  // computes on a GPU.
  void CopyCoefficientsTo(kernels::LocalStep* step) const;

 private:
  DelayCompensation(bool is_adaptive, double lambda, double rho, size_t num_parameters);

  bool is_adaptive_;
  float lambda_, rho_, one_minus_rho_;
  Floats mean_square_;
};

}  // namespace tern::update

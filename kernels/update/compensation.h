// Delay compensation of a gradient (DC-ASGD, Zheng et al. 2017; OD-SGD, equations 4 to 6). The
// gradient g was computed at the weights `backup`, but is applied to the weights w. A first-order
// term estimates the gradient at w, with lambda g g in place of the Hessian. Arrays have n
// elements; all operations are element by element, in float, in the order written. `out` may be the
// same array as `g`.
#pragma once

#include <cstddef>

namespace tern::kernels {

// The epsilon of equation 5. It is added inside the root, but not to the stored ms.
constexpr float kCompensationEpsilon = 1e-7f;

// Equation 4:
//   out = g + lambda * (g * g) * (w - backup)
void CompensateConstant(const float* g, const float* w, const float* backup, size_t n, float lambda,
                        float* out);
// Equations 6 and 5, in this order. `ms` is the moving mean square of the gradient, and
// one_minus_rho is 1 - rho, rounded to float:
//   ms  = rho * ms + one_minus_rho * (g * g)
//   out = g + (lambda / sqrt(ms + epsilon)) * (g * g) * (w - backup)
void CompensateAdaptive(const float* g, const float* w, const float* backup, float* ms, size_t n,
                        float lambda, float rho, float one_minus_rho, float* out);

}  // namespace tern::kernels

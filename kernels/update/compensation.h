// Delay compensation of a gradient (DC-ASGD; OD-SGD, equations 4 to 6): g was taken at `backup`; a
// first-order term carries it over to w, with lambda g g in place of the Hessian. Float arithmetic
// in the order written, as in kernels/update/optimizer.h; `out` may be `g`.
#pragma once

#include <cstddef>

namespace tern::kernels {

// The epsilon of equation 5: inside the root, never added to the state.
constexpr float kCompensationEpsilon = 1e-7f;

// Equation 4:
//   out = g + lambda * (g * g) * (w - backup)
void CompensateConstant(const float* g, const float* w, const float* backup, size_t n, float lambda,
                        float* out);
// Equations 6 and 5, in this order; one_minus_rho is rounded once:
//   ms  = rho * ms + one_minus_rho * (g * g)
//   out = g + (lambda / sqrt(ms + epsilon)) * (g * g) * (w - backup)
void CompensateAdaptive(const float* g, const float* w, const float* backup, float* ms, size_t n,
                        float lambda, float rho, float one_minus_rho, float* out);

}  // namespace tern::kernels

// Delay compensation of a gradient (DC-ASGD; OD-SGD, equations 4 to 6): g was taken at `backup`,
// and is carried over to w by a first-order term whose Hessian is approximated by lambda g g. Float
// arithmetic in the order written, as kernels/optimizer.h; `out` may be `g`.
#pragma once

#include <cstddef>

namespace tern::kernels {

// epsilon of equation 5: inside the root, and never added to the state.
constexpr float kCompensationEpsilon = 1e-7f;

// out = g + lambda * (g * g) * (w - backup)   (equation 4)
void CompensateConstant(const float* g, const float* w, const float* backup, size_t n, float lambda,
                        float* out);
// ms = rho * ms + fresh * (g * g); out = g + (lambda / sqrt(ms + epsilon)) * (g * g) * (w - backup)
// (equations 6 and 5, in this order; fresh: 1 - rho, rounded once)
void CompensateAdaptive(const float* g, const float* w, const float* backup, float* ms, size_t n,
                        float lambda, float rho, float fresh, float* out);

}  // namespace tern::kernels

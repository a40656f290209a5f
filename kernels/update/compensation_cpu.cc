// Delay compensation of compensation.h, compiled once for each instruction set by Highway.
#include <cmath>

#include "kernels/update/compensation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/update/compensation_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The compiler vectorizes the loops below.
HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

void CompensateConstant(const float* g, const float* w, const float* backup, size_t n, float lambda,
                        float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = g[i] + lambda * (g[i] * g[i]) * (w[i] - backup[i]);
}

void CompensateAdaptive(const float* g, const float* w, const float* backup, float* ms, size_t n,
                        float lambda, float rho, float one_minus_rho, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const float square = g[i] * g[i];
    const float mean_square = rho * ms[i] + one_minus_rho * square;
    const float scaled_lambda = lambda / std::sqrt(mean_square + kCompensationEpsilon);
    ms[i] = mean_square;
    out[i] = g[i] + scaled_lambda * square * (w[i] - backup[i]);
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(CompensateConstant);
HWY_EXPORT(CompensateAdaptive);

void CompensateConstant(const float* g, const float* w, const float* backup, size_t n, float lambda,
                        float* out) {
  HWY_DYNAMIC_DISPATCH(CompensateConstant)(g, w, backup, n, lambda, out);
}

void CompensateAdaptive(const float* g, const float* w, const float* backup, float* ms, size_t n,
                        float lambda, float rho, float one_minus_rho, float* out) {
  HWY_DYNAMIC_DISPATCH(CompensateAdaptive)(g, w, backup, ms, n, lambda, rho, one_minus_rho, out);
}

}  // namespace tern::kernels
#endif

#include "kernels/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The rules as written are the reference; the compiler widens the loops for each target. It may:
// elements do not meet, and contraction is off.
HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

void AddDecay(const float* g, const float* w, size_t n, float decay, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = g[i] + decay * w[i];
}

void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay) {
  for (size_t i = 0; i < n; ++i) w[i] -= lr * (g[i] + decay * w[i]);
}

void MomentumUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                    size_t n, float lr, float m, float decay) {
  for (size_t i = 0; i < n; ++i) {
    v[i] = m * v[i] + (g[i] + decay * w[i]);
    w[i] -= lr * v[i];
  }
}

void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay) {
  for (size_t i = 0; i < n; ++i) average[i] -= one_minus_decay * (average[i] - w[i]);
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(AddDecay);
HWY_EXPORT(SgdUpdate);
HWY_EXPORT(MomentumUpdate);
HWY_EXPORT(EmaUpdate);

void AddDecay(const float* g, const float* w, size_t n, float decay, float* out) {
  HWY_DYNAMIC_DISPATCH(AddDecay)(g, w, n, decay, out);
}

void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay) {
  HWY_DYNAMIC_DISPATCH(SgdUpdate)(w, g, n, lr, decay);
}

void MomentumUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay) {
  HWY_DYNAMIC_DISPATCH(MomentumUpdate)(w, v, g, n, lr, m, decay);
}

void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay) {
  HWY_DYNAMIC_DISPATCH(EmaUpdate)(average, w, n, one_minus_decay);
}

}  // namespace tern::kernels
#endif

// The update rules of optimizer.h, compiled once for each instruction set by Highway.
#include <cmath>

#include "kernels/update/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/update/optimizer_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// The compiler vectorizes the loops below, except that of MomentumUpdate. For that, the build turns
// off errno for roots, and HWY_RESTRICT says that the arrays of a function do not overlap. The
// build also turns off fused multiply-add, which would change bits.
HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void Scale(float* x, size_t n, float factor) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

void AddDecay(const float* g, const float* w, size_t n, float decay, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = g[i] + decay * w[i];
}

void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay) {
  for (size_t i = 0; i < n; ++i) w[i] -= lr * (g[i] + decay * w[i]);
}

// Most jobs use this rule, so it should be as fast as memory. The vector operations are explicit,
// because compilers often do not choose the widest vectors.
void MomentumUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                    size_t n, float lr, float m, float decay) {
  const hn::CappedTag<float, 16> d;
  const auto update = [&](auto d, size_t i) HWY_ATTR {
    const auto old_weights = hn::LoadU(d, w + i);
    const auto decayed = hn::Add(hn::LoadU(d, g + i), hn::Mul(hn::Set(d, decay), old_weights));
    const auto velocity = hn::Add(hn::Mul(hn::Set(d, m), hn::LoadU(d, v + i)), decayed);
    hn::StoreU(velocity, d, v + i);
    hn::StoreU(hn::Sub(old_weights, hn::Mul(hn::Set(d, lr), velocity)), d, w + i);
  };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) update(d, i);
  for (; i < n; ++i) update(hn::CappedTag<float, 1>(), i);
}

void NesterovUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                    size_t n, float lr, float m, float decay) {
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * w[i];
    v[i] = m * v[i] + d;
    w[i] -= lr * (d + m * v[i]);
  }
}

void LarsUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT v, const float* HWY_RESTRICT g, size_t n,
                float lr, float local_rate, float m, float decay) {
  for (size_t i = 0; i < n; ++i) {
    v[i] = m * v[i] + local_rate * (g[i] + decay * w[i]);
    w[i] -= lr * v[i];
  }
}

void AdamUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT m, float* HWY_RESTRICT v,
                const float* HWY_RESTRICT g, size_t n, const AdamStep& step, float decay) {
  const AdamStep s = step;
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * w[i];
    m[i] = s.beta1 * m[i] + s.one_minus_beta1 * d;
    v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (d * d);
    w[i] -= s.rate * (m[i] / (std::sqrt(v[i]) * s.root + s.epsilon));
  }
}

void RmspropUpdate(float* HWY_RESTRICT w, float* HWY_RESTRICT v, float* HWY_RESTRICT s,
                   const float* HWY_RESTRICT g, size_t n, const RmspropStep& step, float decay) {
  const RmspropStep c = step;
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * w[i];
    s[i] = c.rho * s[i] + c.one_minus_rho * (d * d);
    v[i] = c.momentum * v[i] + c.lr * (d / std::sqrt(s[i] + c.epsilon));
    w[i] -= v[i];
  }
}

void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay) {
  for (size_t i = 0; i < n; ++i) average[i] -= one_minus_decay * (average[i] - w[i]);
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(Scale);
HWY_EXPORT(AddDecay);
HWY_EXPORT(SgdUpdate);
HWY_EXPORT(MomentumUpdate);
HWY_EXPORT(NesterovUpdate);
HWY_EXPORT(LarsUpdate);
HWY_EXPORT(AdamUpdate);
HWY_EXPORT(RmspropUpdate);
HWY_EXPORT(EmaUpdate);

void Scale(float* x, size_t n, float factor) { HWY_DYNAMIC_DISPATCH(Scale)(x, n, factor); }

void AddDecay(const float* g, const float* w, size_t n, float decay, float* out) {
  HWY_DYNAMIC_DISPATCH(AddDecay)(g, w, n, decay, out);
}

void SgdUpdate(float* w, const float* g, size_t n, float lr, float decay) {
  HWY_DYNAMIC_DISPATCH(SgdUpdate)(w, g, n, lr, decay);
}

void MomentumUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay) {
  HWY_DYNAMIC_DISPATCH(MomentumUpdate)(w, v, g, n, lr, m, decay);
}

void NesterovUpdate(float* w, float* v, const float* g, size_t n, float lr, float m, float decay) {
  HWY_DYNAMIC_DISPATCH(NesterovUpdate)(w, v, g, n, lr, m, decay);
}

void LarsUpdate(float* w, float* v, const float* g, size_t n, float lr, float local_rate, float m,
                float decay) {
  HWY_DYNAMIC_DISPATCH(LarsUpdate)(w, v, g, n, lr, local_rate, m, decay);
}

void AdamUpdate(float* w, float* m, float* v, const float* g, size_t n, const AdamStep& step,
                float decay) {
  HWY_DYNAMIC_DISPATCH(AdamUpdate)(w, m, v, g, n, step, decay);
}

void RmspropUpdate(float* w, float* v, float* s, const float* g, size_t n, const RmspropStep& step,
                   float decay) {
  HWY_DYNAMIC_DISPATCH(RmspropUpdate)(w, v, s, g, n, step, decay);
}

void EmaUpdate(float* average, const float* w, size_t n, float one_minus_decay) {
  HWY_DYNAMIC_DISPATCH(EmaUpdate)(average, w, n, one_minus_decay);
}

}  // namespace tern::kernels
#endif

// Element-wise layers on a CPU (elementwise.h), compiled once for each instruction set by Highway.
#include <cstddef>

#include "kernels/nn/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/elementwise_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void ReluFrom(D d, size_t i, const float* x, float upper, float* y) {
  // With this order of arguments a NaN stays NaN.
  const auto positive = hn::Max(hn::Zero(d), hn::LoadU(d, x + i));
  hn::StoreU(hn::Min(hn::Set(d, upper), positive), d, y + i);
}

void ReluForward(const float* x, uint64_t n, float upper, float* y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) ReluFrom(d, i, x, upper, y);
  for (; i < n; ++i) ReluFrom(d1, i, x, upper, y);
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(ReluForward);

void ReluForward(const float* x, uint64_t n, float upper, float* y) {
  HWY_DYNAMIC_DISPATCH(ReluForward)(x, n, upper, y);
}

}  // namespace tern::kernels
#endif

// Batch norm (batch_norm.h) on a CPU, vectorized, compiled once for each instruction set by
// Highway.
#include <cstdint>
#include <limits>

#include "kernels/nn/batch_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/batch_norm_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::CappedTag<float, kNormChannels>;
using SingleTag = hn::CappedTag<float, 1>;

constexpr size_t kVectorBytes = 64;  // bytes of a vector on the widest target

// Calls process(d, c) for vectors of channels, where d is the tag of the vector's type and c its
// first channel.
template <typename Process>
HWY_INLINE void ForChannels(size_t channels, const Process& process) {
  const WideTag d;
  size_t c = 0;
  for (; c + hn::Lanes(d) <= channels; c += hn::Lanes(d)) process(d, c);
  for (; c < channels; ++c) process(SingleTag(), c);
}

// Computes g for the channels of one vector: dy, but 0 where a ReLU follows and its output is 0.
template <typename D>
struct ReluMask {
  HWY_INLINE ReluMask(D tag, const NormMask& mask, size_t c)
      : d(tag), has_relu(mask.has_relu), y(mask.y == nullptr ? nullptr : mask.y + c) {
    scale = hn::LoadU(d, mask.scale + c);
    shift = hn::LoadU(d, mask.shift + c);
  }
  // Returns g for the row that begins at offset `index` of the slab. `x` is the input.
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> dy, hn::Vec<D> x, size_t index) const {
    if (!has_relu) return dy;
    const auto out = y != nullptr ? hn::LoadU(d, y + index) : hn::MulAdd(x, scale, shift);
    return hn::IfThenElseZero(hn::Gt(out, hn::Zero(d)), dy);
  }
  D d;
  bool has_relu;
  const float* y;
  hn::Vec<D> scale, shift;
};

// Adds a vector to the numbers at `sums`.
template <typename D>
HWY_INLINE void AddVector(D d, hn::Vec<D> value, float* sums) {
  hn::StoreU(hn::Add(hn::LoadU(d, sums), value), d, sums);
}

void NormMoments(const float* x, const Slab& slab, const float* pivot, float* sum, float* squares) {
  ForChannels(slab.channels, [&](auto d, size_t c) HWY_ATTR {
    const auto pivots = hn::LoadU(d, pivot + c);
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), squares0 = hn::Zero(d), squares1 = hn::Zero(d);
    const float* row_values = x + c;
    size_t row = 0;
    for (; row + 2 <= slab.rows; row += 2, row_values += 2 * slab.stride) {
      const auto a = hn::Sub(hn::LoadU(d, row_values), pivots);
      const auto b = hn::Sub(hn::LoadU(d, row_values + slab.stride), pivots);
      sum0 = hn::Add(sum0, a);
      sum1 = hn::Add(sum1, b);
      squares0 = hn::MulAdd(a, a, squares0);
      squares1 = hn::MulAdd(b, b, squares1);
    }
    if (row < slab.rows) {
      const auto a = hn::Sub(hn::LoadU(d, row_values), pivots);
      sum0 = hn::Add(sum0, a);
      squares0 = hn::MulAdd(a, a, squares0);
    }
    AddVector(d, hn::Add(sum0, sum1), sum + c);
    AddVector(d, hn::Add(squares0, squares1), squares + c);
  });
}

void NormApply(const float* x, const float* r, const Slab& slab, const float* scale,
               const float* shift, bool has_relu, bool bypasses_caches, float* y) {
  const bool is_aligned =
      slab.stride % kNormChannels == 0 && reinterpret_cast<uintptr_t>(y) % kVectorBytes == 0;
  const bool uses_stream_store = bypasses_caches && is_aligned;
  ForChannels(slab.channels, [&](auto d, size_t c) HWY_ATTR {
    const auto scales = hn::LoadU(d, scale + c), shifts = hn::LoadU(d, shift + c);
    const auto lower_bound = hn::Set(d, has_relu ? 0 : -std::numeric_limits<float>::infinity());
    for (size_t row = 0, index = c; row < slab.rows; ++row, index += slab.stride) {
      auto out = hn::MulAdd(hn::LoadU(d, x + index), scales, shifts);
      if (r != nullptr) out = hn::Add(out, hn::LoadU(d, r + index));
      out = hn::Max(lower_bound, out);  // With this order of arguments a NaN stays NaN.
      uses_stream_store ? hn::Stream(out, d, y + index) : hn::StoreU(out, d, y + index);
    }
  });
}

void NormBackwardSums(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                      const float* mean, float* sum, float* product, float* g) {
  ForChannels(slab.channels, [&](auto d, size_t c) HWY_ATTR {
    const ReluMask mask_dy(d, mask, c);
    const auto means = hn::LoadU(d, mean + c);
    auto sum_g = hn::Zero(d), sum_product = hn::Zero(d);
    for (size_t row = 0, index = c; row < slab.rows; ++row, index += slab.stride) {
      const auto input = hn::LoadU(d, x + index);
      const auto gradient = mask_dy(hn::LoadU(d, dy + index), input, index - c);
      if (g != nullptr) hn::StoreU(gradient, d, g + index);
      sum_g = hn::Add(sum_g, gradient);
      sum_product = hn::MulAdd(gradient, hn::Sub(input, means), sum_product);
    }
    AddVector(d, sum_g, sum + c);
    AddVector(d, sum_product, product + c);
  });
}

void NormBackwardApply(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                       const float* mean, const float* scale, const float* slope,
                       const float* offset, float* dx) {
  ForChannels(slab.channels, [&](auto d, size_t c) HWY_ATTR {
    const ReluMask mask_dy(d, mask, c);
    const auto means = hn::LoadU(d, mean + c), scales = hn::LoadU(d, scale + c);
    const auto slopes = hn::LoadU(d, slope + c), offsets = hn::LoadU(d, offset + c);
    for (size_t row = 0, index = c; row < slab.rows; ++row, index += slab.stride) {
      const auto input = hn::LoadU(d, x + index);
      const auto gradient = mask_dy(hn::LoadU(d, dy + index), input, index - c);
      const auto mean_terms = hn::MulAdd(slopes, hn::Sub(input, means), offsets);
      hn::StoreU(hn::MulAdd(scales, gradient, mean_terms), d, dx + index);
    }
  });
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(NormMoments);
HWY_EXPORT(NormApply);
HWY_EXPORT(NormBackwardSums);
HWY_EXPORT(NormBackwardApply);

void NormMoments(const float* x, const Slab& slab, const float* pivot, float* sum, float* squares) {
  HWY_DYNAMIC_DISPATCH(NormMoments)(x, slab, pivot, sum, squares);
}

void NormApply(const float* x, const float* r, const Slab& slab, const float* scale,
               const float* shift, bool has_relu, bool bypasses_caches, float* y) {
  HWY_DYNAMIC_DISPATCH(NormApply)(x, r, slab, scale, shift, has_relu, bypasses_caches, y);
}

void NormBackwardSums(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                      const float* mean, float* sum, float* product, float* g) {
  HWY_DYNAMIC_DISPATCH(NormBackwardSums)(x, dy, slab, mask, mean, sum, product, g);
}

void NormBackwardApply(const float* x, const float* dy, const Slab& slab, const NormMask& mask,
                       const float* mean, const float* scale, const float* slope,
                       const float* offset, float* dx) {
  HWY_DYNAMIC_DISPATCH(NormBackwardApply)(x, dy, slab, mask, mean, scale, slope, offset, dx);
}

}  // namespace tern::kernels
#endif

// The rotations of rotate.h, vectorized, compiled once for each instruction set by Highway.
#include "kernels/codes/rotate_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/rotate_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void Rotate(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  RotateRef(x, begin, n, rotation, y);
}
void RotateBack(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x) {
  RotateBackRef(y, begin, n, rotation, x);
}

#else

using DF = hn::CappedTag<float, 8>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
constexpr size_t kMaxLanes = 8;
// How many vectors the first stages have in registers.
constexpr size_t kVectors = 8;

// Returns v times the signs of elements [i, i + Lanes) of the block. REQUIRES `i` to be a multiple
// of the number of lanes.
HWY_INLINE VF TimesSigns(VF v, const uint32_t* signs, size_t i) {
  const DU du;
  const auto word = hn::Set(du, signs[i / 32]);
  const auto last_bit = hn::Set(du, static_cast<uint32_t>(31 - i % 32));
  const auto first_bits = hn::Shl(word, hn::Sub(last_bit, hn::Iota(du, 0)));
  return hn::Xor(v, hn::BitCast(DF(), hn::And(first_bits, hn::Set(du, 0x80000000))));
}

// Returns a + b in the lanes whose number has not the bit `distance`, and a - b in the others, for
// the elements a and b of v whose lane numbers differ in this bit. `partners` is v with a and b
// exchanged. -b + a has the bits of a - b, and so has the fused -1 * b + a, whose product is exact.
HWY_INLINE VF Butterfly(VF v, VF partners, uint32_t distance) {
  const DF d;
  const DU du;
  const auto has_bit = hn::And(hn::Iota(du, 0), hn::Set(du, distance));
  const auto is_sum = hn::RebindMask(d, hn::Eq(has_bit, hn::Zero(du)));
  return hn::MulAdd(v, hn::IfThenElse(is_sum, hn::Set(d, 1.f), hn::Set(d, -1.f)), partners);
}

// The stages whose distances are less than the number of lanes.
template <class D>
HWY_INLINE VF StagesWithinVector(D d, VF v) {
  v = Butterfly(v, hn::Reverse2(d, v), 1);
  v = Butterfly(v, hn::Shuffle1032(v), 2);
  if constexpr (hn::MaxLanes(d) > 4) v = Butterfly(v, hn::SwapAdjacentBlocks(v), 4);
  return v;
}

// The stages with distances of 1, 2, ... num / 2 vectors, of `num` vectors.
template <size_t num>
HWY_INLINE void StagesOfVectors(VF* v) {
#pragma GCC unroll 3
  for (size_t distance = 1; distance < num; distance *= 2) {
#pragma GCC unroll 8
    for (size_t i = 0; i < num; ++i) {
      if ((i & distance) != 0) continue;
      const VF a = v[i], b = v[i + distance];
      v[i] = hn::Add(a, b);
      v[i + distance] = hn::Sub(a, b);
    }
  }
}

// Multiplies the elements by their signs, if `with_signs`, and by the factor; then the stages with
// distances less than kVectors vectors.
template <bool with_signs>
void FirstStages(const float* x, size_t n, const uint32_t* signs, float factor, float* y) {
  const DF d;
  const size_t num_lanes = hn::Lanes(d);
  for (size_t at = 0; at < n; at += kVectors * num_lanes) {
    VF v[kVectors];
#pragma GCC unroll 8
    for (size_t k = 0; k < kVectors; ++k) {
      v[k] = hn::LoadU(d, x + at + k * num_lanes);
      if constexpr (with_signs) v[k] = TimesSigns(v[k], signs + at / 32, k * num_lanes);
      v[k] = StagesWithinVector(d, hn::Mul(v[k], hn::Set(d, factor)));
    }
    StagesOfVectors<kVectors>(v);
#pragma GCC unroll 8
    for (size_t k = 0; k < kVectors; ++k) hn::StoreU(v[k], d, y + at + k * num_lanes);
  }
}

// The stages with distances `stride`, 2 stride, ..., num / 2 stride, where num is a power of two.
// Then multiplies the elements by their signs, if `with_signs`.
template <size_t num, bool with_signs>
void NextStages(size_t n, size_t stride, const uint32_t* signs, float* y) {
  const DF d;
  const size_t num_lanes = hn::Lanes(d);
  for (size_t begin = 0; begin < n; begin += num * stride) {
    for (size_t i = begin; i < begin + stride; i += num_lanes) {
      VF v[num];
#pragma GCC unroll 8
      for (size_t k = 0; k < num; ++k) v[k] = hn::LoadU(d, y + i + k * stride);
      StagesOfVectors<num>(v);
#pragma GCC unroll 8
      for (size_t k = 0; k < num; ++k) {
        const size_t at = i + k * stride;
        if constexpr (with_signs) v[k] = TimesSigns(v[k], signs, at);
        hn::StoreU(v[k], d, y + at);
      }
    }
  }
}

// The last stages of a block, of which `num` elements each are combined.
template <bool with_signs>
void LastStages(size_t n, size_t stride, const uint32_t* signs, float* y) {
  switch (n / stride) {
    case 1:
      return NextStages<1, with_signs>(n, stride, signs, y);
    case 2:
      return NextStages<2, with_signs>(n, stride, signs, y);
    case 4:
      return NextStages<4, with_signs>(n, stride, signs, y);
    default:
      return NextStages<8, with_signs>(n, stride, signs, y);
  }
}

template <bool back>
void RotateBlock(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  if (n < kMaxLanes * kVectors) return RotateBlockRef(x, begin, n, rotation, back, y);
  uint32_t signs[kMaxRotation / 32];
  FillSigns(rotation, begin, n, signs);
  FirstStages<!back>(x, n, signs, RotationFactor(n), y);
  size_t stride = kVectors * hn::Lanes(DF());
  for (; n / stride > 8; stride *= 8) NextStages<8, false>(n, stride, signs, y);
  if (back || stride < n) LastStages<back>(n, stride, signs, y);
}

void Rotate(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  ForEachBlock(n, rotation.block, [&](size_t at, size_t size) {
    RotateBlock<false>(x + at, begin + at, size, rotation, y + at);
  });
}
void RotateBack(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x) {
  ForEachBlock(n, rotation.block, [&](size_t at, size_t size) {
    RotateBlock<true>(y + at, begin + at, size, rotation, x + at);
  });
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(Rotate);
HWY_EXPORT(RotateBack);

void Rotate(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  HWY_DYNAMIC_DISPATCH(Rotate)(x, begin, n, rotation, y);
}
void RotateBack(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x) {
  HWY_DYNAMIC_DISPATCH(RotateBack)(y, begin, n, rotation, x);
}

}  // namespace tern::kernels
#endif

// The rotations of rotate.h, vectorized, compiled once for each instruction set by Highway.
#include "kernels/codes/rotate_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/rotate_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/philox_hwy.h"

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

// The fewest elements whose signs fill a vector of Philox blocks.
HWY_INLINE size_t ElementsOfPhiloxVector() { return hn::Lanes(D64()) * kSignsOfPhilox; }

// FillSigns (rotate_math.h) for at least ElementsOfPhiloxVector() elements.
void FillManySigns(const Rotation& rotation, uint64_t begin, size_t n, uint32_t* signs) {
  const D64 d;
  const size_t num_blocks = n / kSignsOfPhilox, num_lanes = hn::Lanes(d);
  const Philox philox(SignKey(rotation));
  V64 blocks = InBlockOrder(static_cast<uint32_t>(begin / kSignsOfPhilox));
  for (size_t i = 0; i < num_blocks; i += num_lanes) {
    V64 c0, c1, c2, c3;
    FirstTwoRounds(philox, blocks, &c0, &c1, &c2, &c3);
    for (int round = 2; round < 10; ++round)
      DoRound(hn::Set(d, philox.key0[round]), hn::Set(d, philox.key1[round]), &c0, &c1, &c2, &c3);
    V16 lower, upper;
    PackDraws(c0, c1, c2, c3, &lower, &upper);
    hn::StoreU(hn::BitCast(D32(), lower), D32(), signs + 4 * i);
    hn::StoreU(hn::BitCast(D32(), upper), D32(), signs + 4 * i + 2 * num_lanes);
    blocks = hn::Add(blocks, hn::Set(d, num_lanes));
  }
}

// Returns numbers whose first bits are set where the signs of elements [i, i + Lanes) of the block
// are negative. REQUIRES `i` to be a multiple of the number of lanes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SignsInFirstBits(D d, const uint32_t* signs, size_t i) {
  const hn::RebindToUnsigned<D> du;
  const auto word = hn::Set(du, signs[i / 32]);
  const auto last_bit = hn::Set(du, static_cast<uint32_t>(31 - i % 32));
  return hn::BitCast(d, hn::Shl(word, hn::Sub(last_bit, hn::Iota(du, 0))));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FirstBit(D d) {
  return hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x80000000));
}
// Returns v times the signs, and a factor above 0 times the signs.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesSigns(D d, V v, const uint32_t* signs, size_t i) {
  return hn::Xor(v, hn::And(SignsInFirstBits(d, signs, i), FirstBit(d)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FactorTimesSigns(D d, float factor, const uint32_t* signs, size_t i) {
  return hn::OrAnd(hn::Set(d, factor), SignsInFirstBits(d, signs, i), FirstBit(d));
}

// Returns a + b in the lanes whose number has not the bit `distance`, and a - b in the others, for
// the elements a and b of v whose lane numbers differ in this bit. `partners` is v with a and b
// exchanged. -b + a has the bits of a - b, and so has the fused -1 * b + a, whose product is exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Butterfly(D d, V v, V partners, uint32_t distance) {
  const hn::RebindToUnsigned<D> du;
  const auto has_bit = hn::And(hn::Iota(du, 0), hn::Set(du, distance));
  const auto is_sum = hn::RebindMask(d, hn::Eq(has_bit, hn::Zero(du)));
  return hn::MulAdd(v, hn::IfThenElse(is_sum, hn::Set(d, 1.f), hn::Set(d, -1.f)), partners);
}

// The stages whose distances are less than the number of lanes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V StagesWithinVector(D d, V v) {
  v = Butterfly(d, v, hn::Reverse2(d, v), 1);
  v = Butterfly(d, v, hn::Shuffle1032(v), 2);
  if constexpr (hn::MaxLanes(d) > 4) v = Butterfly(d, v, hn::SwapAdjacentBlocks(v), 4);
  if constexpr (hn::MaxLanes(d) > 8) v = Butterfly(d, v, hn::ConcatLowerUpper(d, v, v), 8);
  return v;
}

// The stages with distances of 1, 2, ... num / 2 vectors, of `num` vectors.
template <size_t num, class D, class V = hn::Vec<D>>
HWY_INLINE void StagesOfVectors(D, V* v) {
#pragma GCC unroll 4
  for (size_t distance = 1; distance < num; distance *= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < num; ++i) {
      if ((i & distance) != 0) continue;
      const V a = v[i], b = v[i + distance];
      v[i] = hn::Add(a, b);
      v[i + distance] = hn::Sub(a, b);
    }
  }
}

// Elements so far apart have the same place in the first cache, which has 8 to 12 such places.
constexpr size_t kConflictStride = 4096 / sizeof(float);

// The rotation of one block with vectors D, of which `kVectors` are in registers at a time.
template <class D, size_t kVectors>
class BlockRotation {
 public:
  using V = hn::Vec<D>;
  // The fewest elements that a block may have.
  static size_t MinElements() { return kVectors * hn::Lanes(D()); }

  template <bool back>
  static void Run(const float* x, size_t n, const uint32_t* signs, float* y) {
    FirstStages<!back>(x, n, signs, RotationFactor(n), y);
    size_t stride = MinElements();
    for (; n / stride > kVectors; stride *= kVectors)
      NextStages<kVectors, false>(n, stride, signs, y);
    if constexpr (kVectors > 8) {
      if (stride >= kConflictStride && n / stride > 8) {
        NextStages<8, false>(n, stride, signs, y);
        stride *= 8;
      }
    }
    if (back || stride < n) LastStages<kVectors, back>(n, stride, signs, y);
  }

 private:
  // Multiplies the elements by their signs, if `with_signs`, and by the factor; then the stages
  // with distances less than kVectors vectors.
  template <bool with_signs>
  static void FirstStages(const float* x, size_t n, const uint32_t* signs, float factor, float* y) {
    const D d;
    const size_t num_lanes = hn::Lanes(d);
    for (size_t at = 0; at < n; at += kVectors * num_lanes) {
      V v[kVectors];
#pragma GCC unroll 16
      for (size_t k = 0; k < kVectors; ++k) {
        auto signed_factor = hn::Set(d, factor);
        if constexpr (with_signs)
          signed_factor = FactorTimesSigns(d, factor, signs + at / 32, k * num_lanes);
        v[k] = StagesWithinVector(d, hn::Mul(hn::LoadU(d, x + at + k * num_lanes), signed_factor));
      }
      StagesOfVectors<kVectors>(d, v);
#pragma GCC unroll 16
      for (size_t k = 0; k < kVectors; ++k) hn::StoreU(v[k], d, y + at + k * num_lanes);
    }
  }

  // The stages with distances `stride`, 2 stride, ..., num / 2 stride, where num is a power of two.
  // Then multiplies the elements by their signs, if `with_signs`.
  template <size_t num, bool with_signs>
  static void NextStages(size_t n, size_t stride, const uint32_t* signs, float* y) {
    const D d;
    const size_t num_lanes = hn::Lanes(d);
    for (size_t begin = 0; begin < n; begin += num * stride) {
      for (size_t i = begin; i < begin + stride; i += num_lanes) {
        V v[num];
        const float* from = y + i;
#pragma GCC unroll 16
        for (size_t k = 0; k < num; ++k, from += stride) v[k] = hn::LoadU(d, from);
        StagesOfVectors<num>(d, v);
        float* to = y + i;
#pragma GCC unroll 16
        for (size_t k = 0; k < num; ++k, to += stride) {
          if constexpr (with_signs) v[k] = TimesSigns(d, v[k], signs, i + k * stride);
          hn::StoreU(v[k], d, to);
        }
      }
    }
  }

  // The last stages of a block, in which n / stride elements each are combined, at most `num`.
  template <size_t num, bool with_signs>
  static void LastStages(size_t n, size_t stride, const uint32_t* signs, float* y) {
    if constexpr (num > 1) {
      if (n / stride < num) return LastStages<num / 2, with_signs>(n, stride, signs, y);
    }
    NextStages<num, with_signs>(n, stride, signs, y);
  }
};

using Narrow = BlockRotation<hn::CappedTag<float, 8>, 8>;
// For targets with twice as many registers of twice the size.
using Wide = BlockRotation<hn::CappedTag<float, 16>, 16>;

template <bool back>
void RotateBlock(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  if (n < Narrow::MinElements()) return RotateBlockRef(x, begin, n, rotation, back, y);
  uint32_t signs[kMaxRotation / 32];
  if (n < ElementsOfPhiloxVector())
    FillSigns(rotation, begin, n, signs);
  else
    FillManySigns(rotation, begin, n, signs);
  if constexpr (hn::MaxLanes(hn::CappedTag<float, 16>()) > 8) {
    if (n >= Wide::MinElements()) return Wide::Run<back>(x, n, signs, y);
  }
  Narrow::Run<back>(x, n, signs, y);
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

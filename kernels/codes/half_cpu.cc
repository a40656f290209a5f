// Vectorized conversions of half.h, compiled once for each instruction set by Highway.
#include <bit>
#include <cstdint>

#include "kernels/codes/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/half_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Computes the bits of the results instead of using the CPU's conversion instructions, whose
// results for NaN and overflow differ between CPUs. This is not slower, because memory is the
// bottleneck.
HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void FloatToHalf(const float* x, size_t n, uint16_t* half) { FloatToHalfRef(x, n, half); }
void HalfToFloat(const uint16_t* half, size_t n, float* x) { HalfToFloatRef(half, n, x); }

#else

// The first four constants are floats, as the integers that have the same bits.
constexpr int32_t kSignBit = INT32_MIN;
constexpr int32_t kInfinity = 0x7F800000;
constexpr int32_t kLargestHalf = 0x477FE000;     // 65504, the largest half
constexpr int32_t kSmallestNormal = 0x38800000;  // 2^-14, the smallest normal half
// The difference between the exponent biases of float (127) and half (15).
constexpr int32_t kBiasDifference = 112;

template <class D>
auto ToHalf(D df, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::BitCast(di, x);
  const auto sign = hn::And(bits, hn::Set(di, kSignBit));
  const auto magnitude = hn::Xor(bits, sign);
  const auto clamped = hn::Min(magnitude, hn::Set(di, kLargestHalf));
  const auto last_kept_bit = hn::And(hn::ShiftRight<13>(clamped), hn::Set(di, 1));
  const auto rounded = hn::Add(hn::Add(clamped, last_kept_bit), hn::Set(di, 0xFFF));
  const auto normal = hn::Sub(hn::ShiftRight<13>(rounded), hn::Set(di, kBiasDifference << 10));
  // Adding 0.5 rounds the value to a multiple of 2^-24, the unit of subnormal halves, because the
  // last bit of a float between 0.5 and 1 is worth 2^-24.
  const auto one_half = hn::Set(df, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(df, clamped), one_half)),
                                 hn::BitCast(di, one_half));
  auto half_result =
      hn::IfThenElse(hn::Lt(clamped, hn::Set(di, kSmallestNormal)), subnormal, normal);
  const auto infinity = hn::Set(di, kInfinity);
  half_result = hn::IfThenElse(hn::Eq(magnitude, infinity), hn::Set(di, 0x7C00), half_result);
  half_result = hn::IfThenElse(hn::Gt(magnitude, infinity), hn::Set(di, 0x7E00), half_result);
  const hn::RebindToUnsigned<D> du;
  const auto sign_half = hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, sign)));
  return hn::DemoteTo(dh, hn::Or(half_result, sign_half));
}

template <class D, class V>
hn::Vec<D> FromHalf(D df, V half) {
  const hn::RebindToSigned<D> di;
  const auto half_bits = hn::PromoteTo(di, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(half_bits, hn::Set(di, 0x8000)));
  const auto shifted_bits = hn::ShiftLeft<13>(hn::And(half_bits, hn::Set(di, 0x7FFF)));
  const auto bias_difference = hn::Set(di, kBiasDifference << 23);
  const auto normal = hn::Add(shifted_bits, bias_difference);
  const auto infinity_or_nan = hn::Add(normal, bias_difference);
  // Computes the subnormal value as (2^-14 + value) - 2^-14, which is exact.
  const auto smallest_normal = hn::Set(di, kSmallestNormal);
  const auto subnormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(df, hn::Add(shifted_bits, smallest_normal)),
                              hn::BitCast(df, smallest_normal)));
  auto magnitude = hn::IfThenElse(hn::Lt(shifted_bits, hn::Set(di, 1 << 23)), subnormal, normal);
  magnitude =
      hn::IfThenElse(hn::Lt(shifted_bits, hn::Set(di, 31 << 23)), magnitude, infinity_or_nan);
  return hn::BitCast(df, hn::Or(magnitude, sign));
}

void FloatToHalf(const float* x, size_t n, uint16_t* half) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const size_t num_lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + num_lanes <= n; i += num_lanes)
    hn::StoreU(ToHalf(df, hn::LoadU(df, x + i)), dh, half + i);
  const hn::CappedTag<float, 1> d1;
  const hn::Rebind<uint16_t, decltype(d1)> dh1;
  for (; i < n; ++i) hn::StoreU(ToHalf(d1, hn::LoadU(d1, x + i)), dh1, half + i);
}

void HalfToFloat(const uint16_t* half, size_t n, float* x) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const size_t num_lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + num_lanes <= n; i += num_lanes)
    hn::StoreU(FromHalf(df, hn::LoadU(dh, half + i)), df, x + i);
  const hn::CappedTag<float, 1> d1;
  const hn::Rebind<uint16_t, decltype(d1)> dh1;
  for (; i < n; ++i) hn::StoreU(FromHalf(d1, hn::LoadU(dh1, half + i)), d1, x + i);
}

#endif

// The compiler vectorizes the loops of the next two functions.
void FloatToBfloat(const float* HWY_RESTRICT x, size_t n, uint16_t* HWY_RESTRICT bfloat) {
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const uint32_t sign = bits & 0x80000000;
    const uint32_t magnitude = bits ^ sign;
    const uint32_t largest_bfloat = 0x7F7F0000;
    const uint32_t clamped = magnitude < largest_bfloat ? magnitude : largest_bfloat;
    const uint32_t rounded = (clamped + 0x7FFF + (clamped >> 16 & 1)) & 0xFFFF0000;
    const uint32_t quiet_bit = magnitude > 0x7F800000 ? 0x400000 : 0;
    const uint32_t result = magnitude < 0x7F800000 ? rounded : magnitude | quiet_bit;
    bfloat[i] = static_cast<uint16_t>((sign | result) >> 16);
  }
}

void BfloatToFloat(const uint16_t* HWY_RESTRICT bfloat, size_t n, float* HWY_RESTRICT x) {
  for (size_t i = 0; i < n; ++i) x[i] = std::bit_cast<float>(uint32_t{bfloat[i]} << 16);
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(FloatToHalf);
HWY_EXPORT(HalfToFloat);
HWY_EXPORT(FloatToBfloat);
HWY_EXPORT(BfloatToFloat);

void FloatToHalf(const float* x, size_t n, uint16_t* half) {
  HWY_DYNAMIC_DISPATCH(FloatToHalf)(x, n, half);
}

void HalfToFloat(const uint16_t* half, size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(HalfToFloat)(half, n, x);
}

void FloatToBfloat(const float* x, size_t n, uint16_t* bfloat) {
  HWY_DYNAMIC_DISPATCH(FloatToBfloat)(x, n, bfloat);
}

void BfloatToFloat(const uint16_t* bfloat, size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(BfloatToFloat)(bfloat, n, x);
}

}  // namespace tern::kernels
#endif

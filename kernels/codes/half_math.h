// Conversions of one number to and from 16-bit floats: IEEE half precision and bfloat16. They give
// the same bits on CPU and GPU; half.h says how they round.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/device/host_device.h"

namespace tern::kernels {

TERN_HOST_DEVICE uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

TERN_HOST_DEVICE float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

TERN_HOST_DEVICE uint16_t ToHalf(float x) {
  const auto bits = BitsOf(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;   // NaN
  if (magnitude == 0x7F800000) return sign | 0x7C00;  // infinity
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent < -25) return sign;  // less than 2^-25, which rounds to 0
  const uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
  // A normal half keeps 11 of the significand's 24 bits; below 2^-14, one bit less per power of 2.
  const int num_dropped = exponent >= -14 ? 13 : -1 - exponent;
  const uint32_t kept_bits = significand >> num_dropped;
  const uint32_t dropped_bits = significand & ((1u << num_dropped) - 1);
  const uint32_t half_unit = 1u << (num_dropped - 1);
  const uint32_t rounded =
      kept_bits +
      (dropped_bits > half_unit || (dropped_bits == half_unit && kept_bits % 2 == 1) ? 1 : 0);
  // The leading one of `rounded` adds one to the exponent field, and so does a carry.
  const uint32_t half =
      exponent >= -14 ? (static_cast<uint32_t>(exponent + 14) << 10) + rounded : rounded;
  return static_cast<uint16_t>(sign | (half > 0x7BFF ? 0x7BFF : half));
}

TERN_HOST_DEVICE float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 31) return FloatOf(sign | 0x7F800000 | fraction << 13);
  if (exponent > 0) return FloatOf(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

TERN_HOST_DEVICE uint16_t ToBfloat(float x) {
  const auto bits = BitsOf(x);
  const auto upper_half = static_cast<uint16_t>(bits >> 16);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return upper_half | 0x40;                      // a quiet NaN, even if the payload bits are lost
  if (magnitude == 0x7F800000) return upper_half;  // infinity
  const uint32_t lower_half = bits & 0xFFFF;
  if (lower_half < 0x8000 || (lower_half == 0x8000 && upper_half % 2 == 0)) return upper_half;
  return (upper_half & 0x7FFF) == 0x7F7F ? upper_half
                                         : upper_half + 1;  // a carry increments the exponent
}

TERN_HOST_DEVICE float FromBfloat(uint16_t bfloat) { return FloatOf(uint32_t{bfloat} << 16); }

}  // namespace tern::kernels

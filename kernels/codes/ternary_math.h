// Equation 2 for one element (ternary.h), with the same arithmetic on CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/codes/philox_math.h"

namespace tern::kernels {

// Whether the code of a value is not zero. False for a NaN and for an invalid s.
TERN_HOST_DEVICE bool Fires(float g, float s, float clip, const NoiseKey& key, uint64_t element) {
  const float magnitude = fabsf(g);
  if (!(magnitude > 0) || !(s > 0)) return false;
  const float x = magnitude < clip ? magnitude : clip;
  if (x >= s) return true;
  const float p = x / s;
  if (!(p > 0)) return false;
  const auto threshold = static_cast<uint64_t>(static_cast<double>(p) * 0x1p32);
  const uint32_t draw = NoiseDraw(key, element, 0) << 16 | NoiseDraw(key, element, 1);
  return draw < threshold;
}

// The same decision for eight elements, without divisions, draws of level 1 or branches; nearly all
// elements are decided here. Bit k of each word belongs to element k. An element that is not
// `unsure` fires unless it is `below`.
struct QuickCodes {
  uint32_t below = 0, negative = 0, unsure = 0;
};

// The constants of a part's quick decisions. Scale 0: no element fires. Scale NaN: no element is
// certain, because 1 / s or a product with it might overflow.
struct QuickScale {
  float clip, scale;
};

TERN_HOST_DEVICE QuickScale QuickScaleOf(float s, float clip) {
  if (!(s > 0) || !(clip > 0)) return {0, 0};
  return {clip, s > 0x1p-100f && s < 0x1p100f ? 0x1p16f / s : NAN};
}

// draw + 1/2, exactly, of the 16-bit draw at `position` of a block: the bits of the draw, put into
// those of 2^23.
TERN_HOST_DEVICE float DrawAndHalf(const PhiloxWords& draws, uint32_t position) {
  return FloatOf(0x4B000000 | DrawOf(draws, position)) - (0x1p23f - 0.5f);
}

// Let T = x / s * 2^16 (rounded) and draw16 = d. Then draw32 lies in [2^16 d, 2^16 (d + 1)): it is
// below floor(2^16 T) if d + 1 <= T, and not below if d >= T. So T - (d + 1/2) decides if it is at
// least 1/2 or at most -1/2. T <= 2^16, unless x >= s. x * scale is within a relative 2^-23 of T
// (2^16 / s and x / s are rounded once each), that is 2^-7; the rounding of the fma near 1/2 adds
// 2^-25. The margin is twice that.
TERN_HOST_DEVICE QuickCodes DecideQuickly(const float* g, const PhiloxWords& draws,
                                          const QuickScale& by) {
  constexpr float kDecides = 0.5f + 0x1p-6f;
  QuickCodes codes;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (uint32_t k = 8; k-- > 0;) {
    const float magnitude = fabsf(g[k]);
    const float x = magnitude > by.clip ? by.clip : magnitude;  // keeps a NaN
    const float above = fmaf(x, by.scale, -DrawAndHalf(draws, k));
    codes.below = codes.below << 1 | BitsOf(above) >> 31;
    codes.negative = codes.negative << 1 | BitsOf(g[k]) >> 31;
    codes.unsure |= fabsf(above) >= kDecides ? 0 : 1u << k;
  }
  return codes;
}

// For each byte, gathers the bits at the ones of `mask` at the byte's low end, by powers of two
// like Compress (bits_hwy.h), four bytes at once.
TERN_HOST_DEVICE uint32_t CompressBytes(uint32_t bits, uint32_t mask) {
  uint32_t zeros = ~mask << 1 & 0xFEFEFEFE;  // zeros of `mask` below each bit
  bits &= mask;
  for (uint32_t step = 1; step < 8; step *= 2) {
    uint32_t parity = zeros ^ (zeros << 1 & 0xFEFEFEFE);
    parity ^= parity << 2 & 0xFCFCFCFC;
    parity ^= parity << 4 & 0xF0F0F0F0;
    const uint32_t moving = parity & mask, moved = bits & moving;
    mask = (mask ^ moving) | moving >> step;
    bits = (bits ^ moved) | moved >> step;
    zeros &= ~parity;
  }
  return bits;
}

// The number of ones of each byte.
TERN_HOST_DEVICE uint32_t OnesOfBytes(uint32_t word) {
  word -= word >> 1 & 0x55555555;
  word = (word & 0x33333333) + (word >> 2 & 0x33333333);
  return (word + (word >> 4)) & 0x0F0F0F0F;
}

}  // namespace tern::kernels

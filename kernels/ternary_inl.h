// Equation 2 for one element (ternary.h), as CPU and GPU compute it.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/half_inl.h"
#include "kernels/philox_inl.h"

namespace tern::kernels {

// Whether the code of a value is not zero. A NaN gives 0, so does a bad s.
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

// The same for eight elements without a division, without the draw of level 1 and without a branch
// each: bit k of every word is element k's. Those that are not `unsure` fire if not `below`; nearly
// all are decided.
struct QuickCodes {
  uint32_t below = 0, negative = 0, unsure = 0;
};

// What a part's quick decisions need. A scale of 0: none fires; NaN: none is certain, as 1 / s, or
// what it is multiplied with, might overflow.
struct QuickScale {
  float clip, scale;
};

TERN_HOST_DEVICE QuickScale QuickScaleOf(float s, float clip) {
  if (!(s > 0) || !(clip > 0)) return {0, 0};
  return {clip, s > 0x1p-100f && s < 0x1p100f ? 0x1p16f / s : NAN};
}

// draw + 1/2, exactly, of the draw of place e % 8 of a block: its bits are those of 2^23 + draw.
TERN_HOST_DEVICE float DrawAndHalf(const PhiloxWords& draws, uint32_t place) {
  return FloatOf(0x4B000000 | DrawOf(draws, place)) - (0x1p23f - 0.5f);
}

// With T = x / s * 2^16 (rounded) and draw16 = d, draw32 lies in [2^16 d, 2^16 (d + 1)): it is
// below floor(2^16 T) if d + 1 <= T, and is not if d >= T. So T - (d + 1/2) decides from 1/2 on,
// and up to -1/2. T <= 2^16, or x >= s; x * scale is within 2^-23 of it (relative: 2^16 / s, and x
// / s itself, are rounded once each), which is 2^-7; the fma's own rounding of a result near 1/2
// adds 2^-25. The margin is twice that.
TERN_HOST_DEVICE QuickCodes DecideQuickly(const float* g, const PhiloxWords& draws,
                                          const QuickScale& by) {
  constexpr float kDecides = 0.5f + 0x1p-6f;
  QuickCodes codes;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (uint32_t k = 8; k-- > 0;) {
    const float magnitude = fabsf(g[k]);
    const float x = magnitude > by.clip ? by.clip : magnitude;  // a NaN stays one
    const float above = fmaf(x, by.scale, -DrawAndHalf(draws, k));
    codes.below = codes.below << 1 | BitsOf(above) >> 31;
    codes.negative = codes.negative << 1 | BitsOf(g[k]) >> 31;
    codes.unsure |= fabsf(above) >= kDecides ? 0 : 1u << k;
  }
  return codes;
}

// Of each byte the bits at the ones of `mask`, together at its low end: by halves of the way, like
// Compress (bits_inl.h), four bytes at once.
TERN_HOST_DEVICE uint32_t CompressBytes(uint32_t bits, uint32_t mask) {
  uint32_t zeros = ~mask << 1 & 0xFEFEFEFE;  // below each place
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

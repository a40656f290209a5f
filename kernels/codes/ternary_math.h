// TernGrad's decision whether the code of an element is not zero, that is, whether the element
// "fires" (ternary.h, equation 2), with the same arithmetic on CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/codes/philox_math.h"

namespace tern::kernels {

// Whether the element with the value g fires. False if g is NaN or s is not above 0.
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

// The least |margin| with which DecideQuickly is sure.
constexpr float kMinMargin = 0.5f + 0x1p-6f;

// The result of DecideQuickly, which makes the same decision for eight elements, without divisions
// and branches, from the upper 16 of the 32 random bits. Bit k of each member belongs to element k.
// `not_firing`: the element does not fire, if it is decided. `negative`: the sign of the value.
struct QuickCodes {
  uint32_t not_firing = 0, negative = 0;
  // The least |margin| of the eight elements, or NaN if one is NaN. If it is not at least
  // kMinMargin, which is rare, some of the elements are undecided.
  float min_margin = 1;
};

// The constants of DecideQuickly for one scaler s and clip level. `scale` is 2^16 / s. It is 0 if
// no element fires, and NaN, which leaves all elements undecided, if 2^16 / s or a product with it
// might overflow.
struct QuickScale {
  float clip, scale;
};

TERN_HOST_DEVICE QuickScale QuickScaleOf(float s, float clip) {
  if (!(s > 0) || !(clip > 0)) return {0, 0};
  return {clip, s > 0x1p-100f && s < 0x1p100f ? 0x1p16f / s : NAN};
}

// Returns the lesser of two floats, or NaN if one of them is NaN. One instruction on Ampere and
// newer; Turing does not have it.
TERN_HOST_DEVICE float MinOrNan(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float min;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(min) : "f"(a), "f"(b));
  return min;
#else
  return a < b || a != a ? a : b;
#endif
}

// Returns d + 1/2, exactly, for the 16-bit random number d at `position` of a block. Puts the bits
// of d into the low bits of the float 2^23, and subtracts 2^23 - 1/2.
TERN_HOST_DEVICE float DrawAndHalf(const PhiloxWords& draws, uint32_t position) {
#ifdef __CUDA_ARCH__
  const uint32_t low = (position & 2) == 0 ? draws.w[0] : draws.w[1];
  const uint32_t high = (position & 2) == 0 ? draws.w[2] : draws.w[3];
  // One instruction selects the two bytes of d and those of 2^23.
  const uint32_t bits =
      __byte_perm((position & 4) == 0 ? low : high, 0x4B00, position % 2 == 0 ? 0x5410 : 0x5432);
#else
  const uint32_t bits = 0x4B000000 | DrawOf(draws, position);
#endif
  return FloatOf(bits) - (0x1p23f - 0.5f);
}

// Decides for eight elements g as Fires does. Let x = min(|g|, clip), let d be the upper 16 bits of
// an element's 32 random bits, draw32, and let T = x / s * 2^16, where x / s is rounded to float.
// draw32 lies in [2^16 d, 2^16 (d + 1)), so that the element fires if d + 1 <= T, and does not if
// d >= T. So T - (d + 1/2) decides if its magnitude is at least 1/2. The code computes x * scale
// instead of T. T <= 2^16 unless x >= s, and x * scale differs from T by at most 2^-23 T (2^16 / s
// and x / s are each rounded), which is at most 2^-7. The rounding of the fma near 1/2 adds 2^-25.
// kMinMargin adds 2^-6 to 1/2, about twice the sum of these errors.
TERN_HOST_DEVICE QuickCodes DecideQuickly(const float* g, const PhiloxWords& draws,
                                          const QuickScale& quick) {
  QuickCodes codes;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (uint32_t k = 8; k-- > 0;) {
    const float x = MinOrNan(fabsf(g[k]), quick.clip);
    const float margin = fmaf(x, quick.scale, -DrawAndHalf(draws, k));
    codes.not_firing = codes.not_firing << 1 | BitsOf(margin) >> 31;
    codes.negative = codes.negative << 1 | BitsOf(g[k]) >> 31;
    codes.min_margin = MinOrNan(codes.min_margin, fabsf(margin));
  }
  return codes;
}

// In each of the four bytes, moves the bits of `bits` at the positions where `mask` is one to the
// low end of the byte, in order. A bit moves down by the number of zeros of `mask` below it, in
// steps of 1, 2 and 4 positions.
TERN_HOST_DEVICE uint32_t CompressBytes(uint32_t bits, uint32_t mask) {
  uint32_t zeros = ~mask << 1 & 0xFEFEFEFE;  // bit i: whether bit i - 1 of `mask` is zero
  bits &= mask;
  for (uint32_t step = 1; step < 8; step *= 2) {
    uint32_t parity = zeros ^ (zeros << 1 & 0xFEFEFEFE);
    parity ^= parity << 2 & 0xFCFCFCFC;
    parity ^= parity << 4 & 0xF0F0F0F0;
    const uint32_t move_mask = parity & mask, moved_bits = bits & move_mask;
    mask = (mask ^ move_mask) | move_mask >> step;
    bits = (bits ^ moved_bits) | moved_bits >> step;
    zeros &= ~parity;
  }
  return bits;
}

}  // namespace tern::kernels

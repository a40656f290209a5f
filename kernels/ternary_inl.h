// Equation 2 for one element (ternary.h), as CPU and GPU compute it.
#pragma once

#include <cmath>
#include <cstdint>

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

// The same without a division and without the draw of level 1, where that is certain; it nearly
// always is. With T = x / s * 2^16 and draw16 = d, draw32 lies in [2^16 d, 2^16 (d + 1)), so it is
// below floor(2^16 T) if d + 1 <= T, and is not if d >= T. x * inverse * 2^16 is within 2^-22 of T
// (relative; 1 / s, the product and x / s itself are each rounded once), 2^-6 where T <= 2^16.
enum class Fire { kNo, kYes, kUncertain };

// 1 / s, or NaN where nothing is certain: then 1 / s or what it is multiplied with may overflow.
TERN_HOST_DEVICE float InverseScaler(float s) {
  return s > 0x1p-100f && s < 0x1p100f ? 1 / s : NAN;
}

TERN_HOST_DEVICE Fire FiresQuickly(float g, float inverse, float clip, uint32_t draw16) {
  constexpr float kMargin = 0x1p-5f;
  const float magnitude = fabsf(g);
  if (!(magnitude > 0)) return Fire::kNo;
  const float x = magnitude < clip ? magnitude : clip;
  const float t = x * inverse * 0x1p16f;
  const auto d = static_cast<float>(draw16);
  if (d + (1 + kMargin) <= t) return Fire::kYes;
  if (d - kMargin >= t) return Fire::kNo;
  return Fire::kUncertain;
}

}  // namespace tern::kernels

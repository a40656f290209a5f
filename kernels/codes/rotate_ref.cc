// The rotations of rotate.h in scalar code.
#include "kernels/codes/rotate_math.h"

namespace tern::kernels {
namespace {

float TimesSign(float value, const uint32_t* signs, size_t i) {
  return (signs[i / 32] >> i % 32 & 1) != 0 ? -value : value;
}

}  // namespace

void RotateBlockRef(const float* x, uint64_t begin, size_t n, const Rotation& rotation, bool back,
                    float* y) {
  uint32_t signs[kMaxRotation / 32];
  FillSigns(rotation, begin, n, signs);
  const float factor = RotationFactor(n);
  for (size_t i = 0; i < n; ++i) y[i] = (back ? x[i] : TimesSign(x[i], signs, i)) * factor;
  for (size_t distance = 1; distance < n; distance *= 2) {
    for (size_t i = 0; i < n; ++i) {
      if ((i & distance) != 0) continue;
      const float a = y[i], b = y[i + distance];
      y[i] = a + b;
      y[i + distance] = a - b;
    }
  }
  if (!back) return;
  for (size_t i = 0; i < n; ++i) y[i] = TimesSign(y[i], signs, i);
}

void RotateRef(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y) {
  ForEachBlock(n, rotation.block, [&](size_t at, size_t size) {
    RotateBlockRef(x + at, begin + at, size, rotation, false, y + at);
  });
}

void RotateBackRef(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x) {
  ForEachBlock(n, rotation.block, [&](size_t at, size_t size) {
    RotateBlockRef(y + at, begin + at, size, rotation, true, x + at);
  });
}

}  // namespace tern::kernels

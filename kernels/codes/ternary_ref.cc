// The functions of ternary.h in scalar code.
#include <cstring>

#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_math.h"

namespace tern::kernels {
namespace {

bool GetBit(const uint8_t* plane, size_t i) { return (plane[i / 8] >> (i % 8) & 1) != 0; }

void SetBit(uint8_t* plane, size_t i) { plane[i / 8] |= static_cast<uint8_t>(1 << (i % 8)); }

}  // namespace

bool TernaryFires(float g, float s, float clip, const NoiseKey& key, uint64_t element) {
  return Fires(g, s, clip, key, element);
}

size_t TernarizeRef(const float* g, size_t n, float s, float clip, const NoiseKey& key,
                    uint64_t first, uint8_t* mask, uint8_t* signs) {
  if (n == 0) return 0;
  std::memset(mask, 0, PlaneBytes(n));
  std::memset(signs, 0, PlaneBytes(n));
  size_t num_ones = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!TernaryFires(g[i], s, clip, key, first + i)) continue;
    SetBit(mask, i);
    if (g[i] < 0) SetBit(signs, num_ones);
    ++num_ones;
  }
  return num_ones;
}

void ExpandCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int8_t* codes) {
  size_t num_ones = 0;
  for (size_t i = 0; i < n; ++i) {
    codes[i] = 0;
    if (!GetBit(mask, i)) continue;
    codes[i] = GetBit(signs, num_ones) ? -1 : 1;
    ++num_ones;
  }
}

}  // namespace tern::kernels

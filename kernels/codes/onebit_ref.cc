// Groups of 1bitSGD (onebit.h) in scalar code.
#include <algorithm>
#include <array>

#include "kernels/codes/onebit.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"

namespace tern::kernels {
namespace {

constexpr size_t kBlock = 4096;  // elements

bool BitAt(const OneBitSigns& signs, uint64_t i) {
  const uint64_t bit = signs.first + i;
  return (signs.bytes[bit / 8] >> (bit % 8) & 1) != 0;
}

}  // namespace

OneBitSums SumOneBitRef(const float* v, size_t n) {
  OneBitSums sums{};
  std::array<float, kBlock> kept_values;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    for (const bool negative : {false, true}) {
      for (size_t i = 0; i < count; ++i)
        kept_values[i] = (v[first + i] < 0) == negative ? v[first + i] : 0.0f;
      (negative ? sums.lower : sums.upper) += ComputeStatsRef(kept_values.data(), count).sum;
    }
    sums.num_negatives += static_cast<uint64_t>(
        std::count_if(v + first, v + first + count, [](float x) { return x < 0; }));
  }
  return sums;
}

void PackOneBitSignsRef(const float* v, size_t n, uint8_t* signs) {
  std::fill_n(signs, PlaneBytes(n), uint8_t{0});
  for (size_t i = 0; i < n; ++i)
    signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | unsigned{v[i] < 0} << (i % 8));
}

uint64_t CountOneBitSignsRef(const OneBitSigns& signs) {
  uint64_t num_ones = 0;
  for (uint64_t i = 0; i < signs.count; ++i) num_ones += BitAt(signs, i) ? 1 : 0;
  return num_ones;
}

void ExpandOneBitSignsRef(const OneBitSigns& signs, float lower, float upper, float* values) {
  for (uint64_t i = 0; i < signs.count; ++i) values[i] = BitAt(signs, i) ? lower : upper;
}

}  // namespace tern::kernels

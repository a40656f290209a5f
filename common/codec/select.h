// Selection of the k largest elements, for sparse codecs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tern::codec {

// ceil(share * n), at most n. REQUIRES share > 0, so that for n > 0 it is at least 1.
inline uint64_t ShareOf(double share, uint64_t n) {
  return std::min(n, static_cast<uint64_t>(std::ceil(share * static_cast<double>(n))));
}

// The k-th largest of key(v) over the values: at least k values are >= the result, more if there
// are ties. Keys must be finite, not negative and not -0, so they are ordered like their bits: only
// the values that share their upper bits with the k-th need an exact comparison. REQUIRES 0 < k <=
// values.size().
template <typename Key>
float KthLargest(std::span<const float> values, uint64_t k, Key key) {
  constexpr int kLower = 19;  // the low bits of a float that the histogram ignores
  const auto upper = [&](float v) { return std::bit_cast<uint32_t>(key(v)) >> kLower; };
  // Four counters per bin, so that increments for equal neighbours do not wait for each other.
  std::array<std::array<uint32_t, 4>, 1 << (31 - kLower)> histogram{};
  for (size_t i = 0; i < values.size(); ++i) ++histogram[upper(values[i])][i % 4];
  const auto size = [&](uint32_t row) {
    const auto& part = histogram[row];
    return uint64_t{part[0]} + part[1] + part[2] + part[3];
  };
  uint32_t row = histogram.size();
  uint64_t above = 0;  // number of values in higher bins
  while (above + size(--row) < k) above += size(row);
  std::vector<float> keys;
  keys.reserve(size(row));
  for (float v : values) {
    if (upper(v) == row) keys.push_back(key(v));
  }
  const auto kth = keys.begin() + static_cast<std::ptrdiff_t>(k - above - 1);
  std::nth_element(keys.begin(), kth, keys.end(), std::greater<>());
  return *kth;
}

inline float KthMagnitude(std::span<const float> values, uint64_t k) {
  return KthLargest(values, k, [](float v) { return std::abs(v); });
}

}  // namespace tern::codec

// Finds the threshold that selects the k largest elements, for sparse codecs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/codes/sparse.h"

namespace tern::codec {

// Returns min(n, ceil(share * n)), which is at least 1 if n > 0. REQUIRES share > 0.
inline uint64_t ShareOf(double share, uint64_t n) {
  return std::min(n, static_cast<uint64_t>(std::ceil(share * static_cast<double>(n))));
}

// Returns the k-th largest of key(v) over the values. At least k keys are >= the result, more if
// there are ties. Keys must be finite, not negative and not -0, because the function orders floats
// by their bits: a histogram of the upper bits finds the bin of the k-th largest key, and only the
// keys of this bin are compared exactly. REQUIRES 0 < k <= values.size().
template <typename Key>
float KthLargest(std::span<const float> values, uint64_t k, Key key) {
  constexpr int kIgnoredBits = 19;  // The histogram ignores this many low bits of a float.
  const auto bin_of = [&](float v) { return std::bit_cast<uint32_t>(key(v)) >> kIgnoredBits; };
  // Four counters per bin, so that an increment does not wait for the previous one of the same bin.
  std::array<std::array<uint32_t, 4>, 1 << (31 - kIgnoredBits)> histogram{};
  for (size_t i = 0; i < values.size(); ++i) ++histogram[bin_of(values[i])][i % 4];
  const auto bin_size = [&](uint32_t bin) {
    const auto& counters = histogram[bin];
    return uint64_t{counters[0]} + counters[1] + counters[2] + counters[3];
  };
  uint32_t bin = histogram.size();
  uint64_t num_above = 0;  // number of values in higher bins
  while (num_above + bin_size(--bin) < k) num_above += bin_size(bin);
  std::vector<float> keys;
  keys.reserve(bin_size(bin));
  for (float v : values) {
    if (bin_of(v) == bin) keys.push_back(key(v));
  }
  const auto kth_largest = keys.begin() + static_cast<std::ptrdiff_t>(k - num_above - 1);
  std::nth_element(keys.begin(), kth_largest, keys.end(), std::greater<>());
  return *kth_largest;
}

// Returns the k-th largest magnitude of the values. REQUIRES 0 < k <= values.size().
inline float KthLargestMagnitude(std::span<const float> values, uint64_t k) {
  return KthLargest(values, k, [](float v) { return std::abs(v); });
}

// The same if `count` of the values, at least k, have at least the magnitude `least`.
inline float KthLargestMagnitudeFrom(std::span<const float> values, uint64_t k, float least,
                                     uint64_t count) {
  std::vector<float> candidates(count + kernels::kListRoom);
  kernels::CollectAtLeast(values.data(), values.size(), least, candidates.data());
  return KthLargestMagnitude(std::span(candidates).first(count), k);
}

}  // namespace tern::codec

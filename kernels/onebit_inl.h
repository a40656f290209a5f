// 1bitSGD (common/codec/makers.h), as CPU and GPU compute it. The code of a part: of each group the
// means of its negatives and of its others, IEEE single, little-endian; then a plane of signs (one
// = negative).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/half_inl.h"
#include "kernels/host_device_inl.h"

namespace tern::kernels {

constexpr uint64_t kOneBitMeansBytes = 2 * sizeof(float);

TERN_HOST_DEVICE uint64_t OneBitMeansSize(uint64_t count, uint64_t group) {
  return (count + group - 1) / group * kOneBitMeansBytes;
}

TERN_HOST_DEVICE uint64_t OneBitSize(uint64_t count, uint64_t group) {
  return OneBitMeansSize(count, group) + (count + 7) / 8;
}

// 0 for a class that has none.
TERN_HOST_DEVICE float OneBitMean(double sum, uint64_t count) {
  return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0;
}

// Whether they are finite, the one at most 0 and not -0, the other at least 0 and not -0.
TERN_HOST_DEVICE bool AreOneBitMeans(float lower, float upper) {
  const bool is_lower = lower < 0 || BitsOf(lower) == 0;
  return is_lower && BitsOf(upper) >> 31 == 0 && fabsf(lower) < INFINITY && upper < INFINITY;
}

}  // namespace tern::kernels

// 1bitSGD (common/codec/makers.h), with the same arithmetic on CPU and GPU. The code of a part: for
// each group the means of its negatives and of its others, IEEE single, little-endian; then a plane
// of signs (one = negative).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/device/host_device.h"

namespace tern::kernels {

constexpr uint64_t kOneBitMeansBytes = 2 * sizeof(float);

TERN_HOST_DEVICE uint64_t OneBitMeansSize(uint64_t count, uint64_t group) {
  return (count + group - 1) / group * kOneBitMeansBytes;
}

TERN_HOST_DEVICE uint64_t OneBitSize(uint64_t count, uint64_t group) {
  return OneBitMeansSize(count, group) + (count + 7) / 8;
}

// The mean of `count` elements with sum `sum`; 0 if there are none.
TERN_HOST_DEVICE float OneBitMean(double sum, uint64_t count) {
  return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0;
}

// Whether these can be the means of a group: both finite, `lower` at most 0, `upper` at least 0,
// and neither -0.
TERN_HOST_DEVICE bool AreOneBitMeans(float lower, float upper) {
  const bool is_lower = lower < 0 || BitsOf(lower) == 0;
  return is_lower && BitsOf(upper) >> 31 == 0 && fabsf(lower) < INFINITY && upper < INFINITY;
}

}  // namespace tern::kernels

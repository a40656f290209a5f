// 1bitSGD (Seide et al. 2014), with the same arithmetic on CPU and GPU. Elements are coded in
// groups of neighbours. The code of a run of elements: for each group the mean of its negative
// elements and the mean of its other elements, IEEE single, little-endian; then one bit per
// element, 1 if it is negative.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codes/half_math.h"
#include "kernels/device/host_device.h"

namespace tern::kernels {

constexpr uint64_t kOneBitMeansBytes = 2 * sizeof(float);  // the means of one group

// The bytes of the means of `count` elements in groups of `group_size` elements.
TERN_HOST_DEVICE uint64_t OneBitMeansSize(uint64_t count, uint64_t group_size) {
  return (count + group_size - 1) / group_size * kOneBitMeansBytes;
}

// The bytes of the code of `count` elements in groups of `group_size` elements.
TERN_HOST_DEVICE uint64_t OneBitSize(uint64_t count, uint64_t group_size) {
  return OneBitMeansSize(count, group_size) + (count + 7) / 8;
}

// The mean of `count` elements whose sum is `sum`; 0 if `count` is 0.
TERN_HOST_DEVICE float OneBitMean(double sum, uint64_t count) {
  return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0;
}

// Whether `lower` can be the mean of the negative elements of a group, and `upper` that of its
// other elements: both are finite, `lower` is at most 0, `upper` is at least 0, and neither is -0.
TERN_HOST_DEVICE bool AreOneBitMeans(float lower, float upper) {
  const bool is_lower_valid = lower < 0 || BitsOf(lower) == 0;
  return is_lower_valid && BitsOf(upper) >> 31 == 0 && fabsf(lower) < INFINITY && upper < INFINITY;
}

}  // namespace tern::kernels

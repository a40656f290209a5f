// The statistics of stats.h in scalar code.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/codes/stats.h"

namespace tern::kernels {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kLanes = 128;
using Lanes = std::array<double, kLanes>;

// Adds the lanes in the order of stats.h.
double FoldLanes(Lanes lanes) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace

Stats ComputeStatsRef(const float* x, size_t n) {
  Stats stats;
  stats.count = n;
  Lanes sums{}, sums_squares{};  // Lane l has the sums of blocks l, l + 128, ...
  for (size_t begin = 0; begin < n; begin += kBlock) {
    const size_t count = std::min(kBlock, n - begin);
    Lanes sum{};
    Lanes sum_squares{};
    for (size_t i = 0; i < count; ++i) {
      const float value = x[begin + i];
      const double as_double = value;
      sum[i % kLanes] += as_double;
      sum_squares[i % kLanes] += as_double * as_double;
      stats.max_abs = std::max(stats.max_abs, std::abs(value));
      stats.is_finite = stats.is_finite && std::isfinite(value);
    }
    sums[begin / kBlock % kLanes] += FoldLanes(sum);
    sums_squares[begin / kBlock % kLanes] += FoldLanes(sum_squares);
  }
  stats.sum = FoldLanes(sums);
  stats.sum_squares = FoldLanes(sums_squares);
  return stats;
}

float MaxAbsRef(const float* x, size_t n) {
  float max_abs = 0;
  for (size_t i = 0; i < n; ++i) max_abs = std::max(max_abs, std::abs(x[i]));
  return max_abs;
}

double Sigma(const Stats& stats) {
  if (stats.count == 0) return 0;
  const auto n = static_cast<double>(stats.count);
  const double mean = stats.sum / n;
  const double variance = stats.sum_squares / n - mean * mean;
  return variance > 0 ? std::sqrt(variance) : 0;
}

}  // namespace tern::kernels

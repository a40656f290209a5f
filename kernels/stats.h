// The statistics that scalers are computed from, over one tensor, in one pass. The order of
// additions is fixed and suits SIMD and warps alike, so every device gives the same bits: blocks of
// 4096 elements; in a block 128 lanes, where lane l adds elements l, l + 128, ... as doubles; lanes
// are folded by halves (l += l + 64, then 32, ... 1). The sums of the blocks are added like the
// elements of a block, block b by lane b % 128. Missing elements and blocks count as +0.
#pragma once

#include <cstddef>

namespace tern::kernels {

struct Stats {
  double sum = 0;
  double sum_squares = 0;
  float max_abs = 0;
  bool finite = true;  // no NaN and no infinity; otherwise the other fields are unspecified
};

Stats ComputeStats(const float* x, size_t n);
Stats ComputeStatsRef(const float* x, size_t n);

// Population standard deviation about the mean (docs/ALGORITHMS.md, section 2); 0 for n == 0.
double Sigma(const Stats& stats, size_t n);

}  // namespace tern::kernels

// The statistics that scalers are computed from, over one tensor, in one pass. The order of
// additions is fixed and suits SIMD and warps alike, so every device gives the same bits: blocks of
// 4096 elements; in a block 128 lanes, where lane l adds elements l, l + 128, ... as doubles; lanes
// are folded by halves (l += l + 64, then 32, ... 1). The sums of the blocks are added like the
// elements of a block, block b by lane b % 128. Missing elements and blocks count as +0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

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

// Stats as plain words, in device memory.
struct DeviceStats {
  double sum, sum_squares;
  float max_abs;
  uint32_t finite;
};
inline Stats ToStats(const DeviceStats& s) {
  return {s.sum, s.sum_squares, s.max_abs, s.finite != 0};
}

// stats[p] = ComputeStats of part p. `partial`: one per tile. `done`: one zeroed counter per part,
// reset on return. One launch.
[[nodiscard]] int ComputeStatsOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, DeviceStats* partial,
                                       uint32_t* done, DeviceStats* stats);

}  // namespace tern::kernels

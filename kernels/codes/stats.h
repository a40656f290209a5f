// Statistics of a tensor, computed in one pass; codecs compute scalers (scale factors) and norms
// from them. The order of additions is fixed, so that every device gives the same bits. Elements
// are added as doubles, in blocks of 4096 elements. In a block, lane l (0 to 127) adds elements l,
// l + 128, ...; then the lanes are folded: lane l adds lane l + 64 for l < 64, then lane l + 32 for
// l < 32, and so on, until lane 0 has the sum of the block. The sums of the blocks are added in the
// same way, block b by lane b % 128. Missing elements and blocks count as +0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

struct Stats {
  double sum = 0;
  double sum_squares = 0;
  float max_abs = 0;
  bool is_finite = true;  // no NaN and no infinity; otherwise the sums and max_abs are unspecified
  uint64_t count = 0;     // number of elements
};

// The statistics of x[0, n). ComputeStatsRef gives the same results with scalar code.
Stats ComputeStats(const float* x, size_t n);
Stats ComputeStatsRef(const float* x, size_t n);

// The largest magnitude of x[0, n), which are finite; 0 if n is 0.
float MaxAbs(const float* x, size_t n);
float MaxAbsRef(const float* x, size_t n);

// The population standard deviation of the elements with these statistics; 0 if there are none.
double Sigma(const Stats& stats);

// Stats in device memory.
struct DeviceStats {
  double sum, sum_squares;
  float max_abs;
  uint32_t is_finite;  // 1 if all elements are finite, else 0
};
// `count`: the number of elements.
inline Stats ToStats(const DeviceStats& s, uint64_t count) {
  return {s.sum, s.sum_squares, s.max_abs, s.is_finite != 0, count};
}

// The number of counters that ComputeStatsOnDevice needs for so many parts and tiles: one for each
// strip, a run of kStripTiles tiles of a part.
constexpr uint32_t kStripTiles = 2048;
constexpr size_t NumStatsCounters(size_t parts, size_t tiles) {
  return parts + tiles / kStripTiles;
}

// Sets stats[p] to the statistics of part p, a run of elements of the arena (one array with all
// tensors; kernels/device/tiling.h). `partial_stats` is memory for intermediate results, one per
// tile of 4096 elements. `num_finished` has NumStatsCounters counters, which must be zero before
// the call and are zero after it. One launch.
[[nodiscard]] int ComputeStatsOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, DeviceStats* partial_stats,
                                       uint32_t* num_finished, DeviceStats* stats);

}  // namespace tern::kernels

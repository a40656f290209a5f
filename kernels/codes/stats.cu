// The statistics of stats.h on a GPU. A thread block adds a tile of 4096 elements, and each of its
// 128 threads is a lane of stats.h.
#include <cuda_runtime.h>

#include "kernels/codes/stats.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kLanes = 128;

// Adds the statistics of other elements to *to.
__device__ void Add(const DeviceStats& other, DeviceStats* to) {
  to->sum += other.sum;
  to->sum_squares += other.sum_squares;
  to->max_abs = fmaxf(to->max_abs, other.max_abs);
  to->is_finite &= other.is_finite;
}

// The statistics of one lane of a tile.
struct LaneStats {
  __device__ void Add(float value) {
    const double as_double = value;
    sum += as_double;
    // The square is exact in double, so that a fused multiply-add rounds like two operations.
    sum_squares = fma(as_double, as_double, sum_squares);
    max_abs = fmaxf(max_abs, fabsf(value));
    zero = fmaf(value, 0, zero);
  }
  __device__ DeviceStats ToDeviceStats() const {
    return {sum, sum_squares, max_abs, zero == 0 ? 1u : 0u};
  }

  double sum = 0, sum_squares = 0;
  float max_abs = 0;
  float zero = 0;  // the sum of 0 times each value: NaN if a value is not finite, else 0
};

// The statistics of this thread's elements among the `count` elements of a tile.
__device__ DeviceStats StatsOfLane(const float* x, uint32_t count) {
  LaneStats lane;
  if (count == kTile) {
    const float* lane_values = x + threadIdx.x;
#pragma unroll 8
    for (uint32_t i = 0; i < kTile; i += kLanes) lane.Add(lane_values[i]);
  } else {
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < count; i += kLanes) lane.Add(x[i]);
  }
  return lane.ToDeviceStats();
}

// The statistics of the thread that is `lanes` threads above this one in the warp.
__device__ DeviceStats ShuffleDown(const DeviceStats& lane_stats, uint32_t lanes) {
  return {__shfl_down_sync(kAllLanes, lane_stats.sum, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.sum_squares, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.max_abs, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.is_finite, lanes)};
}

// Adds the statistics of all lanes; lane 0 returns the result. `lanes` is shared memory, one
// element per lane. REQUIRES a barrier between two calls with the same `lanes`.
__device__ DeviceStats FoldLanes(DeviceStats lane_stats, DeviceStats* lanes) {
  const uint32_t lane = threadIdx.x;
  uint32_t half = kLanes / 2;
  for (; half >= 32; half /= 2) {
    if (lane >= half && lane < 2 * half) lanes[lane] = lane_stats;
    __syncthreads();
    if (lane < half) Add(lanes[lane + half], &lane_stats);
  }
  if (lane >= 32) return lane_stats;
  for (; half > 0; half /= 2) Add(ShuffleDown(lane_stats, half), &lane_stats);
  return lane_stats;
}

// Adds the statistics of a part's tiles that belong to this lane. Loads those of several tiles
// before it adds the first, so that the latencies of the loads overlap.
__device__ DeviceStats AddTiles(const DeviceStats* partial_stats, uint32_t num_tiles) {
  constexpr uint32_t kTilesAtOnce = 4;
  DeviceStats lane_stats{0, 0, 0, 1};
  for (uint32_t first = threadIdx.x; first < num_tiles; first += kTilesAtOnce * kLanes) {
    DeviceStats loaded[kTilesAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) {
      const uint32_t i = first + k * kLanes;
      loaded[k] = i < num_tiles ? LoadFresh(partial_stats + i) : DeviceStats{};
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) {
      if (first + k * kLanes < num_tiles) Add(loaded[k], &lane_stats);
    }
  }
  return lane_stats;
}

__global__ void __launch_bounds__(kLanes)
    StatsOfTiles(const float* arena, DeviceTiling tiling, DeviceStats* partial_stats,
                 uint32_t* num_finished, DeviceStats* stats) {
  __shared__ DeviceStats lanes[kLanes];
  const Tile tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[tile.part];
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const DeviceStats sum = FoldLanes(
      StatsOfLane(arena + part.part.begin + begin, CountOf(part.part, tile.index)), lanes);
  if (threadIdx.x == 0) partial_stats[blockIdx.x] = sum;
  const uint32_t num_tiles = TilesOf(part.part.count);
  if (!IsLastBlockOf(num_finished + tile.part, num_tiles)) return;
  const DeviceStats total = FoldLanes(AddTiles(partial_stats + part.tile_begin, num_tiles), lanes);
  if (threadIdx.x == 0) stats[tile.part] = total;
}

}  // namespace

int ComputeStatsOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         DeviceStats* partial_stats, uint32_t* num_finished, DeviceStats* stats) {
  return Launch(StatsOfTiles, tiling.tile_count, kLanes, stream, arena, tiling, partial_stats,
                num_finished, stats);
}

}  // namespace tern::kernels

// stats.h on a GPU: a thread block takes a block of 4096 elements, a thread a lane.
#include <cuda_runtime.h>

#include "kernels/codes/stats.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kLanes = 128;

__device__ void Add(const DeviceStats& more, DeviceStats* to) {
  to->sum += more.sum;
  to->sum_squares += more.sum_squares;
  to->max_abs = fmaxf(to->max_abs, more.max_abs);
  to->finite &= more.finite;
}

// The statistics of one lane of a tile.
struct LaneStats {
  __device__ void Add(float value) {
    const double wide = value;
    sum += wide;
    // The square is exact in double, so fusing changes nothing.
    sum_squares = fma(wide, wide, sum_squares);
    max_abs = fmaxf(max_abs, fabsf(value));
    zero = fmaf(value, 0, zero);
  }
  __device__ DeviceStats Get() const { return {sum, sum_squares, max_abs, zero == 0 ? 1u : 0u}; }

  double sum = 0, sum_squares = 0;
  float max_abs = 0, zero = 0;  // zero: NaN if a value is not finite
};

__device__ DeviceStats StatsOfLane(const float* x, uint32_t count) {
  LaneStats lane;
  if (count == kTile) {
    const float* at = x + threadIdx.x;
#pragma unroll 8
    for (uint32_t i = 0; i < kTile; i += kLanes) lane.Add(at[i]);
  } else {
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < count; i += kLanes) lane.Add(x[i]);
  }
  return lane.Get();
}

__device__ DeviceStats ShuffleDown(const DeviceStats& mine, uint32_t lanes) {
  return {__shfl_down_sync(kAllLanes, mine.sum, lanes),
          __shfl_down_sync(kAllLanes, mine.sum_squares, lanes),
          __shfl_down_sync(kAllLanes, mine.max_abs, lanes),
          __shfl_down_sync(kAllLanes, mine.finite, lanes)};
}

// Folds the statistics of all lanes into lane 0. REQUIRES a barrier between two calls that share
// `lanes`.
__device__ DeviceStats Fold(DeviceStats mine, DeviceStats* lanes) {
  const uint32_t lane = threadIdx.x;
  uint32_t half = kLanes / 2;
  for (; half >= 32; half /= 2) {
    if (lane >= half && lane < 2 * half) lanes[lane] = mine;
    __syncthreads();
    if (lane < half) Add(lanes[lane + half], &mine);
  }
  if (lane >= 32) return mine;
  for (; half > 0; half /= 2) Add(ShuffleDown(mine, half), &mine);
  return mine;
}

// One lane's share of the sum over a part's tiles. Loads several tiles before it uses the first, so
// that their latencies overlap.
__device__ DeviceStats AddTiles(const DeviceStats* partial, uint32_t tiles) {
  constexpr uint32_t kAtOnce = 4;
  DeviceStats mine{0, 0, 0, 1};
  for (uint32_t first = threadIdx.x; first < tiles; first += kAtOnce * kLanes) {
    DeviceStats some[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      const uint32_t i = first + k * kLanes;
      some[k] = i < tiles ? LoadFresh(partial + i) : DeviceStats{};
    }
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      if (first + k * kLanes < tiles) Add(some[k], &mine);
    }
  }
  return mine;
}

__global__ void __launch_bounds__(kLanes)
    StatsOfTiles(const float* arena, DeviceTiling tiling, DeviceStats* partial, uint32_t* done,
                 DeviceStats* stats) {
  __shared__ DeviceStats lanes[kLanes];
  const Tile tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[tile.part];
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const DeviceStats sum =
      Fold(StatsOfLane(arena + part.part.begin + begin, CountOf(part.part, tile.index)), lanes);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  const uint32_t tiles = TilesOf(part.part.count);
  if (!IsLastOf(done + tile.part, tiles)) return;
  const DeviceStats all = Fold(AddTiles(partial + part.tile_begin, tiles), lanes);
  if (threadIdx.x == 0) stats[tile.part] = all;
}

}  // namespace

int ComputeStatsOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         DeviceStats* partial, uint32_t* done, DeviceStats* stats) {
  return Launch(StatsOfTiles, tiling.tile_count, kLanes, stream, arena, tiling, partial, done,
                stats);
}

}  // namespace tern::kernels

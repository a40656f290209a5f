// stats.h on a GPU: a block of 4096 elements is a thread block, its lanes are threads.
#include <cuda_runtime.h>

#include "kernels/device.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kLanes = 128;

__device__ void Add(const DeviceStats& more, DeviceStats* to) {
  to->sum += more.sum;
  to->sum_squares += more.sum_squares;
  to->max_abs = fmaxf(to->max_abs, more.max_abs);
  to->finite &= more.finite;
}

// One lane of a tile.
__device__ DeviceStats Gather(const float* x, uint32_t count) {
  DeviceStats stats{0, 0, 0, 1};
#pragma unroll 8
  for (uint32_t i = threadIdx.x; i < kTile; i += kLanes) {
    if (i >= count) break;
    const float value = x[i];
    const double wide = value;
    Add({wide, wide * wide, fabsf(value), fabsf(value) < INFINITY}, &stats);
  }
  return stats;
}

__device__ void Fold(DeviceStats* lanes) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) Add(lanes[threadIdx.x + half], lanes + threadIdx.x);
  }
}

// The tiles of a part, a lane's; then those of all lanes: the first has them.
__device__ void AddTiles(const DeviceStats* partial, uint32_t tiles, DeviceStats* lanes) {
  DeviceStats mine{0, 0, 0, 1};
  for (uint32_t i = threadIdx.x; i < tiles; i += kLanes) Add(LoadFresh(partial + i), &mine);
  __syncthreads();  // who reads the lanes of before
  lanes[threadIdx.x] = mine;
  Fold(lanes);
}

__global__ void __launch_bounds__(kLanes)
    StatsOfTiles(const float* arena, DeviceTiling tiling, DeviceStats* partial, uint32_t* done,
                 DeviceStats* stats) {
  __shared__ DeviceStats lanes[kLanes];
  const Tile tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[tile.part];
  const uint64_t begin = uint64_t{tile.index} * kTile;
  lanes[threadIdx.x] = Gather(arena + part.part.begin + begin, CountOf(part.part, tile.index));
  Fold(lanes);
  if (threadIdx.x == 0) partial[blockIdx.x] = lanes[0];
  const uint32_t tiles = TilesOf(part.part.count);
  if (!IsLastOf(done + tile.part, tiles)) return;
  AddTiles(partial + part.tile_begin, tiles, lanes);
  if (threadIdx.x == 0) stats[tile.part] = lanes[0];
}

}  // namespace

int ComputeStatsOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         DeviceStats* partial, uint32_t* done, DeviceStats* stats) {
  return Launch(StatsOfTiles, tiling.tile_count, kLanes, stream, arena, tiling, partial, done,
                stats);
}

}  // namespace tern::kernels

// Deep gradient compression on a GPU, except for encoding: the memory, and the statistics by which
// thresholds are chosen, of many tensors at once. A thread block takes a tile.
#include <cuda_runtime.h>

#include "kernels/codes/half_math.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/topk.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;

template <bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    AddTiles(const float* g, DeviceTiling tiling, DgcStep step, const DeviceStats* stats, float* u,
             float* v) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const uint32_t all = CountOf(part, tile.index);
  const uint64_t begin = part.begin + uint64_t{tile.index} * kTile;
  const float scale =
      step.clip_norm > 0 ? DgcScale(step.clip_norm, stats[tile.part].sum_squares) : 1;
  for (uint32_t first = threadIdx.x * kEight; first < all; first += kThreads * kEight) {
    const uint32_t count = EightOf(all - first);
    const Eight fresh = Load(g + begin + first, count);
    Eight momentum{}, sum = Load(v + begin + first, count);
    if constexpr (kMomentum) momentum = Load(u + begin + first, count);
#pragma unroll
    for (uint32_t k = 0; k < kEight; ++k)
      DgcElement<kMomentum>(step, scale, fresh.x[k], &momentum.x[k], &sum.x[k]);
    if constexpr (kMomentum) Store(momentum, u + begin + first, count);
    Store(sum, v + begin + first, count);
  }
}

__global__ void __launch_bounds__(kThreads)
    CountTiles(const float* arena, DeviceTiling tiling, const float* thresholds, uint32_t* partial,
               uint32_t* done, uint32_t* counts) {
  __shared__ uint32_t row[kThreads / 32];
  const Tile tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[tile.part];
  const float threshold = thresholds[tile.part];
  const uint32_t all = threshold >= 0 ? CountOf(part.part, tile.index) : 0;
  const float* x = arena + part.part.begin + uint64_t{tile.index} * kTile;
  uint32_t count = 0;
#pragma unroll 8
  for (uint32_t i = threadIdx.x; i < kTile; i += kThreads)
    count += i < all && fabsf(x[i]) >= threshold ? 1 : 0;
  uint32_t total;
  SumBefore<kThreads>(count, row, &total);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
  const uint32_t tiles = TilesOf(part.part.count);
  if (!IsLastOf(done + tile.part, tiles)) return;
  count = 0;
  for (uint32_t i = threadIdx.x; i < tiles; i += kThreads)
    count += LoadFresh(partial + part.tile_begin + i);
  SumBefore<kThreads>(count, row, &total);
  if (threadIdx.x == 0) counts[tile.part] = total;
}

// Radix selection over the 31 bits of a magnitude, the upper ones first, some bits per pass. In
// each pass all tiles count the elements by this pass's bits, among those that share the upper bits
// of the k-th largest; a part's last block finds the bits of the k-th in that histogram.
struct Pass {
  uint32_t shift, bits;
};
constexpr Pass kPasses[] = {{20, 11}, {10, 10}, {0, 10}};
static_assert(kSelectBins == 1 << 11);

__device__ void CountBins(const float* x, uint64_t stride, uint32_t count, const Pass& pass,
                          uint64_t upper, uint32_t* bins) {
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const uint64_t magnitude = BitsOf(x[i * stride]) & 0x7FFFFFFF;
    if (magnitude >> (pass.shift + pass.bits) != upper) continue;
    atomicAdd(bins + (magnitude >> pass.shift & ((1u << pass.bits) - 1)), 1u);
  }
}

// Finds the bin that contains the k-th largest, which is the *remaining-th largest of that bin.
__device__ void FindBin(uint32_t* histogram, uint32_t bins, uint32_t k, uint32_t* warp_sums,
                        uint32_t* bin, uint32_t* remaining) {
  // This thread searches bins [top - each, top), downwards.
  const uint32_t each = bins / kThreads, top = bins - threadIdx.x * each;
  uint32_t mine = 0;
  for (uint32_t i = 1; i <= each; ++i) mine += LoadFresh(histogram + top - i);
  uint32_t total;
  uint32_t above = SumBefore<kThreads>(mine, warp_sums, &total);
  const bool here = above < k && k <= above + mine;
  for (uint32_t i = 1; i <= each; ++i) {
    const uint32_t size = LoadFresh(histogram + top - i);
    histogram[top - i] = 0;
    if (here && above < k && k <= above + size) {
      *bin = top - i;
      *remaining = k - above;
    }
    above += size;
  }
}

__global__ void __launch_bounds__(kThreads)
    SelectTiles(const float* arena, DeviceTiling tiling, const uint64_t* strides,
                const uint32_t* ks, Pass pass, SelectWorkspace workspace, float* kth) {
  __shared__ uint32_t bins[kSelectBins];
  __shared__ uint32_t warps[kThreads / 32];
  const Tile tile = tiling.tiles[blockIdx.x];
  const uint32_t p = tile.part;
  const Part part = tiling.parts[p].part;
  const uint32_t bin_count = 1u << pass.bits;
  const bool first = pass.shift + pass.bits == 31;
  for (uint32_t i = threadIdx.x; i < bin_count; i += kThreads) bins[i] = 0;
  __syncthreads();
  if (ks[p] == 0) return;
  const uint64_t stride = strides[p];
  CountBins(arena + part.begin + uint64_t{tile.index} * kTile * stride, stride,
            CountOf(part, tile.index), pass, first ? 0 : workspace.upper[p], bins);
  __syncthreads();
  uint32_t* histogram = workspace.histograms + uint64_t{p} * kSelectBins;
  for (uint32_t i = threadIdx.x; i < bin_count; i += kThreads) {
    if (bins[i] != 0) atomicAdd(histogram + i, bins[i]);
  }
  if (!IsLastOf(workspace.done + p, TilesOf(part.count))) return;
  uint32_t bin = bin_count, remaining = 0;
  FindBin(histogram, bin_count, first ? ks[p] : workspace.remaining[p], warps, &bin, &remaining);
  if (bin == bin_count) return;  // another thread has found the bin
  const uint32_t upper = first ? bin : workspace.upper[p] << pass.bits | bin;
  workspace.upper[p] = upper;
  workspace.remaining[p] = remaining;
  if (pass.shift == 0) kth[p] = FloatOf(upper);
}

}  // namespace

int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                     const DgcStep& step, const DeviceStats* stats, float* u, float* v) {
  return Launch(u != nullptr ? AddTiles<true> : AddTiles<false>, tiling.tile_count, kThreads,
                stream, g, tiling, step, stats, u, v);
}

int CountFromOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                      const float* thresholds, uint32_t* partial, uint32_t* done,
                      uint32_t* counts) {
  return Launch(CountTiles, tiling.tile_count, kThreads, stream, arena, tiling, thresholds, partial,
                done, counts);
}

int KthMagnitudeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         const uint64_t* strides, const uint32_t* ks,
                         const SelectWorkspace& workspace, float* kth) {
  for (const Pass& pass : kPasses) {
    const int passed = Launch(SelectTiles, tiling.tile_count, kThreads, stream, arena, tiling,
                              strides, ks, pass, workspace, kth);
    if (passed != 0) return passed;
  }
  return 0;
}

}  // namespace tern::kernels

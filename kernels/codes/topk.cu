// Deep gradient compression on a GPU, except for encoding (topk.h), for many tensors at once. Each
// thread block processes a tile: a range of at most 4096 elements of a part
// (kernels/device/tiling.h).
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

// Adds the gradients of a tile to the codec's memory u and v.
template <bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    AddTiles(const float* g, DeviceTiling tiling, DgcStep step, const DeviceStats* stats, float* u,
             float* v) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const uint32_t tile_elements = CountOf(part, tile.index);
  const uint64_t begin = part.begin + uint64_t{tile.index} * kTile;
  const float scale =
      step.clip_norm > 0 ? DgcScale(step.clip_norm, stats[tile.part].sum_squares) : 1;
  for (uint32_t first = threadIdx.x * kEight; first < tile_elements; first += kThreads * kEight) {
    const uint32_t count = AtMostEight(tile_elements - first);
    const EightFloats gradient = Load(g + begin + first, count);
    EightFloats momentum{}, sum = Load(v + begin + first, count);
    if constexpr (kMomentum) momentum = Load(u + begin + first, count);
#pragma unroll
    for (uint32_t k = 0; k < kEight; ++k)
      AddToDgcElement<kMomentum>(step, scale, gradient.x[k], &momentum.x[k], &sum.x[k]);
    if constexpr (kMomentum) Store(momentum, u + begin + first, count);
    Store(sum, v + begin + first, count);
  }
}

// Counts the elements of a tile whose magnitude is at least the part's threshold. The last thread
// block of a part to finish adds the counts of the part's tiles.
__global__ void __launch_bounds__(kThreads)
    CountTiles(const float* arena, DeviceTiling tiling, const float* thresholds,
               uint32_t* partial_counts, uint32_t* num_finished, uint32_t* counts) {
  __shared__ uint32_t row[kThreads / 32];
  const Tile tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[tile.part];
  const float threshold = thresholds[tile.part];
  const uint32_t num_to_check = threshold >= 0 ? CountOf(part.part, tile.index) : 0;
  const float* x = arena + part.part.begin + uint64_t{tile.index} * kTile;
  uint32_t count = 0;
#pragma unroll 8
  for (uint32_t i = threadIdx.x; i < kTile; i += kThreads)
    count += i < num_to_check && fabsf(x[i]) >= threshold ? 1 : 0;
  uint32_t total;
  SumBefore<kThreads>(count, row, &total);
  if (threadIdx.x == 0) partial_counts[blockIdx.x] = total;
  const uint32_t num_tiles = TilesOf(part.part.count);
  if (!IsLastBlockOf(num_finished + tile.part, num_tiles)) return;
  count = 0;
  for (uint32_t i = threadIdx.x; i < num_tiles; i += kThreads)
    count += LoadFresh(partial_counts + part.tile_begin + i);
  SumBefore<kThreads>(count, row, &total);
  if (threadIdx.x == 0) counts[tile.part] = total;
}

// Radix selection of the k-th largest magnitude of a part: three passes find its 31 bits, the upper
// bits first. A pass finds bits [shift, shift + bits). The higher bits are known from the passes
// before. All tiles add their elements that have the same higher bits to a histogram over the bits
// of this pass. In this histogram the part's last thread block finds the bits of the k-th largest.
struct SelectionPass {
  uint32_t shift, bits;
};
constexpr SelectionPass kPasses[] = {{20, 11}, {10, 10}, {0, 10}};
static_assert(kSelectBins == 1 << 11);

// Adds a tile's elements to the histogram `bins`.
__device__ void CountBins(const float* x, uint64_t stride, uint32_t count,
                          const SelectionPass& pass, uint64_t upper_bits, uint32_t* bins) {
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const uint64_t magnitude = BitsOf(x[i * stride]) & 0x7FFFFFFF;
    if (magnitude >> (pass.shift + pass.bits) != upper_bits) continue;
    atomicAdd(bins + (magnitude >> pass.shift & ((1u << pass.bits) - 1)), 1u);
  }
}

// Finds the bin with the k-th largest element. The thread that finds it sets *bin, and *remaining
// to the rank of the element within the bin. Sets the histogram to zero.
__device__ void FindBin(uint32_t* histogram, uint32_t num_bins, uint32_t k, uint32_t* warp_sums,
                        uint32_t* bin, uint32_t* remaining) {
  // This thread searches the bins [end_bin - bins_per_thread, end_bin), downwards.
  const uint32_t bins_per_thread = num_bins / kThreads,
                 end_bin = num_bins - threadIdx.x * bins_per_thread;
  uint32_t thread_count = 0;
  for (uint32_t i = 1; i <= bins_per_thread; ++i)
    thread_count += LoadFresh(histogram + end_bin - i);
  uint32_t total;
  uint32_t num_above = SumBefore<kThreads>(thread_count, warp_sums, &total);
  const bool has_kth = num_above < k && k <= num_above + thread_count;
  for (uint32_t i = 1; i <= bins_per_thread; ++i) {
    const uint32_t bin_size = LoadFresh(histogram + end_bin - i);
    histogram[end_bin - i] = 0;
    if (has_kth && num_above < k && k <= num_above + bin_size) {
      *bin = end_bin - i;
      *remaining = k - num_above;
    }
    num_above += bin_size;
  }
}

// One pass of the selection.
__global__ void __launch_bounds__(kThreads)
    SelectTiles(const float* arena, DeviceTiling tiling, const uint64_t* strides,
                const uint32_t* ks, SelectionPass pass, SelectWorkspace workspace, float* kth) {
  __shared__ uint32_t bins[kSelectBins];
  __shared__ uint32_t warp_sums[kThreads / 32];
  const Tile tile = tiling.tiles[blockIdx.x];
  const uint32_t part_index = tile.part;
  const Part part = tiling.parts[part_index].part;
  const uint32_t bin_count = 1u << pass.bits;
  const bool is_first_pass = pass.shift + pass.bits == 31;
  for (uint32_t i = threadIdx.x; i < bin_count; i += kThreads) bins[i] = 0;
  __syncthreads();
  if (ks[part_index] == 0) return;
  const uint64_t stride = strides[part_index];
  CountBins(arena + part.begin + uint64_t{tile.index} * kTile * stride, stride,
            CountOf(part, tile.index), pass, is_first_pass ? 0 : workspace.upper_bits[part_index],
            bins);
  __syncthreads();
  uint32_t* histogram = workspace.histograms + uint64_t{part_index} * kSelectBins;
  for (uint32_t i = threadIdx.x; i < bin_count; i += kThreads) {
    if (bins[i] != 0) atomicAdd(histogram + i, bins[i]);
  }
  if (!IsLastBlockOf(workspace.num_finished + part_index, TilesOf(part.count))) return;
  uint32_t bin = bin_count, remaining = 0;
  FindBin(histogram, bin_count,
          is_first_pass ? ks[part_index] : workspace.remaining_ranks[part_index], warp_sums, &bin,
          &remaining);
  if (bin == bin_count) return;  // Another thread has found the bin.
  const uint32_t upper_bits =
      is_first_pass ? bin : workspace.upper_bits[part_index] << pass.bits | bin;
  workspace.upper_bits[part_index] = upper_bits;
  workspace.remaining_ranks[part_index] = remaining;
  if (pass.shift == 0) kth[part_index] = FloatOf(upper_bits);
}

}  // namespace

int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                     const DgcStep& step, const DeviceStats* stats, float* u, float* v) {
  return Launch(u != nullptr ? AddTiles<true> : AddTiles<false>, tiling.tile_count, kThreads,
                stream, g, tiling, step, stats, u, v);
}

int CountAtLeastOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         const float* thresholds, uint32_t* partial_counts, uint32_t* num_finished,
                         uint32_t* counts) {
  return Launch(CountTiles, tiling.tile_count, kThreads, stream, arena, tiling, thresholds,
                partial_counts, num_finished, counts);
}

int KthMagnitudeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         const uint64_t* strides, const uint32_t* ks,
                         const SelectWorkspace& workspace, float* kth) {
  for (const SelectionPass& pass : kPasses) {
    const int error = Launch(SelectTiles, tiling.tile_count, kThreads, stream, arena, tiling,
                             strides, ks, pass, workspace, kth);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace tern::kernels

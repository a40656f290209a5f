// The statistics of stats.h on a GPU. A warp adds a tile of 4096 elements: each of its threads adds
// four of the tile's 128 lanes, so that it can load 16 bytes at a time. 2048 neighbouring tiles of
// a part form a strip. The thread block that completes a strip adds the strip's tiles, one lane per
// thread, to the sums of the strips before it. So hardly any work remains after the last tile, no
// matter how many tiles a part has.
#include <cuda_runtime.h>

#include "kernels/codes/stats.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kLanes = 128;
constexpr uint32_t kThreads = kLanes;
constexpr uint32_t kWarps = kThreads / 32;  // also the number of tiles per thread block
// Thread blocks per multiprocessor. With more, threads have too few registers to load eight rows
// before they add the first.
[[maybe_unused]] constexpr uint32_t kResidentBlocks = 7;
constexpr uint32_t kLanesOfThread = kLanes / 32;
static_assert(kLanesOfThread == 4, "a float4 has an element of each of a thread's lanes");

// Adds the statistics of other elements to *to.
__device__ void Add(const DeviceStats& other, DeviceStats* to) {
  to->sum += other.sum;
  to->sum_squares += other.sum_squares;
  to->max_abs = fmaxf(to->max_abs, other.max_abs);
  to->is_finite &= other.is_finite;
}

// The statistics of a thread's four lanes of a tile.
struct ThreadStats {
  // Adds a row, which has one element for each lane.
  __device__ void AddRow(const float4& row) {
    const float values[kLanesOfThread] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (uint32_t k = 0; k < kLanesOfThread; ++k) {
      const double as_double = values[k];
      sum[k] += as_double;
      // The square is exact in double, so that a fused multiply-add rounds like two operations.
      sum_squares[k] = fma(as_double, as_double, sum_squares[k]);
      max_abs = fmaxf(max_abs, fabsf(values[k]));
    }
  }

  double sum[kLanesOfThread] = {}, sum_squares[kLanesOfThread] = {};
  float max_abs = 0;
};

// Adds the numbers of two threads of a warp, which are `distance` threads apart, in pairs: the
// lower thread gets the sums of the first kCount / 2 numbers, the higher one those of the others.
template <uint32_t kCount>
__device__ void AddHalves(uint32_t distance, double* numbers) {
  const bool is_higher = (threadIdx.x & distance) != 0;
#pragma unroll
  for (uint32_t i = 0; i < kCount / 2; ++i) {
    const double low = numbers[i], high = numbers[i + kCount / 2];
    numbers[i] =
        (is_higher ? high : low) + __shfl_xor_sync(kAllLanes, is_higher ? low : high, distance);
  }
}

// Adds the lanes of a tile in the order of stats.h. Thread 0 of the warp returns the result.
//
// Of each of a thread's eight sums, the sums of all threads are added in pairs, those of threads
// that are 16 apart first, then those that are 8 apart, and so on. After each of the first three
// steps, a thread has half as many sums: sum t of the eight in the order of `numbers` ends in
// thread 4 t, added over all threads.
__device__ DeviceStats FoldTile(const ThreadStats& stats) {
  double numbers[2 * kLanesOfThread];
#pragma unroll
  for (uint32_t k = 0; k < kLanesOfThread; ++k) {
    numbers[k] = stats.sum[k];
    numbers[kLanesOfThread + k] = stats.sum_squares[k];
  }
  AddHalves<8>(16, numbers);
  AddHalves<4>(8, numbers);
  AddHalves<2>(4, numbers);
  double number = numbers[0];
  float max_abs = stats.max_abs;
  for (uint32_t distance = 2; distance > 0; distance /= 2)
    number += __shfl_xor_sync(kAllLanes, number, distance);
  for (uint32_t distance = 16; distance > 0; distance /= 2)
    max_abs = fmaxf(max_abs, __shfl_xor_sync(kAllLanes, max_abs, distance));
  // Threads 0, 4, 8 and 12 have the four sums, threads 16 to 28 the sums of squares. Pairs: sums 0
  // and 2, 1 and 3, and then both.
  number += __shfl_down_sync(kAllLanes, number, 8);
  number += __shfl_down_sync(kAllLanes, number, 4);
  const double sum_squares = __shfl_sync(kAllLanes, number, 16);
  // Squares of finite floats are far too small for their sum to overflow a double. A sum with the
  // square of an infinity or NaN is infinite or NaN.
  return {number, sum_squares, max_abs, sum_squares < INFINITY ? 1u : 0u};
}

// Returns elements i to i + 3 of a tile of `count` elements, and zeros after the last element.
__device__ float4 LoadFour(const float* x, uint32_t i, uint32_t count) {
  return {i < count ? x[i] : 0, i + 1 < count ? x[i + 1] : 0, i + 2 < count ? x[i + 2] : 0,
          i + 3 < count ? x[i + 3] : 0};
}

// A warp adds a tile of `count` elements. Thread 0 of the warp returns the result. Each thread
// loads several rows before it adds the first, so that the latencies of the loads overlap.
__device__ DeviceStats StatsOfTile(const float* x, uint32_t count) {
  const uint32_t first_lane = threadIdx.x % 32 * kLanesOfThread;
  ThreadStats stats;
  if (count == kTile && reinterpret_cast<uintptr_t>(x) % sizeof(float4) == 0) {
    constexpr uint32_t kRowsAtOnce = 8;
    const auto* rows = reinterpret_cast<const float4*>(x + first_lane);
#pragma unroll 1
    for (uint32_t row = 0; row < kTile / kLanes; row += kRowsAtOnce) {
      float4 loaded[kRowsAtOnce];
#pragma unroll
      for (uint32_t k = 0; k < kRowsAtOnce; ++k) loaded[k] = rows[(row + k) * 32];
#pragma unroll
      for (uint32_t k = 0; k < kRowsAtOnce; ++k) stats.AddRow(loaded[k]);
    }
  } else {
#pragma unroll 4
    for (uint32_t i = first_lane; i < count; i += kLanes) stats.AddRow(LoadFour(x, i, count));
  }
  __syncwarp();  // The threads may have added different numbers of rows.
  return FoldTile(stats);
}

// The statistics of the thread that is `lanes` threads above this one in the warp.
__device__ DeviceStats ShuffleDown(const DeviceStats& lane_stats, uint32_t lanes) {
  return {__shfl_down_sync(kAllLanes, lane_stats.sum, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.sum_squares, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.max_abs, lanes),
          __shfl_down_sync(kAllLanes, lane_stats.is_finite, lanes)};
}

// Adds the statistics of all lanes; lane 0 returns the result. `lanes` is shared memory, one
// element per lane.
__device__ DeviceStats FoldLanes(DeviceStats lane_stats, DeviceStats* lanes) {
  const uint32_t lane = threadIdx.x;
  __syncthreads();  // Waits until no thread reads an earlier content of `lanes`.
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

// Adds those of `num_tiles` tiles that belong to this lane to the lane's statistics. Loads the
// statistics of several tiles before it adds the first, so that the latencies of the loads overlap.
__device__ void AddTiles(const DeviceStats* tiles, uint32_t num_tiles, DeviceStats* lane_stats) {
  constexpr uint32_t kTilesAtOnce = 8;
#pragma unroll 1
  for (uint32_t first = threadIdx.x; first < num_tiles; first += kTilesAtOnce * kLanes) {
    DeviceStats loaded[kTilesAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) {
      const uint32_t i = first + k * kLanes;
      loaded[k] = i < num_tiles ? LoadFresh(tiles + i) : DeviceStats{0, 0, 0, 1};
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) Add(loaded[k], lane_stats);
  }
}

// The strips of a part.
struct Strips {
  uint32_t num_tiles;      // tiles of the part
  DeviceStats* tiles;      // their statistics
  uint32_t* num_finished;  // one counter per strip

  __device__ uint32_t Count() const { return (num_tiles + kStripTiles - 1) / kStripTiles; }
  __device__ uint32_t TilesOfStrip(uint32_t strip) const {
    const uint32_t remaining = num_tiles - strip * kStripTiles;
    return remaining < kStripTiles ? remaining : kStripTiles;
  }
  // The number of warps and thread blocks that count up the counter of a strip: the strip's tiles,
  // and the block that adds the strip before it.
  __device__ uint32_t NumToFinish(uint32_t strip) const {
    return TilesOfStrip(strip) + (strip > 0 ? 1 : 0);
  }
};

// The strips of part number p. Its counters follow those of the parts before it, which have at most
// one strip each beyond their tiles / kStripTiles.
__device__ Strips StripsOf(const TiledPart& part, uint32_t p, DeviceStats* partial_stats,
                           uint32_t* num_finished) {
  return {TilesOf(part.part.count), partial_stats + part.tile_begin,
          num_finished + p + part.tile_begin / kStripTiles};
}

// Adds strip number `strip` of a part, whose tiles and earlier strips are complete, and the later
// strips that are completed by it. Sets *total if the last strip is one of them. Overwrites the
// statistics of a strip's first tiles with those of the lanes after the strip.
__device__ void AddStrips(const Strips& strips, uint32_t strip, DeviceStats* lanes,
                          DeviceStats* total) {
  const uint32_t lane = threadIdx.x;
  DeviceStats lane_stats{0, 0, 0, 1};
  if (strip > 0) lane_stats = LoadFresh(strips.tiles + (strip - 1) * kStripTiles + lane);
  for (;; ++strip) {
    DeviceStats* tiles = strips.tiles + strip * kStripTiles;
    AddTiles(tiles, strips.TilesOfStrip(strip), &lane_stats);
    if (strip + 1 == strips.Count()) break;
    tiles[lane] = lane_stats;
    if (!IsLastBlockOf(strips.num_finished + strip + 1, strips.NumToFinish(strip + 1))) return;
  }
  const DeviceStats sum = FoldLanes(lane_stats, lanes);
  if (lane == 0) *total = sum;
}

// Adds the last tiles first: codes of the same tensors often come next, which begin with the first
// tiles (ternary.cu), and what was read last is still in the L2 cache.
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    StatsOfTiles(const float* arena, DeviceTiling tiling, DeviceStats* partial_stats,
                 uint32_t* num_finished, DeviceStats* stats) {
  __shared__ DeviceStats lanes[kLanes];
  __shared__ bool completes_strip[kWarps];  // whether a warp's tile is the last of its strip
  const uint32_t warp = threadIdx.x / 32, tile_from_end = blockIdx.x * kWarps + warp;
  const uint32_t tile_of_warp = tiling.tile_count - 1 - tile_from_end;
  const bool is_writer = threadIdx.x % 32 == 0;
  bool completes = false;
  if (tile_from_end < tiling.tile_count) {
    const Tile tile = tiling.tiles[tile_of_warp];
    const TiledPart part = tiling.parts[tile.part];
    const DeviceStats tile_stats = StatsOfTile(arena + tile.begin, tile.count);
    if (is_writer) partial_stats[tile_of_warp] = tile_stats;
    const Strips strips = StripsOf(part, tile.part, partial_stats, num_finished);
    const uint32_t strip = tile.index / kStripTiles;
    completes = IsLastWarpOf(strips.num_finished + strip, strips.NumToFinish(strip));
  }
  if (is_writer) completes_strip[warp] = completes;
  __syncthreads();
  for (uint32_t w = 0; w < kWarps; ++w) {
    if (!completes_strip[w]) continue;
    const Tile tile = tiling.tiles[tile_of_warp + warp - w];
    AddStrips(StripsOf(tiling.parts[tile.part], tile.part, partial_stats, num_finished),
              tile.index / kStripTiles, lanes, stats + tile.part);
  }
}

}  // namespace

int ComputeStatsOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                         DeviceStats* partial_stats, uint32_t* num_finished, DeviceStats* stats) {
  return Launch(StatsOfTiles, (tiling.tile_count + kWarps - 1) / kWarps, kThreads, stream, arena,
                tiling, partial_stats, num_finished, stats);
}

}  // namespace tern::kernels

// Sums over groups of a part's elements (GroupedPart), in the order of stats.h: blocks of kTile
// from a group's first element on, in each block 128 lanes that are folded by halves, blocks added
// in index order. One warp sums a block, in the tile in which the block begins. For .cu files only.
//
// A Sum type has Add(x), which adds an element, Join(sum), which adds another lane's sum, and
// Get(shuffle), which returns the lane value that `shuffle` selects, word by word. A Source type
// has Load(i), which returns element i of the part, and Keep(i, x), which consumes it. Each is
// called once per element, but several elements are loaded before the first is kept, so that their
// latencies overlap.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {

constexpr uint32_t kGroupThreads = 64;

// The length of a group of a part of `count` elements.
__device__ inline uint64_t LengthOfGroup(uint64_t count, uint64_t size, uint64_t group) {
  const uint64_t rest = count - group * size;
  return rest < size ? rest : size;
}

// Adds elements i, i + 32, ... to a lane's four sums, kTurns to each.
template <uint32_t kTurns, typename Sum, typename Source>
__device__ void AddTurns(uint64_t i, const Source& source, Sum* sums) {
  float x[4 * kTurns];
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) x[k] = source.Load(i + 32 * k);
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) {
    source.Consume(i + 32 * k, x[k]);
    sums[k % 4].Add(x[k]);
  }
}

// The sum of `count` elements from `from` on, by a warp; only its first lane has the result.
template <typename Sum, typename Source>
__device__ Sum SumOfRun(uint64_t from, uint32_t count, const Source& source) {
  constexpr uint32_t kTurns = 4;
  Sum sums[4] = {};  // lanes l, l + 32, l + 64 and l + 96 of the 128
  uint32_t i = threadIdx.x % 32;
  for (; i + 128 * kTurns - 32 < count; i += 128 * kTurns) AddTurns<kTurns>(from + i, source, sums);
  for (; i + 128 - 32 < count; i += 128) AddTurns<1>(from + i, source, sums);
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k, i += 32) {
    if (i >= count) break;
    const float x = source.Load(from + i);
    source.Consume(from + i, x);
    sums[k].Add(x);
  }
  sums[0].Join(sums[2]);
  sums[1].Join(sums[3]);
  sums[0].Join(sums[1]);
  Sum all = sums[0];
  for (uint32_t half = 16; half > 0; half /= 2)
    all.Join(all.Get([half](auto word) { return __shfl_down_sync(kAllLanes, word, half); }));
  return all;
}

// The state of a tile whose groups are being summed.
template <typename Sum>
struct GroupedTile {
  uint64_t size;        // elements of a group
  uint64_t count;       // elements of the part
  uint64_t begin, end;  // this tile's elements, counted in the part
  Sum* partial;         // two sums for each of the part's tiles
  uint32_t* done;

  __device__ uint64_t LengthOf(uint64_t group) const { return LengthOfGroup(count, size, group); }
};

// Groups of at most one block each. A small group is summed by a power of 2 of lanes.
template <typename Sum, typename Source, typename Finish>
__device__ void SumSmallGroups(const GroupedTile<Sum>& tile, const Source& source,
                               const Finish& finish) {
  const uint64_t size = tile.size;
  const uint64_t first = (tile.begin + size - 1) / size, last = (tile.end + size - 1) / size;
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t width = 1;  // lanes per group
  while (width < size && width < 32) width *= 2;
  if (width == 32) {
    for (uint64_t group = first + warp; group < last; group += kGroupThreads / 32) {
      const auto length = static_cast<uint32_t>(tile.LengthOf(group));
      const Sum sum = SumOfRun<Sum>(group * size, length, source);
      if (lane == 0) finish(group, sum);
    }
    return;
  }
  const uint32_t at_once = kGroupThreads / width, place = lane % width;
  for (uint64_t of_warps = first; of_warps < last; of_warps += at_once) {
    const uint64_t group = of_warps + threadIdx.x / width;
    Sum sum{};
    if (group < last && place < tile.LengthOf(group)) {
      const float x = source.Load(group * size + place);
      source.Consume(group * size + place, x);
      sum.Add(x);
    }
    for (uint32_t half = width / 2; half > 0; half /= 2)
      sum.Join(sum.Get([half](auto word) { return __shfl_down_sync(kAllLanes, word, half); }));
    if (group < last && place == 0) finish(group, sum);
  }
}

// The sum of all blocks of a group, by a warp; all lanes get it.
template <typename Sum>
__device__ Sum SumOfBlocks(const GroupedTile<Sum>& tile, uint64_t group, uint32_t blocks) {
  const uint64_t first = group * tile.size / kTile;
  Sum all{};
  for (uint32_t begin = 0; begin < blocks; begin += 32) {
    const uint32_t i = begin + threadIdx.x % 32;
    Sum mine{};
    if (i < blocks) mine = LoadFresh(tile.partial + 2 * (first + i) + (i == 0 ? 1 : 0));
    const uint32_t here = blocks - begin < 32 ? blocks - begin : 32;
    for (uint32_t from = 0; from < here; ++from)
      all.Join(mine.Get([from](auto word) { return __shfl_sync(kAllLanes, word, from); }));
  }
  return all;
}

// Sums the block that begins at element `inside` of a group.
template <typename Sum, typename Source, typename Finish>
__device__ void SumBlock(const GroupedTile<Sum>& tile, uint64_t group, uint64_t inside,
                         const Source& source, const Finish& finish) {
  const uint64_t length = tile.LengthOf(group), rest = length - inside;
  const uint64_t from = group * tile.size + inside;
  const auto count = static_cast<uint32_t>(rest < kTile ? rest : kTile);
  Sum sum = SumOfRun<Sum>(from, count, source);
  const bool writes = threadIdx.x % 32 == 0;
  const uint32_t blocks = TilesOf(length);
  if (blocks > 1) {
    // If two blocks begin in a tile, they are one group's last and another's first.
    if (writes) tile.partial[2 * (from / kTile) + (inside == 0 ? 1 : 0)] = sum;
    if (!IsLastWarpOf(tile.done + group * tile.size / kTile, blocks)) return;
    sum = SumOfBlocks(tile, group, blocks);
  }
  if (writes) finish(group, sum);
}

// Calls finish(group, sum) once for every group of this block's part, by one thread of the thread
// block that sums its last block. Called by all kGroupThreads threads. `partial`: two per tile,
// `done`: one zeroed counter per tile, reset on return.
template <typename Sum, typename Source, typename Finish>
__device__ void SumGroups(const DeviceTiling& tiling, uint64_t size, Sum* partial, uint32_t* done,
                          const Source& source, const Finish& finish) {
  const Tile here = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[here.part];
  const uint64_t count = part.part.count, begin = uint64_t{here.index} * kTile;
  const uint64_t end = begin + kTile < count ? begin + kTile : count;
  const GroupedTile<Sum> tile{
      size, count, begin, end, partial + 2 * uint64_t{part.tile_begin}, done + part.tile_begin};
  __syncwarp();
  if (size <= kTile) return SumSmallGroups(tile, source, finish);
  const uint64_t group = begin / size;
  if (threadIdx.x < 32) {
    const uint64_t inside = (begin - group * size + kTile - 1) / kTile * kTile;
    if (inside < tile.LengthOf(group)) SumBlock(tile, group, inside, source, finish);
  } else if ((group + 1) * size < end) {
    SumBlock(tile, group + 1, 0, source, finish);
  }
}

// Finds the groups of a tile's elements.
class GroupsOfTile {
 public:
  __device__ GroupsOfTile(uint64_t size, uint32_t tile) : size_(size) {
    const uint64_t begin = uint64_t{tile} * kTile;
    group_ = begin / size;
    inside_ = begin - group_ * size;
  }
  struct Position {
    uint64_t group, inside;  // `inside`: elements of the group before it
  };
  // The position of the tile's element i.
  __device__ Position At(uint32_t i) const {
    const uint64_t inside = inside_ + i;
    uint64_t further = inside >= size_ ? 1 : 0;
    if (size_ < kTile) further = static_cast<uint32_t>(inside) / static_cast<uint32_t>(size_);
    return {group_ + further, inside - further * size_};
  }
  // Calls visit(k) for all k in [0, 8), the k-th element from a position on; k is a compile-time
  // constant after unrolling, so arrays indexed by it stay in registers. Before it, calls
  // enter(group, k) where k is 0, or is below `count` and begins a group.
  template <typename Enter, typename Visit>
  __device__ void ForEight(const Position& from, uint32_t count, const Enter& enter,
                           const Visit& visit) const {
    uint64_t group = from.group;
    uint32_t next = EightOf(size_ - from.inside);
    enter(group, 0u);
#pragma unroll
    for (uint32_t k = 0; k < kEight; ++k) {
      if (k == next && k < count) {
        enter(++group, k);
        next += EightOf(size_);
      }
      visit(k);
    }
  }

 private:
  uint64_t size_, group_, inside_;
};

}  // namespace tern::kernels

// Adds the elements of groups. A part is a run of elements of the arena (one array with all
// tensors); it is cut into tiles of kTile elements, from its first element on, and into groups of a
// given size (tiling.h). A group is added in blocks of kTile elements, from its first element on,
// each in the order of stats.h: 128 partial sums (lane l adds elements l, l + 128, ...), which are
// then added in pairs. The sums of the blocks are added in their order. A warp adds a block; a part
// of a warp adds a group of at most 16 elements. The warp belongs to the thread block of the tile
// in which the block begins. For .cu files only.
//
// SumGroups is a template over three types. A Sum has Add(x), which adds an element; AddSum(sum),
// which adds another thread's sum; and MapWords(shuffle), which returns the sum that has
// shuffle(number) in place of each of its numbers. A Source has Load(i), which returns element i of
// the part, and OnLoaded(i, x), which is called with the loaded x. Load and OnLoaded are called
// once per element, but several elements are loaded before OnLoaded is called for the first, so
// that the latencies of the loads overlap. A Finish is a function that gets the number and the sum
// of a group.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {

constexpr uint32_t kGroupThreads = 64;

// The number of elements of a group, in a part of `count` elements with groups of `group_size`
// elements.
__device__ inline uint64_t LengthOfGroup(uint64_t count, uint64_t group_size, uint64_t group) {
  const uint64_t num_remaining = count - group * group_size;
  return num_remaining < group_size ? num_remaining : group_size;
}

// Adds elements i, i + 32, ... to a thread's four sums in turn, kTurns elements to each sum.
template <uint32_t kTurns, typename Sum, typename Source>
__device__ void AddTurns(uint64_t i, const Source& source, Sum* sums) {
  float x[4 * kTurns];
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) x[k] = source.Load(i + 32 * k);
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) {
    source.OnLoaded(i + 32 * k, x[k]);
    sums[k % 4].Add(x[k]);
  }
}

// A warp adds `count` elements from element `from` on. Only the first thread of the warp gets the
// sum.
template <typename Sum, typename Source>
__device__ Sum SumOfRun(uint64_t from, uint32_t count, const Source& source) {
  constexpr uint32_t kTurns = 4;
  Sum sums[4] = {};  // Thread l of the warp has lanes l, l + 32, l + 64 and l + 96 of the 128.
  uint32_t i = threadIdx.x % 32;
  for (; i + 128 * kTurns - 32 < count; i += 128 * kTurns) AddTurns<kTurns>(from + i, source, sums);
  for (; i + 128 - 32 < count; i += 128) AddTurns<1>(from + i, source, sums);
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k, i += 32) {
    if (i >= count) break;
    const float x = source.Load(from + i);
    source.OnLoaded(from + i, x);
    sums[k].Add(x);
  }
  sums[0].AddSum(sums[2]);
  sums[1].AddSum(sums[3]);
  sums[0].AddSum(sums[1]);
  Sum total = sums[0];
  for (uint32_t half = 16; half > 0; half /= 2)
    total.AddSum(
        total.MapWords([half](auto word) { return __shfl_down_sync(kAllLanes, word, half); }));
  return total;
}

// The state of a tile whose groups are being summed.
template <typename Sum>
struct GroupedTile {
  uint64_t group_size;     // elements of a group
  uint64_t part_count;     // elements of the part
  uint64_t begin, end;     // the tile has elements [begin, end) of the part
  Sum* partial_sums;       // two sums for each of the part's tiles
  uint32_t* num_finished;  // one counter for each of the part's tiles

  __device__ uint64_t LengthOf(uint64_t group) const {
    return LengthOfGroup(part_count, group_size, group);
  }
};

// Adds the groups that begin in the tile, if groups have at most kTile elements. The number of
// threads that add a group of fewer than 32 elements is a power of 2.
template <typename Sum, typename Source, typename Finish>
__device__ void SumSmallGroups(const GroupedTile<Sum>& tile, const Source& source,
                               const Finish& finish) {
  const uint64_t group_size = tile.group_size;
  const uint64_t first_group = (tile.begin + group_size - 1) / group_size,
                 end_group = (tile.end + group_size - 1) / group_size;
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t group_threads = 1;  // threads per group
  while (group_threads < group_size && group_threads < 32) group_threads *= 2;
  if (group_threads == 32) {
    for (uint64_t group = first_group + warp; group < end_group; group += kGroupThreads / 32) {
      const auto length = static_cast<uint32_t>(tile.LengthOf(group));
      const Sum sum = SumOfRun<Sum>(group * group_size, length, source);
      if (lane == 0) finish(group, sum);
    }
    return;
  }
  const uint32_t groups_at_once = kGroupThreads / group_threads, index = lane % group_threads;
  for (uint64_t first_of_step = first_group; first_of_step < end_group;
       first_of_step += groups_at_once) {
    const uint64_t group = first_of_step + threadIdx.x / group_threads;
    Sum sum{};
    if (group < end_group && index < tile.LengthOf(group)) {
      const float x = source.Load(group * group_size + index);
      source.OnLoaded(group * group_size + index, x);
      sum.Add(x);
    }
    for (uint32_t half = group_threads / 2; half > 0; half /= 2)
      sum.AddSum(
          sum.MapWords([half](auto word) { return __shfl_down_sync(kAllLanes, word, half); }));
    if (group < end_group && index == 0) finish(group, sum);
  }
}

// A warp adds the sums of all blocks of a group. All threads of the warp get the result.
template <typename Sum>
__device__ Sum SumOfBlocks(const GroupedTile<Sum>& tile, uint64_t group, uint32_t num_blocks) {
  const uint64_t first_tile = group * tile.group_size / kTile;
  Sum total{};
  for (uint32_t begin = 0; begin < num_blocks; begin += 32) {
    const uint32_t i = begin + threadIdx.x % 32;
    Sum block_sum{};
    if (i < num_blocks)
      block_sum = LoadFresh(tile.partial_sums + 2 * (first_tile + i) + (i == 0 ? 1 : 0));
    const uint32_t count = num_blocks - begin < 32 ? num_blocks - begin : 32;
    for (uint32_t from = 0; from < count; ++from)
      total.AddSum(
          block_sum.MapWords([from](auto word) { return __shfl_sync(kAllLanes, word, from); }));
  }
  return total;
}

// A warp adds the block that begins at element `offset` of a group. If this is the last block of
// the group to be added, the warp also adds the sums of the group's blocks and calls finish.
template <typename Sum, typename Source, typename Finish>
__device__ void SumBlock(const GroupedTile<Sum>& tile, uint64_t group, uint64_t offset,
                         const Source& source, const Finish& finish) {
  const uint64_t length = tile.LengthOf(group), remaining = length - offset;
  const uint64_t from = group * tile.group_size + offset;
  const auto count = static_cast<uint32_t>(remaining < kTile ? remaining : kTile);
  Sum sum = SumOfRun<Sum>(from, count, source);
  const bool is_writer = threadIdx.x % 32 == 0;
  const uint32_t num_blocks = TilesOf(length);
  if (num_blocks > 1) {
    // At most two blocks begin in a tile. If two do, the second is the first block of a group.
    if (is_writer) tile.partial_sums[2 * (from / kTile) + (offset == 0 ? 1 : 0)] = sum;
    if (!IsLastWarpOf(tile.num_finished + group * tile.group_size / kTile, num_blocks)) return;
    sum = SumOfBlocks(tile, group, num_blocks);
  }
  if (is_writer) finish(group, sum);
}

// Adds the groups, or the blocks of large groups, that begin in this thread block's tile. Calls
// finish(group, sum) once for every group of a part, in one thread of the thread block that
// completes the group. Must be called by all kGroupThreads threads. `partial_sums` has two sums per
// tile. `num_finished` has one counter per tile, which must be zero before the launch and is zero
// after it.
template <typename Sum, typename Source, typename Finish>
__device__ void SumGroups(const DeviceTiling& tiling, uint64_t group_size, Sum* partial_sums,
                          uint32_t* num_finished, const Source& source, const Finish& finish) {
  const Tile block_tile = tiling.tiles[blockIdx.x];
  const TiledPart part = tiling.parts[block_tile.part];
  const uint64_t count = part.part.count, begin = uint64_t{block_tile.index} * kTile;
  const uint64_t end = begin + kTile < count ? begin + kTile : count;
  const GroupedTile<Sum> tile{group_size,
                              count,
                              begin,
                              end,
                              partial_sums + 2 * uint64_t{part.tile_begin},
                              num_finished + part.tile_begin};
  __syncwarp();
  if (group_size <= kTile) return SumSmallGroups(tile, source, finish);
  const uint64_t group = begin / group_size;
  if (threadIdx.x < 32) {
    const uint64_t offset = (begin - group * group_size + kTile - 1) / kTile * kTile;
    if (offset < tile.LengthOf(group)) SumBlock(tile, group, offset, source, finish);
  } else if ((group + 1) * group_size < end) {
    SumBlock(tile, group + 1, 0, source, finish);
  }
}

// Finds the groups of a tile's elements.
class GroupsOfTile {
 public:
  __device__ GroupsOfTile(uint64_t group_size, uint32_t tile) : group_size_(group_size) {
    const uint64_t begin = uint64_t{tile} * kTile;
    first_group_ = begin / group_size;
    first_offset_ = begin - first_group_ * group_size;
  }
  struct Position {
    uint64_t group, offset;  // index of the group; index of the element in the group
  };
  // The position of element i of the tile.
  __device__ Position PositionOf(uint32_t i) const {
    const uint64_t offset = first_offset_ + i;
    uint64_t groups_after = offset >= group_size_ ? 1 : 0;
    if (group_size_ < kTile)
      groups_after = static_cast<uint32_t>(offset) / static_cast<uint32_t>(group_size_);
    return {first_group_ + groups_after, offset - groups_after * group_size_};
  }
  // Calls visit(k) for k = 0 to 7, where element 0 is at position `from`, and element k is k
  // elements later. Before visit(k), calls enter(group, k) if k is 0, or if element k is the first
  // of a group and k < count. After unrolling k is a compile-time constant, so that arrays indexed
  // with k stay in registers.
  template <typename Enter, typename Visit>
  __device__ void VisitEight(const Position& from, uint32_t count, const Enter& enter,
                             const Visit& visit) const {
    uint64_t group = from.group;
    uint32_t next_group_at = AtMostEight(group_size_ - from.offset);
    enter(group, 0u);
#pragma unroll
    for (uint32_t k = 0; k < kEight; ++k) {
      if (k == next_group_at && k < count) {
        enter(++group, k);
        next_group_at += AtMostEight(group_size_);
      }
      visit(k);
    }
  }

 private:
  uint64_t group_size_, first_group_, first_offset_;
};

}  // namespace tern::kernels

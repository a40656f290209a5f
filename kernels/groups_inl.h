// Sums over groups of a part's elements (GroupedPart), as stats.h has them: blocks of kTile from a
// group's first element on, in each of them 128 lanes that are folded by halves, blocks added in
// index order. A warp sums up a block; that tile's does where the block begins. For *_cuda.cu only.
//
// A Sum has Add(x) for one more element, Join(sum) to add what another lane has, and Get(from),
// which is what `from` makes of each of its words: the same of another lane. A Source has Load(i),
// the part's element i, and Keep(i, x) for what is to be done with it: each once for every element,
// but many are loaded before the first is kept, so that they are under way together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device_codes.h"
#include "kernels/eight_inl.h"
#include "kernels/launch_inl.h"

namespace tern::kernels {

constexpr uint32_t kGroupThreads = 64;

// Of a group of a part of `count` elements.
__device__ inline uint64_t LengthOfGroup(uint64_t count, uint64_t size, uint64_t group) {
  const uint64_t rest = count - group * size;
  return rest < size ? rest : size;
}

// Elements i, i + 32, ...: kTurns of each of a lane's four sums.
template <uint32_t kTurns, typename Sum, typename Source>
__device__ void AddTurns(uint64_t i, const Source& source, Sum* sums) {
  float x[4 * kTurns];
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) x[k] = source.Load(i + 32 * k);
#pragma unroll
  for (uint32_t k = 0; k < 4 * kTurns; ++k) {
    source.Keep(i + 32 * k, x[k]);
    sums[k % 4].Add(x[k]);
  }
}

// Of `count` elements from `from` on, by a warp; only its first lane's is the sum.
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
    source.Keep(from + i, x);
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

// What is known of a tile whose groups are summed up.
template <typename Sum>
struct GroupedTile {
  uint64_t size;        // of a group
  uint64_t count;       // of the part
  uint64_t begin, end;  // of the part's elements, this tile's
  Sum* partial;         // of the part
  uint32_t* done;

  __device__ uint64_t LengthOf(uint64_t group) const { return LengthOfGroup(count, size, group); }
};

// Of groups that are a block each: a power of 2 of lanes a group where it has few elements.
template <typename Sum, typename Source, typename Finish>
__device__ void SumSmallGroups(const GroupedTile<Sum>& tile, const Source& source,
                               const Finish& finish) {
  const uint64_t size = tile.size;
  const uint64_t first = (tile.begin + size - 1) / size, last = (tile.end + size - 1) / size;
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t width = 1;  // lanes a group
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
      source.Keep(group * size + place, x);
      sum.Add(x);
    }
    for (uint32_t half = width / 2; half > 0; half /= 2)
      sum.Join(sum.Get([half](auto word) { return __shfl_down_sync(kAllLanes, word, half); }));
    if (group < last && place == 0) finish(group, sum);
  }
}

// All blocks of a group, by a warp: all its lanes get the sum.
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

// The block of a group that begins `inside` it.
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
    // A tile in which two blocks begin has a group's first and another's last.
    if (writes) tile.partial[2 * (from / kTile) + (inside == 0 ? 1 : 0)] = sum;
    if (!IsLastWarpOf(tile.done + group * tile.size / kTile, blocks)) return;
    sum = SumOfBlocks(tile, group, blocks);
  }
  if (writes) finish(group, sum);
}

// finish(group, sum) for every group of this block's part: once, by one thread of whichever block
// has summed up the last of it. By all threads of kGroupThreads. `partial`: two a tile, `done`: a
// zero a tile, and zeros after.
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

// The groups of a tile's elements.
class GroupsOfTile {
 public:
  __device__ GroupsOfTile(uint64_t size, uint32_t tile) : size_(size) {
    const uint64_t begin = uint64_t{tile} * kTile;
    group_ = begin / size;
    inside_ = begin - group_ * size;
  }
  struct Place {
    uint64_t group, inside;  // so many elements of it come before
  };
  // Of the tile's element i.
  __device__ Place At(uint32_t i) const {
    const uint64_t inside = inside_ + i;
    uint64_t further = inside >= size_ ? 1 : 0;
    if (size_ < kTile) further = static_cast<uint32_t>(inside) / static_cast<uint32_t>(size_);
    return {group_ + further, inside - further * size_};
  }
  // visit(k) for the k-th element from a place on, k in [0, 8), all of them, so that what it has by
  // k is in registers; before it enter(group, k) where k is 0 or the first of a group, and below
  // `count`.
  template <typename Enter, typename Visit>
  __device__ void ForEight(const Place& from, uint32_t count, const Enter& enter,
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

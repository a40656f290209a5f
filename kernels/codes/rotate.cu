// The rotations of rotate.h on a GPU, with the same operations in the same order. One thread block
// rotates a tile: all stages whose distances are less than kTile, in three rounds of four stages.
// In a round, each thread has sixteen elements in registers, which four stages combine with each
// other only; between rounds, the elements change places through shared memory:
//
//   round   distances            thread t has the elements (k = 0 to 15)
//   0       1, 2, 4, 8           16 t + k
//   1       16, 32, 64, 128      256 (t / 16) + t % 16 + 16 k
//   2       256, ..., 2048       t + 256 k
//
// Larger blocks have a second launch, for the distances of one tile and more.
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/codes/rotate_math.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kHeld = kTile / kThreads;  // elements that a thread has in registers
constexpr uint32_t kStagesOfRound = 4;
static_assert(kHeld == 1u << kStagesOfRound && kTile == kHeld * kHeld * kHeld);
// Philox blocks with the signs of a tile, which may begin in the middle of one.
constexpr uint32_t kPhiloxBlocks = kTile / kSignsOfPhilox + 1;

enum class Way { kForth, kBack };

// What all tiles of a launch have in common.
struct Rotations {
  PhiloxKeys keys;
  uint64_t block;     // Rotation::block
  const float* from;  // arenas
  float* to;
  uint32_t* bad_results;  // counts results that are not finite; null: nobody counts
};

// A tile of a part, and how it is cut into blocks.
struct RotatedTile {
  __device__ RotatedTile(const DeviceTiling& tiling, const Rotations& rotations)
      : tile(tiling.tiles[blockIdx.x]), block(rotations.block) {
    const Part part = tiling.parts[tile.part].part;
    first_in_part = uint64_t{tile.index} * kTile;
    first_in_tensor = part.first + first_in_part;
    tensor = part.tensor;
    part_count = part.count;
    whole_blocks_end = part.count / block * block;
  }

  // The size of the block of element i of the tile.
  __device__ uint64_t BlockSizeOf(uint32_t i) const {
    const uint64_t at = first_in_part + i;
    if (at < whole_blocks_end) return block;
    uint64_t begin = whole_blocks_end, size = block / 2;
    while (begin + size > part_count || at >= begin + size) {
      if (begin + size <= part_count) begin += size;
      size /= 2;
    }
    return size;
  }
  // Whether all elements of the tile are in one block, of at least kTile elements.
  __device__ bool IsWhole() const {
    return block >= kTile && first_in_part + kTile <= part_count / kTile * kTile;
  }

  const Tile tile;
  const uint64_t block;
  uint64_t first_in_part, first_in_tensor, part_count;
  uint64_t whole_blocks_end;  // in the part
  uint32_t tensor;
};

// The signs of a tile's elements, in shared memory.
struct TileSigns {
  uint32_t words[kPhiloxBlocks][4];

  // Called by all threads of a block; they wait for each other afterwards.
  __device__ void Fill(const RotatedTile& tile, const Rotations& rotations) {
    const NoiseKey key = SignKey({.tensor = tile.tensor});
    const auto first_block = static_cast<uint32_t>(tile.first_in_tensor / kSignsOfPhilox);
    if (threadIdx.x >= kPhiloxBlocks) return;
    const PhiloxWords drawn = NoiseWords(key, rotations.keys, first_block + threadIdx.x);
    for (uint32_t i = 0; i < 4; ++i) words[threadIdx.x][i] = drawn.w[i];
  }
  // Returns the value times the sign of element i of the tile.
  __device__ float TimesSign(float value, const RotatedTile& tile, uint32_t i) const {
    const auto bit = static_cast<uint32_t>(tile.first_in_tensor % kSignsOfPhilox) + i;
    const uint32_t word = words[bit / kSignsOfPhilox][bit % kSignsOfPhilox / 32];
    return (word >> bit % 32 & 1) != 0 ? -value : value;
  }
};

// The float next to 1 / sqrt(size), for a power of two.
__device__ float FactorOf(uint64_t size) {
  const int exponent = __popc(static_cast<uint32_t>(size) - 1);
  const float root = exponent % 2 == 0 ? 1.f : 0.70710678118654752440f;
  return root / static_cast<float>(1u << exponent / 2);
}

// Which element a thread has as number k in a round (the table above).
template <uint32_t kRound>
__device__ uint32_t ElementOf(uint32_t k) {
  const uint32_t t = threadIdx.x;
  if constexpr (kRound == 0) return kHeld * t + k;
  if constexpr (kRound == 1) return t / kHeld * kHeld * kHeld + t % kHeld + kHeld * k;
  return t + kThreads * k;
}

// The place of element i in shared memory. The gaps let the threads of a warp use all banks.
__device__ uint32_t PlaceOf(uint32_t i) { return i + i / kHeld; }
constexpr uint32_t kPlaces = kTile + kTile / kHeld;

// Whether element i of the tile and that `distance` behind it are combined.
template <bool kWhole>
__device__ bool AreCombined(const RotatedTile& tile, uint32_t i, uint32_t distance) {
  return kWhole || (i < tile.tile.count && tile.BlockSizeOf(i) > distance);
}

// The four stages of a round.
template <bool kWhole, uint32_t kRound>
__device__ void StagesOfRound(const RotatedTile& tile, float* v) {
#pragma unroll
  for (uint32_t stage = 0; stage < kStagesOfRound; ++stage) {
    const uint32_t apart = 1u << stage, distance = apart << kRound * kStagesOfRound;
#pragma unroll
    for (uint32_t k = 0; k < kHeld; ++k) {
      if ((k & apart) != 0 || !AreCombined<kWhole>(tile, ElementOf<kRound>(k), distance)) continue;
      const float a = v[k], b = v[k + apart];
      v[k] = a + b;
      v[k + apart] = a - b;
    }
  }
}

// Moves a thread's elements from their places in one round to those in the next.
template <uint32_t kRound>
__device__ void GoToNextRound(float* memory, float* v) {
#pragma unroll
  for (uint32_t k = 0; k < kHeld; ++k) memory[PlaceOf(ElementOf<kRound>(k))] = v[k];
  __syncthreads();
#pragma unroll
  for (uint32_t k = 0; k < kHeld; ++k) v[k] = memory[PlaceOf(ElementOf<kRound + 1>(k))];
  __syncthreads();
}

// Counts a result that is not finite.
__device__ void Count(float result, const Rotations& rotations) {
  if (rotations.bad_results != nullptr && !(fabsf(result) < INFINITY))
    atomicAdd(rotations.bad_results, 1u);
}

template <Way kWay, bool kWhole>
__device__ void RotateTile(const RotatedTile& tile, const Rotations& rotations,
                           const TileSigns& signs, float* memory) {
  const float* from = rotations.from + tile.tile.begin;
  float* to = rotations.to + tile.tile.begin;
  const uint64_t size_of_first = tile.BlockSizeOf(0);
  const auto size_of = [&](uint32_t i) { return kWhole ? size_of_first : tile.BlockSizeOf(i); };
  float v[kHeld];
#pragma unroll
  for (uint32_t k = 0; k < kHeld; ++k) {
    const uint32_t i = ElementOf<0>(k);
    const bool is_there = kWhole || i < tile.tile.count;
    const float x = is_there ? from[i] : 0;
    v[k] = is_there ? (kWay == Way::kForth ? signs.TimesSign(x, tile, i) : x) * FactorOf(size_of(i))
                    : 0;
  }
  StagesOfRound<kWhole, 0>(tile, v);
  GoToNextRound<0>(memory, v);
  StagesOfRound<kWhole, 1>(tile, v);
  GoToNextRound<1>(memory, v);
  StagesOfRound<kWhole, 2>(tile, v);
#pragma unroll
  for (uint32_t k = 0; k < kHeld; ++k) {
    const uint32_t i = ElementOf<2>(k);
    if (!kWhole && i >= tile.tile.count) continue;
    if (kWay == Way::kBack && size_of(i) <= kTile) {
      v[k] = signs.TimesSign(v[k], tile, i);
      Count(v[k], rotations);
    }
    to[i] = v[k];
  }
}

template <Way kWay>
__global__ void __launch_bounds__(kThreads) RotateTiles(DeviceTiling tiling, Rotations rotations) {
  __shared__ TileSigns signs;
  __shared__ float memory[kPlaces];
  const RotatedTile tile(tiling, rotations);
  signs.Fill(tile, rotations);
  __syncthreads();
  if (tile.IsWhole())
    RotateTile<kWay, true>(tile, rotations, signs, memory);
  else
    RotateTile<kWay, false>(tile, rotations, signs, memory);
}

// The stages with distances of kTile and more, of blocks that have several tiles. Of a block of m
// tiles, each thread block combines an m-th of every tile: the elements at the same places.
template <Way kWay>
__global__ void __launch_bounds__(kThreads) CombineTiles(DeviceTiling tiling, Rotations rotations) {
  constexpr uint32_t kMostTiles = kMaxRotation / kTile;
  const RotatedTile tile(tiling, rotations);
  const uint64_t size = tile.BlockSizeOf(0);
  if (size <= kTile) return;
  const auto num_tiles = static_cast<uint32_t>(size / kTile);
  // Blocks begin at multiples of their size in the part's whole blocks, and behind these.
  const uint32_t number = static_cast<uint32_t>(tile.first_in_part % size / kTile);
  float* block_begin = rotations.to + tile.tile.begin - uint64_t{number} * kTile;
  const NoiseKey key = SignKey({.tensor = tile.tensor});
  const uint32_t width = kTile / num_tiles;
  for (uint32_t place = number * width + threadIdx.x; place < (number + 1) * width;
       place += kThreads) {
    float v[kMostTiles] = {};
#pragma unroll
    for (uint32_t k = 0; k < kMostTiles; ++k) {
      if (k < num_tiles) v[k] = block_begin[uint64_t{k} * kTile + place];
    }
#pragma unroll
    for (uint32_t apart = 1; apart < kMostTiles; apart *= 2) {
#pragma unroll
      for (uint32_t k = 0; k < kMostTiles; ++k) {
        if ((k & apart) != 0 || apart >= num_tiles || k >= num_tiles) continue;
        const float a = v[k], b = v[k + apart];
        v[k] = a + b;
        v[k + apart] = a - b;
      }
    }
#pragma unroll
    for (uint32_t k = 0; k < kMostTiles; ++k) {
      if (k >= num_tiles) continue;
      if (kWay == Way::kBack) {
        const uint64_t element =
            tile.first_in_tensor + (uint64_t{k} * kTile + place) - uint64_t{number} * kTile;
        const PhiloxWords drawn =
            NoiseWords(key, rotations.keys, static_cast<uint32_t>(element / kSignsOfPhilox));
        const auto bit = static_cast<uint32_t>(element % kSignsOfPhilox);
        const uint32_t word =
            bit < 64 ? (bit < 32 ? drawn.w[0] : drawn.w[1]) : (bit < 96 ? drawn.w[2] : drawn.w[3]);
        if ((word >> bit % 32 & 1) != 0) v[k] = -v[k];
        Count(v[k], rotations);
      }
      block_begin[uint64_t{k} * kTile + place] = v[k];
    }
  }
}

template <Way kWay>
int LaunchRotations(DeviceStream stream, const DeviceTiling& tiling, const Rotations& rotations) {
  const int error =
      Launch(RotateTiles<kWay>, tiling.tile_count, kThreads, stream, tiling, rotations);
  if (error != 0 || rotations.block <= kTile) return error;
  return Launch(CombineTiles<kWay>, tiling.tile_count, kThreads, stream, tiling, rotations);
}

}  // namespace

int RotateOnDevice(DeviceStream stream, const DeviceTiling& tiling, const Rotation& rotation,
                   const float* from, float* to) {
  return LaunchRotations<Way::kForth>(
      stream, tiling, {PhiloxKeysOf(rotation.seed), rotation.block, from, to, nullptr});
}

int RotateBackOnDevice(DeviceStream stream, const DeviceTiling& tiling, const Rotation& rotation,
                       float* arena, uint32_t* bad_results) {
  return LaunchRotations<Way::kBack>(
      stream, tiling, {PhiloxKeysOf(rotation.seed), rotation.block, arena, arena, bad_results});
}

}  // namespace tern::kernels

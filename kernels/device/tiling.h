// The basis of all GPU kernels: they process many tensors of an arena at once, cut into tiles. Each
// kernel is declared beside its CPU form and gives the same bits.
//
// Arrays that functions named ...OnDevice take are in device memory unless stated otherwise;
// launches are ordered on their stream and do not synchronize. Such a function returns a
// cudaError_t: 0 if the launch was accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device/host_device.h"

struct CUstream_st;

namespace tern::kernels {

using DeviceStream = CUstream_st*;  // cudaStream_t

// Elements per tile: one block of stats.h, so that a thread block can reduce it alone.
constexpr uint32_t kTile = 4096;

TERN_HOST_DEVICE uint32_t TilesOf(uint64_t count) {
  return static_cast<uint32_t>((count + kTile - 1) / kTile);
}

// A run of elements of one tensor: a tensor, or a segment of a chunk.
struct Part {
  uint64_t begin = 0;  // in the arena
  uint64_t count = 0;  // 1 to 2^32 - 1
  uint64_t first = 0;  // index of its first element in the tensor
  uint32_t tensor = 0;
  uint32_t chunk = 0;  // parts of a chunk are adjacent; once cut into tiles, chunks count from 0
};

// The number of the part's elements in the tile.
TERN_HOST_DEVICE uint32_t CountOf(const Part& part, uint32_t tile) {
  const uint64_t rest = part.count - uint64_t{tile} * kTile;
  return static_cast<uint32_t>(rest < kTile ? rest : kTile);
}

struct Tile {
  uint32_t part = 0;
  uint32_t index = 0;  // within its part
};

struct TiledPart {
  Part part;
  uint32_t tile_begin = 0;  // its first tile
};

struct TiledChunk {
  uint32_t part_begin = 0, part_end = 0;
  uint32_t tile_begin = 0, tile_end = 0;
  uint64_t out = 0;  // where its code begins: a multiple of 256
};

// In host memory; the caller copies the arrays to the device once.
struct Tiling {
  std::vector<Tile> tiles;
  std::vector<TiledPart> parts;
  std::vector<TiledChunk> chunks;
  uint64_t out_bytes = 0;  // buffer size for the codes of all chunks
};
Tiling CutIntoTiles(std::span<const Part> parts);

// A Tiling whose arrays are in device memory.
struct DeviceTiling {
  const Tile* tiles = nullptr;
  const TiledPart* parts = nullptr;
  const TiledChunk* chunks = nullptr;
  uint32_t tile_count = 0;
};

// The byte range of a part's code.
struct CodeRange {
  uint64_t begin = 0, size = 0;  // bytes
};

// Lays out the chunks of a tiling for codes other than ternary: sets chunks[c].out and out_bytes,
// where size(p) is the most bytes that part p takes. Returns the range of each part's code for
// parts that all take their maximum.
std::vector<CodeRange> LayOutCodes(const std::function<uint64_t(size_t part)>& size,
                                   Tiling* tiling);

// Grouping of a part: consecutive runs of `size` elements from its first element on; the last group
// may be shorter.
struct GroupedPart {
  uint64_t size = 1;         // at least 1
  uint64_t first_group = 0;  // index of its first group among those of all parts
};
// Groups part p by sizes[p]. *all: the number of groups of all parts.
std::vector<GroupedPart> GroupParts(const Tiling& tiling, std::span<const uint64_t> sizes,
                                    uint64_t* all);

}  // namespace tern::kernels

// How GPU kernels divide their work. All parameters (or gradients) of a model are in one array, the
// arena. A kernel processes many tensors of the arena in one launch: parts (runs of elements of a
// tensor) are cut into tiles of kTile elements, and each thread block processes one tile. Several
// neighbouring parts form a chunk, whose codes are sent in one message.
//
// Functions named ...OnDevice launch kernels. The kernels of kernels/codes and kernels/update give
// the same bits as the functions for the CPU. All arrays are in device memory unless stated
// otherwise. The functions do not wait for the kernels, which run in the order of the stream. The
// functions return a cudaError_t: 0 if the launches were accepted.
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

// Elements per tile. A tile is also a block in the order of additions of stats.h.
constexpr uint32_t kTile = 4096;

// The number of tiles of a part of `count` elements.
TERN_HOST_DEVICE uint32_t TilesOf(uint64_t count) {
  return static_cast<uint32_t>((count + kTile - 1) / kTile);
}

// A run of elements of one tensor: the whole tensor, or the range of it that belongs to one chunk.
struct Part {
  uint64_t begin = 0;   // index of its first element in the arena
  uint64_t count = 0;   // number of elements, 1 to 2^32 - 1
  uint64_t first = 0;   // index of its first element in the tensor
  uint32_t tensor = 0;  // index of the tensor
  // Index of its chunk. In a list of parts, the parts of a chunk are neighbours. CutIntoTiles
  // numbers the chunks again, from 0.
  uint32_t chunk = 0;
};

// The number of elements in tile number `tile` of the part.
TERN_HOST_DEVICE uint32_t CountOf(const Part& part, uint32_t tile) {
  const uint64_t remaining = part.count - uint64_t{tile} * kTile;
  return static_cast<uint32_t>(remaining < kTile ? remaining : kTile);
}

struct Tile {
  uint32_t part = 0;   // index in Tiling::parts
  uint32_t index = 0;  // index of the tile in its part
  // What follows from the part. A kernel that has to load the part first begins later.
  uint64_t begin = 0;  // index of its first element in the arena
  uint32_t count = 0;  // number of elements
  uint32_t chunk = 0;  // index in Tiling::chunks
};

struct TiledPart {
  Part part;
  uint32_t tile_begin = 0;  // index of its first tile in Tiling::tiles
};

struct TiledChunk {
  uint32_t part_begin = 0, part_end = 0;  // its range in Tiling::parts
  uint32_t tile_begin = 0, tile_end = 0;  // its range in Tiling::tiles
  uint64_t code_begin = 0;  // byte offset of its code in the buffer of codes, a multiple of 256
};

// All parts, tiles and chunks of a launch, in host memory. The caller copies the arrays to the
// device once.
struct Tiling {
  std::vector<Tile> tiles;
  std::vector<TiledPart> parts;
  std::vector<TiledChunk> chunks;
  uint64_t out_bytes = 0;  // buffer size for the codes of all chunks
};
// Cuts parts into tiles, and lays out the chunks for ternary codes (kernels/codes/ternary.h).
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
  uint64_t begin = 0, size = 0;
};

// Lays out the buffer of codes for a codec whose code of part p has at most size(p) bytes: sets
// chunks[c].code_begin and out_bytes of the tiling. Returns the range of each part's code, if every
// code has its largest size.
std::vector<CodeRange> LayOutCodes(const std::function<uint64_t(size_t part)>& size,
                                   Tiling* tiling);

// The groups of a part: runs of `size` neighbouring elements, from the part's first element on. The
// last group may be shorter.
struct GroupedPart {
  uint64_t size = 1;         // elements per group, at least 1
  uint64_t first_group = 0;  // index of its first group among the groups of all parts
};
// Divides part p into groups of sizes[p] elements. Sets *total to the number of groups of all
// parts.
std::vector<GroupedPart> GroupParts(const Tiling& tiling, std::span<const uint64_t> sizes,
                                    uint64_t* total);

}  // namespace tern::kernels

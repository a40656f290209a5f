// Helpers for tests of GPU kernels that process many tensors at once. An arena is one array with
// the elements of all tensors. A part is a range of the arena. Kernels cut parts into tiles of 4096
// elements. Consecutive parts form a chunk.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {

// Makes parts of these sizes. Gaps before every second part make parts unaligned, and each part
// begins at a different element of its tensor. Three parts form a chunk.
inline std::vector<Part> MakeParts(const std::vector<uint64_t>& sizes) {
  std::vector<Part> parts;
  uint64_t begin = 0;
  for (uint32_t p = 0; p < sizes.size(); ++p) {
    begin += p % 2 * 3;
    parts.push_back({begin, sizes[p], uint64_t{p} * 4096 + p * 3 % 8, 5 + p, p / 3});
    begin += sizes[p];
  }
  return parts;
}

// Returns n normally distributed values with mean 0.
inline std::vector<float> NormalValues(size_t n, float sigma, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// The tiles of parts, in device memory.
struct TilingOnDevice {
  explicit TilingOnDevice(const std::vector<Part>& parts) : TilingOnDevice(CutIntoTiles(parts)) {}
  explicit TilingOnDevice(const Tiling& host_tiling)
      : host_tiling(host_tiling),
        tiles(host_tiling.tiles),
        tiled_parts(host_tiling.parts),
        chunks(host_tiling.chunks) {}
  // Returns pointers to the tiles, parts and chunks, as kernels take them.
  DeviceTiling Get() {
    return {tiles.data(), tiled_parts.data(), chunks.data(),
            static_cast<uint32_t>(host_tiling.tiles.size())};
  }

  Tiling host_tiling;
  DeviceArray<Tile> tiles;
  DeviceArray<TiledPart> tiled_parts;
  DeviceArray<TiledChunk> chunks;
};

// Returns the size of the arena.
inline uint64_t ArenaSize(const std::vector<Part>& parts) {
  return parts.back().begin + parts.back().count;
}

}  // namespace tern::kernels

// Cuts parts into tiles and lays out codes for GPU kernels.
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

// Rounds up to a multiple of 256.
uint64_t RoundUpTo256(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

// The largest size in bytes of a ternary code: two planes of one bit per element
// (kernels/codes/ternary.h).
uint64_t BytesOfTwoPlanes(uint64_t elements) { return 2 * ((elements + 7) / 8); }

}  // namespace

Tiling CutIntoTiles(std::span<const Part> parts) {
  Tiling tiling;
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto part_index = static_cast<uint32_t>(p);
    const auto tile_index = static_cast<uint32_t>(tiling.tiles.size());
    if (p == 0 || parts[p].chunk != parts[p - 1].chunk)
      tiling.chunks.push_back({part_index, part_index, tile_index, tile_index, 0});
    tiling.parts.push_back({parts[p], tile_index});
    tiling.parts.back().part.chunk = static_cast<uint32_t>(tiling.chunks.size() - 1);
    const Part& part = tiling.parts.back().part;
    for (uint32_t i = 0; i < TilesOf(part.count); ++i) {
      tiling.tiles.push_back(
          {part_index, i, part.begin + uint64_t{i} * kTile, CountOf(part, i), part.chunk});
    }
    tiling.chunks.back().part_end = part_index + 1;
    tiling.chunks.back().tile_end = static_cast<uint32_t>(tiling.tiles.size());
  }
  LayOutCodes([&](size_t p) { return BytesOfTwoPlanes(parts[p].count); }, &tiling);
  return tiling;
}

std::vector<CodeRange> LayOutCodes(const std::function<uint64_t(size_t part)>& size,
                                   Tiling* tiling) {
  std::vector<CodeRange> ranges;
  uint64_t next_byte = 0;
  for (TiledChunk& chunk : tiling->chunks) {
    chunk.code_begin = next_byte = RoundUpTo256(next_byte);
    for (size_t p = chunk.part_begin; p < chunk.part_end; ++p) {
      ranges.push_back({next_byte, size(p)});
      next_byte += ranges.back().size;
    }
  }
  tiling->out_bytes = RoundUpTo256(next_byte);
  return ranges;
}

std::vector<GroupedPart> GroupParts(const Tiling& tiling, std::span<const uint64_t> sizes,
                                    uint64_t* total) {
  std::vector<GroupedPart> grouped_parts;
  *total = 0;
  for (size_t p = 0; p < tiling.parts.size(); ++p) {
    grouped_parts.push_back({sizes[p], *total});
    *total += (tiling.parts[p].part.count + sizes[p] - 1) / sizes[p];
  }
  return grouped_parts;
}

}  // namespace tern::kernels

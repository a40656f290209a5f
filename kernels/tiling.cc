#include "kernels/device.h"
#include "kernels/ternary.h"

namespace tern::kernels {

namespace {

constexpr uint64_t kAlignment = 256;

}  // namespace

Tiling CutIntoTiles(std::span<const Part> parts) {
  Tiling tiling;
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto part = static_cast<uint32_t>(p);
    const auto tile = static_cast<uint32_t>(tiling.tiles.size());
    if (p == 0 || parts[p].chunk != parts[p - 1].chunk) {
      tiling.out_bytes = (tiling.out_bytes + kAlignment - 1) / kAlignment * kAlignment;
      tiling.chunks.push_back({part, part, tile, tile, tiling.out_bytes});
    }
    tiling.parts.push_back({parts[p], tile});
    tiling.parts.back().part.chunk = static_cast<uint32_t>(tiling.chunks.size() - 1);
    for (uint32_t i = 0; i < TilesOf(parts[p].count); ++i) tiling.tiles.push_back({part, i});
    tiling.chunks.back().part_end = part + 1;
    tiling.chunks.back().tile_end = static_cast<uint32_t>(tiling.tiles.size());
    tiling.out_bytes += 2 * PlaneBytes(parts[p].count);
  }
  return tiling;
}

}  // namespace tern::kernels

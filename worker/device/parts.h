// Arrays on a GPU, and groups of parts of a model's arenas that are processed together. Internal to
// worker/device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/codes/stats.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "worker/device/device.h"

namespace tern::device {

template <typename T>
class Array {
 public:
  // Allocates zeroed elements.
  Status Allocate(size_t count) {
    auto made = AllocateDevice(count * sizeof(T));
    if (made.ok()) memory_ = std::move(*made);
    return made.status();
  }
  Status Fill(const std::vector<T>& from, Stream* stream) {
    TERN_RETURN_IF_ERROR(Allocate(from.size()));
    return stream->CopyIn(get(), from.data(), from.size() * sizeof(T));
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
};

// Parts that form one chunk, cut into tiles on the device.
struct Group {
  kernels::Tiling host;
  Array<kernels::Tile> tiles;
  Array<kernels::TiledPart> parts;
  Array<kernels::TiledChunk> chunks;

  Status Make(std::vector<kernels::Part> of, Stream* stream) {
    for (kernels::Part& part : of) part.chunk = 0;
    host = kernels::CutIntoTiles(of);
    TERN_RETURN_IF_ERROR(tiles.Fill(host.tiles, stream));
    TERN_RETURN_IF_ERROR(parts.Fill(host.parts, stream));
    return chunks.Fill(host.chunks, stream);
  }
  kernels::DeviceTiling tiling() const {
    return {tiles.get(), parts.get(), chunks.get(), static_cast<uint32_t>(host.tiles.size())};
  }
  const kernels::Part& part(size_t i) const { return host.parts[i].part; }
  size_t size() const { return host.parts.size(); }
};

using Groups = std::vector<Group>;

// The maximum sizes over groups, for allocating buffers.
struct MaxSizes {
  size_t tiles = 0, parts = 0;
  void Include(const Groups& groups) {
    for (const Group& group : groups) {
      tiles = std::max(tiles, group.host.tiles.size());
      parts = std::max(parts, group.size());
    }
  }
};

// Computes the statistics of a group's parts; owns the workspace for that.
class StatsWorkspace {
 public:
  Status Allocate(const MaxSizes& max);
  // The statistics of the arena's values, by part; waits for the result.
  Result<std::vector<kernels::Stats>> Compute(const float* arena, const Group& group,
                                              Stream* stream);
  // The same, left on the device: valid until the next call.
  Result<const kernels::DeviceStats*> Launch(const float* arena, const Group& group,
                                             Stream* stream);

 private:
  Array<kernels::DeviceStats> tiles_, stats_;
  Array<uint32_t> done_;
};

}  // namespace tern::device

// Arrays on a GPU, and groups of parts that one kernel launch processes. An arena is an array with
// all elements of the model; a part is a range of one tensor in it. Internal to worker/device.
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

// An array of T in device memory.
template <typename T>
class Array {
 public:
  // Allocates `count` elements that are zero.
  Status Allocate(size_t count) {
    auto allocated_memory = AllocateDevice(count * sizeof(T));
    if (allocated_memory.ok()) memory_ = std::move(*allocated_memory);
    return allocated_memory.status();
  }
  // Allocates an array of the size of `host_values`, and launches the copy of these to the array.
  Status CopyFrom(const std::vector<T>& host_values, Stream* stream) {
    TERN_RETURN_IF_ERROR(Allocate(host_values.size()));
    return stream->CopyInNow(get(), host_values.data(), host_values.size() * sizeof(T));
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
};

// Parts that are processed together, divided into tiles (the unit of work of a thread block).
// `host_tiling` is the division in host memory; the arrays are the same on the device.
struct Group {
  kernels::Tiling host_tiling;
  Array<kernels::Tile> tiles;
  Array<kernels::TiledPart> parts;
  Array<kernels::TiledChunk> chunks;

  // Divides `new_parts` into tiles, and launches the copy of the resulting arrays to the device.
  Status Make(std::vector<kernels::Part> new_parts, Stream* stream) {
    for (kernels::Part& part : new_parts) part.chunk = 0;
    host_tiling = kernels::CutIntoTiles(new_parts);
    TERN_RETURN_IF_ERROR(tiles.CopyFrom(host_tiling.tiles, stream));
    TERN_RETURN_IF_ERROR(parts.CopyFrom(host_tiling.parts, stream));
    return chunks.CopyFrom(host_tiling.chunks, stream);
  }
  kernels::DeviceTiling tiling() const {
    return {tiles.get(), parts.get(), chunks.get(),
            static_cast<uint32_t>(host_tiling.tiles.size())};
  }
  const kernels::Part& part(size_t i) const { return host_tiling.parts[i].part; }
  size_t size() const { return host_tiling.parts.size(); }  // The number of parts.
};

using Groups = std::vector<Group>;

// The largest numbers of tiles and of parts in a group, from which buffer sizes follow.
struct MaxSizes {
  size_t tiles = 0, parts = 0;
  // Raises the maxima to those of `groups`.
  void Include(const Groups& groups) {
    for (const Group& group : groups) {
      tiles = std::max(tiles, group.host_tiling.tiles.size());
      parts = std::max(parts, group.size());
    }
  }
};

// Computes statistics (such as sums of squares) of the parts of a group, on the device.
class StatsComputer {
 public:
  Status Allocate(const MaxSizes& max_sizes);
  // Returns the statistics of the arena's values, one element per part of the group. Waits for the
  // result.
  Result<std::vector<kernels::Stats>> Compute(const float* arena, const Group& group,
                                              Stream* stream);
  // Launches the same computation without waiting for it. Returns a device pointer to the
  // statistics, which stay valid until the next call of Launch or Compute.
  Result<const kernels::DeviceStats*> Launch(const float* arena, const Group& group,
                                             Stream* stream);

 private:
  Array<kernels::DeviceStats> tile_stats_, part_stats_;
  Array<uint32_t> tiles_done_;
};

}  // namespace tern::device

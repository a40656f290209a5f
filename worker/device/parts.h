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
    auto made = AllocateDevice(count * sizeof(T));
    if (made.ok()) memory_ = std::move(*made);
    return made.status();
  }
  // Allocates a copy of `from`. The copy is only launched: `from` must live until the stream is
  // done.
  Status Fill(const std::vector<T>& from, Stream* stream) {
    TERN_RETURN_IF_ERROR(Allocate(from.size()));
    return stream->CopyIn(get(), from.data(), from.size() * sizeof(T));
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
};

// Parts that are processed together, divided into tiles (the unit of work of a thread block).
// `host` is the division in host memory; the arrays are the same on the device.
struct Group {
  kernels::Tiling host;
  Array<kernels::Tile> tiles;
  Array<kernels::TiledPart> parts;
  Array<kernels::TiledChunk> chunks;

  // Divides the parts, and copies the arrays to the device.
  Status Make(std::vector<kernels::Part> new_parts, Stream* stream) {
    for (kernels::Part& part : new_parts) part.chunk = 0;
    host = kernels::CutIntoTiles(new_parts);
    TERN_RETURN_IF_ERROR(tiles.Fill(host.tiles, stream));
    TERN_RETURN_IF_ERROR(parts.Fill(host.parts, stream));
    return chunks.Fill(host.chunks, stream);
  }
  kernels::DeviceTiling tiling() const {
    return {tiles.get(), parts.get(), chunks.get(), static_cast<uint32_t>(host.tiles.size())};
  }
  const kernels::Part& part(size_t i) const { return host.parts[i].part; }
  size_t size() const { return host.parts.size(); }  // The number of parts.
};

using Groups = std::vector<Group>;

// The largest numbers of tiles and of parts in a group, from which buffer sizes follow.
struct MaxSizes {
  size_t tiles = 0, parts = 0;
  // Raises the maxima to those of `groups`.
  void Include(const Groups& groups) {
    for (const Group& group : groups) {
      tiles = std::max(tiles, group.host.tiles.size());
      parts = std::max(parts, group.size());
    }
  }
};

// Computes statistics (such as sums of squares) of the parts of a group, on the device.
class StatsWorkspace {
 public:
  Status Allocate(const MaxSizes& max);
  // Returns the statistics of the arena's values, one element per part of the group. Waits for the
  // result.
  Result<std::vector<kernels::Stats>> Compute(const float* arena, const Group& group,
                                              Stream* stream);
  // Launches the same without waiting. Returns a device pointer to the statistics, which are valid
  // until the next call.
  Result<const kernels::DeviceStats*> Launch(const float* arena, const Group& group,
                                             Stream* stream);

 private:
  Array<kernels::DeviceStats> tiles_, stats_;
  Array<uint32_t> done_;
};

}  // namespace tern::device

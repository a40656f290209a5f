// Chunks that are encoded in groups of neighbouring elements (kernels/device/tiling.h). Internal to
// worker/device.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "worker/device/parts.h"

namespace tern::device {

class GroupedChunks {
 public:
  using PerPart = std::function<uint64_t(const kernels::Part& part)>;
  // `group` gives the number of elements per group of a part, `size` the most bytes of the part's
  // code.
  Status Make(const Groups& chunks, const PerPart& group, const PerPart& size, Stream* stream) {
    chunks_.resize(chunks.size());
    for (size_t c = 0; c < chunks.size(); ++c) {
      kernels::Tiling tiling = chunks[c].host;
      std::vector<uint64_t> sizes;
      for (size_t i = 0; i < chunks[c].size(); ++i) sizes.push_back(group(chunks[c].part(i)));
      const auto ranges =
          kernels::LayOutCodes([&](size_t p) { return size(chunks[c].part(p)); }, &tiling);
      uint64_t all = 0;
      TERN_RETURN_IF_ERROR(
          chunks_[c].groups.Fill(kernels::GroupParts(tiling, sizes, &all), stream));
      TERN_RETURN_IF_ERROR(chunks_[c].ranges.Fill(ranges, stream));
      TERN_RETURN_IF_ERROR(stream->Wait());  // the host's copies are destroyed next
      chunks_[c].bytes = ranges.back().begin + ranges.back().size;
      max_groups_ = std::max(max_groups_, all);
    }
    return Ok();
  }
  const kernels::GroupedPart* groups(uint32_t chunk) const { return chunks_[chunk].groups.get(); }
  const kernels::CodeRange* ranges(uint32_t chunk) const { return chunks_[chunk].ranges.get(); }
  // The most bytes of the chunk's code.
  uint64_t bytes(uint32_t chunk) const { return chunks_[chunk].bytes; }
  uint64_t max_groups() const { return max_groups_; }  // the most groups of a chunk

 private:
  struct Chunk {
    Array<kernels::GroupedPart> groups;
    Array<kernels::CodeRange> ranges;
    uint64_t bytes = 0;
  };
  std::vector<Chunk> chunks_;
  uint64_t max_groups_ = 0;
};

}  // namespace tern::device

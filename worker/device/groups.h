// Tables for codecs that divide parts into groups, runs of neighbouring elements with a scale or
// means of their own. A chunk, which is encoded by itself, consists of parts (ranges of one
// tensor), and each part is divided into groups. Internal to worker/device.
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
  // A function that returns a number for a part.
  using PartFunction = std::function<uint64_t(const kernels::Part& part)>;
  // Divides the chunks' parts into groups, and copies the tables to the device. group_size(part)
  // returns the number of elements in each group of a part, max_bytes(part) the most bytes of the
  // part's code.
  Status Make(const Groups& chunks, const PartFunction& group_size, const PartFunction& max_bytes,
              Stream* stream) {
    chunks_.resize(chunks.size());
    for (size_t c = 0; c < chunks.size(); ++c) {
      kernels::Tiling tiling = chunks[c].host_tiling;
      std::vector<uint64_t> sizes;
      for (size_t i = 0; i < chunks[c].size(); ++i) sizes.push_back(group_size(chunks[c].part(i)));
      const auto ranges =
          kernels::LayOutCodes([&](size_t p) { return max_bytes(chunks[c].part(p)); }, &tiling);
      uint64_t num_groups = 0;
      TERN_RETURN_IF_ERROR(
          chunks_[c].groups.CopyFrom(kernels::GroupParts(tiling, sizes, &num_groups), stream));
      TERN_RETURN_IF_ERROR(chunks_[c].ranges.CopyFrom(ranges, stream));
      chunks_[c].max_code_bytes = ranges.back().begin + ranges.back().size;
      max_groups_ = std::max(max_groups_, num_groups);
    }
    return Ok();
  }
  // Device arrays with one element per part of the chunk: the part's division into groups, and the
  // byte range of the part's code, if the code of every part has its maximum size.
  const kernels::GroupedPart* groups(uint32_t chunk) const { return chunks_[chunk].groups.get(); }
  const kernels::CodeRange* ranges(uint32_t chunk) const { return chunks_[chunk].ranges.get(); }
  // The most bytes that the chunk's code takes.
  uint64_t max_code_bytes(uint32_t chunk) const { return chunks_[chunk].max_code_bytes; }
  uint64_t max_groups() const { return max_groups_; }  // The most groups in one chunk.

 private:
  struct Chunk {
    Array<kernels::GroupedPart> groups;
    Array<kernels::CodeRange> ranges;
    uint64_t max_code_bytes = 0;
  };
  std::vector<Chunk> chunks_;
  uint64_t max_groups_ = 0;
};

}  // namespace tern::device

// Chunks that are coded in groups of neighbours of one size (kernels/device/tiling.h). Internal to
// the engine's *_cuda.cc files.
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
  using OfPart = std::function<uint64_t(const kernels::Part& part)>;
  // `group`: elements per group of a part; `size`: the most bytes of its code.
  Status Make(const Groups& chunks, const OfPart& group, const OfPart& size, Stream* stream) {
    chunks_.resize(chunks.size());
    for (size_t c = 0; c < chunks.size(); ++c) {
      kernels::Tiling tiling = chunks[c].host;
      std::vector<uint64_t> sizes;
      for (size_t i = 0; i < chunks[c].size(); ++i) sizes.push_back(group(chunks[c].part(i)));
      const auto places =
          kernels::PlaceCodes([&](size_t p) { return size(chunks[c].part(p)); }, &tiling);
      uint64_t all = 0;
      TERN_RETURN_IF_ERROR(
          chunks_[c].groups.Fill(kernels::GroupParts(tiling, sizes, &all), stream));
      TERN_RETURN_IF_ERROR(chunks_[c].places.Fill(places, stream));
      TERN_RETURN_IF_ERROR(stream->Wait());  // the host's copies are destroyed next
      chunks_[c].bytes = places.back().begin + places.back().size;
      most_ = std::max(most_, all);
    }
    return Ok();
  }
  const kernels::GroupedPart* groups(uint32_t chunk) const { return chunks_[chunk].groups.get(); }
  const kernels::CodePlace* places(uint32_t chunk) const { return chunks_[chunk].places.get(); }
  uint64_t bytes(uint32_t chunk) const { return chunks_[chunk].bytes; }  // of its code, at most
  uint64_t most() const { return most_; }                                // groups per chunk

 private:
  struct Chunk {
    Array<kernels::GroupedPart> groups;
    Array<kernels::CodePlace> places;
    uint64_t bytes = 0;
  };
  std::vector<Chunk> chunks_;
  uint64_t most_ = 0;
};

}  // namespace tern::device

#include "common/protocol/plan/layout.h"

#include "common/base/hash.h"

namespace tern::protocol {

std::string LayoutText(const std::vector<uint32_t>& data_lanes,
                       const std::vector<Bucket>& buckets) {
  std::string text;
  const auto append = [&text](uint64_t value) { text += " " + std::to_string(value); };
  for (const uint32_t num_lanes : data_lanes) append(num_lanes);
  for (const Bucket& bucket : buckets) {
    append(bucket.begin);
    for (const Chunk& chunk : bucket.chunks) {
      append(chunk.begin);
      append(chunk.count);
      append(chunk.shard);
      append(chunk.lane);
    }
  }
  return text;
}

uint64_t LayoutDigest(const std::vector<uint32_t>& data_lanes, const std::vector<Bucket>& buckets) {
  return Digest("layout 1" + LayoutText(data_lanes, buckets));
}

}  // namespace tern::protocol

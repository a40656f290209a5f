#include "common/protocol/plan/layout.h"

#include <string>

#include "common/base/hash.h"

namespace tern::protocol {

uint64_t LayoutDigest(const ExchangePlan& plan) {
  std::string text = "layout 1";
  const auto append = [&text](uint64_t value) { text += " " + std::to_string(value); };
  for (const uint32_t num_lanes : plan.data_lanes) append(num_lanes);
  for (const Bucket& bucket : plan.buckets) {
    append(bucket.begin);
    for (const Chunk& chunk : bucket.chunks) {
      append(chunk.begin);
      append(chunk.count);
      append(chunk.shard);
      append(chunk.lane);
    }
  }
  return Digest(text);
}

}  // namespace tern::protocol

#include "setup/kept_memory.h"

#include "common/base/text.h"
#include "common/update/optimizer.h"

namespace tern::setup {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

// How many floats the shard has for each element of the model that it serves.
uint64_t FloatsPerWeight(const Setup& setup) {
  if (!setup.plan.is_central) return 0;
  uint64_t floats = 1;
  // This optimizer has the state arrays of the job's, but without elements.
  if (auto optimizer = update::MakeOptimizer(setup.job.train().optimizer(), 0); optimizer.ok())
    floats += (*optimizer)->StateArrays().size();
  if (setup.job.exchange().pull() == pb::Exchange::changes) floats += setup.plan.workers;
  return floats;
}

// Whether the codec keeps a float for each element of the sums of this tensor.
bool KeepsSums(const codec::Codec& codec, codec::Segment segment) {
  segment.count = 1;
  return codec.NewSumMemory(segment) != nullptr;
}

}  // namespace

uint64_t KeptBytes(const Setup& setup, uint32_t shard) {
  const uint64_t floats_per_weight = FloatsPerWeight(setup);
  uint64_t floats = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard != shard) continue;
      for (const codec::Segment& segment : chunk.segments) {
        const bool keeps_sums = KeepsSums(*setup.plan.codec_of[segment.tensor], segment);
        floats += segment.count * (floats_per_weight + (keeps_sums ? 1 : 0));
      }
    }
  }
  return floats * kFloatBytes;
}

Status CheckKeptBytes(const Setup& setup, uint32_t shard, std::optional<uint64_t> room) {
  const uint64_t kept_bytes = KeptBytes(setup, shard);
  if (!room.has_value() || kept_bytes <= *room) return Ok();
  return Status(Code::kBadData,
                Cat("saw tensors of ", Thousands(setup.table.total), " elements, for which server ",
                    shard, " has to keep ", HumanBytes(kept_bytes), "; it has ", HumanBytes(*room),
                    " of memory: use more servers, or a codec of which servers keep nothing"));
}

}  // namespace tern::setup

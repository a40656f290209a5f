#include "tools/memory.h"

#include <utility>

#include "common/base/text.h"
#include "common/update/optimizer.h"

namespace tern::tools {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

// The bytes of the activations of all layers for `samples` samples.
uint64_t ActivationBytes(const setup::Setup& setup, uint64_t samples) {
  const auto shapes = models::InferShapes(setup.net);
  uint64_t elements = 0;
  if (!shapes.ok()) return 0;  // cannot happen: MakeSetup has inferred the shapes before
  for (const auto& [name, dims] : *shapes) elements += uint64_t{dims.c} * dims.h * dims.w;
  return elements * samples * kFloatBytes;
}

}  // namespace

std::vector<MemoryItem> WorkerMemory(const setup::Setup& setup) {
  const uint64_t model = setup.table.total * kFloatBytes;
  const pb::Job& job = setup.job;
  const protocol::RoundBytes round = protocol::CountRoundBytes(setup.plan);
  std::vector<MemoryItem> lines = {{"parameters", model, "fp32"}, {"gradients", model, "fp32"}};
  if (auto optimizer = update::MakeOptimizer(job.train().optimizer(), setup.table.total);
      optimizer.ok()) {
    for (const update::Optimizer::StateArray& slot : (*optimizer)->StateArrays()) {
      lines.push_back({"optimizer: " + slot.name, slot.values.size() * kFloatBytes, "fp32"});
    }
  }
  if (job.evaluation().ema_decay() > 0) lines.push_back({"moving average", model, "fp32"});
  const uint64_t batch = job.train().batch_total() / setup.plan.workers;
  lines.push_back({"activations, training", 2 * ActivationBytes(setup, batch),
                   Cat("at most: ", batch,
                       " samples and their gradients; tensors that are not live at the same time "
                       "share memory")});
  lines.push_back({"activations, evaluation", ActivationBytes(setup, job.evaluation().batch()),
                   Cat("at most: ", job.evaluation().batch(), " samples")});
  lines.push_back({"unanswered pushes", round.push, "at most: one round"});
  lines.push_back(
      {"sums", 2 * round.sum, "the round that arrives, and the one held for other workers"});
  return lines;
}

std::vector<MemoryItem> ServerMemory(const setup::Setup& setup, uint32_t shard) {
  // How many rounds a server keeps of each range of the model (common/protocol/rounds/lane.h):
  // 2 * window + 2, for a window of one round.
  constexpr uint64_t kSlots = 4;
  const uint64_t workers = setup.plan.workers;
  uint64_t sums = 0, open = 0, parked = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard != shard) continue;
      sums += chunk.max_sum_bytes;
      for (const codec::Segment& segment : chunk.segments) {
        const codec::Codec& codec = *setup.plan.codec_of[segment.tensor];
        // Codes with shared scalers are added as they arrive; float sums wait for the lower ranks.
        if (codec.shares_scaler()) {
          open += codec.MaxSumSize(segment, static_cast<int>(workers));
        } else {
          open += segment.count * kFloatBytes;
          parked += workers * codec.MaxEncodedSize(segment);
        }
      }
    }
  }
  const uint64_t credit = uint64_t{setup.job.exchange().credit_kib()} * 1024;
  const uint64_t lanes = setup.plan.data_lanes[shard];
  return {{"closed rounds", (kSlots - 1) * sums,
           Cat("at most ", kSlots - 1, ", until all workers have applied them")},
          {"open round", open, "the sums so far"},
          {"parked float sums", parked, Cat("at most: one round of each of ", workers, " workers")},
          {"frames in transit", workers * lanes * credit,
           Cat("at most: the credit of ", workers, " workers on ", lanes, " data sockets")}};
}

}  // namespace tern::tools

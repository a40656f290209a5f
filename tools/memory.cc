#include "tools/memory.h"

#include <algorithm>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/update/optimizer.h"
#include "setup/kept_memory.h"

namespace tern::tools {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

// Returns the bytes of the activations of all layers for `samples` samples.
uint64_t ActivationBytes(const setup::Setup& setup, uint64_t samples) {
  const auto shapes = models::InferShapes(setup.net);
  uint64_t elements = 0;
  if (!shapes.ok()) return 0;  // Cannot happen: MakeSetup has inferred the shapes.
  for (const auto& [name, dims] : *shapes) elements += uint64_t{dims.c} * dims.h * dims.w;
  return elements * samples * kFloatBytes;
}

// Returns the bytes that codecs keep of gradients: a float for each element of a tensor whose codec
// has a memory.
uint64_t CodecMemoryBytes(const protocol::ExchangePlan& plan) {
  uint64_t elements = 0;
  for (size_t t = 0; t < plan.codec_of.size(); ++t)
    if (plan.codec_of[t]->HasMemory()) elements += plan.tensor_count[t];
  return elements * kFloatBytes;
}

// Appends the rows of the passes of the job's network.
void AddActivations(const setup::Setup& setup, std::vector<MemoryItem>* items) {
  const pb::Job& job = setup.job;
  uint64_t batch_size = algorithm::BatchOfWorker(job);
  for (const pb::BatchGrowth& growth : job.train().batch_growth()) {
    batch_size =
        std::max<uint64_t>(batch_size, algorithm::BatchOfWorker(job, growth.batch_total()));
  }
  const char* const when = job.train().batch_growth_size() == 0 ? "" : " (the largest batch)";
  items->push_back({"activations, training", 2 * ActivationBytes(setup, batch_size),
                    Cat("about: ", batch_size, " samples", when,
                        " and their gradients; tensors that are not live at the same time share "
                        "memory, and 5 x 5 convolutions may keep four times their input")});
  items->push_back({"activations, evaluation", ActivationBytes(setup, job.evaluation().batch()),
                    Cat("about: ", job.evaluation().batch(), " samples")});
}

}  // namespace

std::vector<MemoryItem> WorkerMemory(const setup::Setup& setup) {
  const uint64_t model_bytes = setup.table.total * kFloatBytes;
  const pb::Job& job = setup.job;
  const protocol::RoundBytes round_bytes = protocol::CountRoundBytes(setup.plan);
  std::vector<MemoryItem> items = {{"gradients", model_bytes, "fp32"}};
  const auto add_exchange = [&] {
    if (const uint64_t bytes = CodecMemoryBytes(setup.plan); bytes != 0)
      items.push_back({"codec memory", bytes, "fp32: what codes have left out so far"});
    if (std::any_of(setup.plan.codecs.begin(), setup.plan.codecs.end(),
                    [](const auto& codec) { return codec->rotates(); }))
      items.push_back({"rotated gradients", model_bytes, "fp32"});
    items.push_back({"unanswered pushes", round_bytes.push, "at most: one round"});
    items.push_back({"sums", 2 * round_bytes.sum,
                     "the round that arrives, and the one held for other workers"});
    if (setup.plan.sums_on_hosts)
      items.push_back({"pushes of its host", setup.plan.workers * round_bytes.push,
                       Cat("at most, if it leads its host: one round of each of ",
                           setup.plan.workers, " workers")});
    return items;
  };
  // The program has the parameters, the optimizer and the data.
  if (setup::IsClientJob(job)) return add_exchange();
  items.insert(items.begin(), {"parameters", model_bytes, "fp32"});
  if (setup.table.frozen_total != 0)
    items.push_back({"frozen parameters", 2 * setup.table.frozen_total * kFloatBytes,
                     "fp32, and as much for gradients that nobody reads"});
  // This optimizer has the state arrays of the job's, but without elements: each of the job's has
  // one element per parameter.
  if (auto optimizer = update::MakeOptimizer(job.train().optimizer(), 0); optimizer.ok()) {
    for (const update::Optimizer::StateArray& state_array : (*optimizer)->StateArrays())
      items.push_back({"optimizer: " + state_array.name, model_bytes, "fp32"});
  }
  const algorithm::Facts facts = algorithm::FactsOf(job);
  if (facts.outer_optimizer != nullptr) {
    if (auto outer = update::MakeOuterOptimizer(*facts.outer_optimizer, 0); outer.ok()) {
      for (const update::Optimizer::StateArray& state_array : (*outer)->StateArrays())
        items.push_back({"outer optimizer: " + state_array.name, model_bytes, "fp32"});
    }
  }
  if (facts.has_own_point) items.push_back({"own weights", model_bytes, "fp32"});
  if (facts.has_average) items.push_back({"moving average", model_bytes, "fp32"});
  // The program has the activations and the data.
  if (setup::IsModuleJob(job)) return add_exchange();
  AddActivations(setup, &items);
  return add_exchange();
}

std::vector<MemoryItem> ServerMemory(const setup::Setup& setup, uint32_t shard) {
  // For each range of the model a server keeps the sums of at most 2 * window + 2 rounds if rounds
  // wait for all workers. The window is the number of rounds that a worker may have open: here 1.
  constexpr uint64_t kKeptRounds = 4;
  const uint64_t num_workers = setup.plan.workers;
  uint64_t sum_bytes = 0, open_sum_bytes = 0, parked_push_bytes = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard != shard) continue;
      sum_bytes += chunk.max_sum_bytes;
      for (const codec::Segment& segment : chunk.segments) {
        const codec::Codec& codec = *setup.plan.codec_of[segment.tensor];
        // Codes with one scaler (multiplier) for all workers are added in the order in which they
        // arrive. Other codes are added as floats in the order of ranks: a push is parked until all
        // pushes of lower ranks are added.
        if (codec.shares_scaler()) {
          open_sum_bytes += codec.MaxSumSize(segment, static_cast<int>(num_workers));
        } else {
          open_sum_bytes += segment.count * kFloatBytes;
          parked_push_bytes += num_workers * codec.MaxEncodedSize(segment);
        }
      }
    }
  }
  const uint64_t credit_bytes = uint64_t{setup.job.exchange().credit_kib()} * 1024;
  const uint64_t num_lanes = setup.plan.data_lanes[shard];
  std::vector<MemoryItem> items;
  if (const uint64_t kept_bytes = setup::KeptBytes(setup, shard); kept_bytes != 0) {
    items.push_back({"kept from the start", kept_bytes,
                     setup.plan.is_central ? "its weights and optimizer, and codecs' memories"
                                           : "what codecs keep of earlier sums"});
  }
  const std::vector<MemoryItem> of_rounds = {
      {"closed rounds", (kKeptRounds - 1) * sum_bytes,
       Cat("at most ", kKeptRounds - 1, ", until all workers have applied them")},
      {"open round", open_sum_bytes, "the sums so far"},
      {"parked float sums", parked_push_bytes,
       Cat("at most: one round of each of ", num_workers, " workers")},
      {"frames in transit", num_workers * num_lanes * credit_bytes,
       Cat("at most: the credit of ", num_workers, " workers on ", num_lanes, " data sockets")}};
  items.insert(items.end(), of_rounds.begin(), of_rounds.end());
  return items;
}

}  // namespace tern::tools

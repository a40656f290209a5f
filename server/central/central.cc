#include "server/central/central.h"

#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/codec/float_sum.h"
#include "common/update/average.h"
#include "setup/first_weights.h"
#include "setup/tensor_rates.h"

namespace tern::server {

namespace {

// How many times the weight decay is in an update: a push may be the sum of the gradients of
// several steps, each of which has the decay once, like each of the worker's own steps.
uint64_t DecaysAPush(const pb::Job& job) {
  const algorithm::Facts facts = algorithm::FactsOf(job);
  return facts.pushed_quantity == pb::AlgorithmTraits::gradient ? facts.steps_a_push() : 1;
}

Status CheckSegment(const setup::Setup& setup, const codec::Segment& segment,
                    bool needs_whole_tensors) {
  const std::string tensor = "tensor " + setup.table.parameters[segment.tensor].name;
  if (setup.plan.codec_of[segment.tensor]->shares_scaler()) {
    return Status(Code::kBadJob,
                  tensor +
                      " is coded with scalers that the workers share, but servers that hold the "
                      "parameters must read every push alone: set exchange.scaler to per_worker");
  }
  if (needs_whole_tensors && segment.count != setup.plan.tensor_count[segment.tensor]) {
    const uint64_t tensor_kib = (setup.plan.tensor_count[segment.tensor] + 255) / 256;
    const bool is_too_large = setup.job.security() == pb::Job::curve &&
                              tensor_kib > protocol::kMaxEncryptedPayload / 1024;
    return Status(
        Code::kBadJob,
        Cat("train.optimizer.name is '", setup.job.train().optimizer().name(),
            "', which needs whole tensors, but ", tensor, " is cut over several chunks: ",
            is_too_large ? std::string("with security: curve a chunk has at most 256 KiB; "
                                       "set train.parameters to localized")
                         : Cat("set exchange.chunk_kib to at least ", tensor_kib)));
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<CentralChunk>> CentralChunk::Make(const setup::Setup& setup,
                                                         const protocol::Chunk& chunk,
                                                         std::span<const float> initial) {
  std::unique_ptr<CentralChunk> central_chunk(new CentralChunk(setup, chunk));
  auto optimizer = update::MakeOptimizer(setup.job.train().optimizer(), chunk.count);
  if (!optimizer.ok()) return optimizer.status();
  central_chunk->optimizer_ = std::move(*optimizer);
  std::vector<kernels::TensorRates> tensor_rates =
      setup::UpdateRatesOf(setup.job, setup.table, false).of_tensor;
  const auto decays_a_push = static_cast<float>(DecaysAPush(setup.job));
  for (kernels::TensorRates& rates : tensor_rates) rates.decay *= decays_a_push;
  for (const codec::Segment& segment : chunk.segments) {
    TERN_RETURN_IF_ERROR(
        CheckSegment(setup, segment, central_chunk->optimizer_->needs_whole_tensors()));
    central_chunk->segment_rates_.push_back(tensor_rates[segment.tensor]);
  }
  const std::span<const float> chunk_weights = initial.subspan(chunk.begin, chunk.count);
  central_chunk->weights_.assign(chunk_weights.begin(), chunk_weights.end());
  if (setup.job.evaluation().ema_decay() > 0) central_chunk->average_ = central_chunk->weights_;
  return central_chunk;
}

Status CentralChunk::DecodePush(const Bytes& push, std::span<float> values) const {
  std::span<const uint8_t> unread_bytes = push.span();
  float* destination = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
    const Result<size_t> used_bytes = codec.DecodeSingleCode(unread_bytes, segment, destination);
    if (!used_bytes.ok()) return used_bytes.status().Within(Cat("tensor ", segment.tensor));
    unread_bytes = unread_bytes.subspan(*used_bytes);
    destination += segment.count;
  }
  if (unread_bytes.empty()) return Ok();
  return Status(Code::kMismatch, Cat(unread_bytes.size(), " bytes more than the chunk has"));
}

Status CentralChunk::DecodeMean(const Bytes& sum, uint32_t contributors,
                                std::span<float> values) const {
  std::span<const uint8_t> unread_bytes = sum.span();
  float* destination = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
    const auto num_workers = static_cast<int>(contributors);
    const Result<size_t> sum_bytes = codec.SumSize(unread_bytes, segment, num_workers);
    if (!sum_bytes.ok()) return sum_bytes.status();
    TERN_RETURN_IF_ERROR(codec.Decode(unread_bytes.first(*sum_bytes), segment, num_workers, 0, 0,
                                      segment.count, destination));
    unread_bytes = unread_bytes.subspan(*sum_bytes);
    destination += segment.count;
  }
  return Ok();
}

void CentralChunk::ApplyGradient(std::span<const float> g, double learning_rate) {
  const update::Step step{learning_rate, version_ + 1};
  size_t begin = 0;
  for (size_t i = 0; i < chunk_.segments.size(); ++i) {
    const size_t count = chunk_.segments[i].count;
    optimizer_->Update(weights_.data() + begin, g.data() + begin, begin, count, step,
                       segment_rates_[i]);
    begin += count;
  }
  CountChange();
}

void CentralChunk::MoveTowards(std::span<const float> x, float alpha) {
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i] += alpha * (x[i] - weights_[i]);
  CountChange();
}

void CentralChunk::CountChange() {
  ++version_;
  if (average_.empty()) return;
  update::AverageWeights(average_.data(), weights_.data(), weights_.size(),
                         setup_.job.evaluation().ema_decay(), version_);
}

void CentralChunk::AddState(SavedState* state) {
  state->arrays.push_back({"weights", weights_});
  if (!average_.empty()) state->arrays.push_back({"average", average_});
  for (const update::Optimizer::StateArray& state_array : optimizer_->StateArrays())
    state->arrays.push_back({state_array.name, state_array.values});
  state->numbers.push_back({"version", &version_});
}

std::vector<float> InitialWeights(const setup::Setup& setup) {
  return setup::FirstWeights(setup).parameters;
}

Bytes Fp32Bytes(std::span<const float> values) {
  std::vector<uint8_t> fp32_bytes;
  fp32_bytes.reserve(values.size_bytes());
  codec::AppendFloats(values, &fp32_bytes);
  return Bytes::Own(std::move(fp32_bytes));
}

}  // namespace tern::server

#include "client/exchange/host_coder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "setup/own_state.h"

namespace tern::client {
namespace {

bool AnyCodecRotates(const protocol::ExchangePlan& plan) {
  return std::any_of(plan.codecs.begin(), plan.codecs.end(),
                     [](const auto& codec) { return codec->rotates(); });
}

}  // namespace

HostCoder::HostCoder(const setup::Setup& setup, uint32_t rank,
                     const std::vector<const float*>* sources)
    : GradientCoder(setup, rank),
      sources_(sources),
      compensated_values_(setup::HasCodecMemory(setup) ? setup.plan.parameters() : 0),
      values_of_memory_(setup.plan.codec_of.size()),
      rotated_values_(AnyCodecRotates(setup.plan) ? setup.plan.parameters() : 0),
      rotated_round_(setup.plan.buckets.size()) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t)
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
}

std::span<const float> HostCoder::ValuesToEncode(const BucketValues& values,
                                                 const protocol::Part& part) const {
  const uint64_t tensor_begin = setup_.plan.tensor_begin[part.tensor];
  const float* tensor_values = PushedValues(values.arena, part.tensor);
  if (memories_[part.tensor] != nullptr) tensor_values = values_of_memory_[part.tensor];
  if (setup_.plan.codec_of[part.tensor]->rotates())
    tensor_values = rotated_values_.data() + tensor_begin;
  return {tensor_values + part.begin, part.count};
}

void HostCoder::RotateBucket(const BucketValues& values) {
  if (rotated_values_.empty()) return;
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
    const protocol::Part& part = setup_.plan.parts[p];
    const codec::Codec& codec = *setup_.plan.codec_of[part.tensor];
    if (!codec.rotates()) continue;
    codec.Rotate(part.tensor, part.begin,
                 {PushedValues(values.arena, part.tensor) + part.begin, part.count},
                 &rotated_values_[setup_.plan.tensor_begin[part.tensor] + part.begin]);
  }
  rotated_round_[values.bucket] = values.round;
}

void HostCoder::EnsureRotated(const BucketValues& values) {
  if (rotated_round_[values.bucket] != values.round) RotateBucket(values);
}

Result<GradientCoder::BucketParams> HostCoder::Prepare(const BucketValues& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  BucketParams params(bucket.parts);
  RotateBucket(values);
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    if (memories_[part.tensor] == nullptr)
      TERN_RETURN_IF_ERROR(PreparePart(values, part, &params[i]));
  }
  return params;
}

Status HostCoder::PreparePart(const BucketValues& values, const protocol::Part& part,
                              codec::EncodeParams* params) {
  kernels::NoiseKey noise = NoiseKeyOf(values.round);
  noise.tensor = part.tensor;
  const std::span<const float> values_to_encode = ValuesToEncode(values, part);
  const kernels::Stats stats =
      kernels::ComputeStats(values_to_encode.data(), values_to_encode.size());
  TERN_RETURN_IF_ERROR(CheckFinite(stats, part.tensor, values.round));
  const codec::Codec& codec = *setup_.plan.codec_of[part.tensor];
  if (!codec.prepares_tensors_together()) *params = codec.Prepare(stats, values_to_encode, noise);
  return Ok();
}

Status HostCoder::PrepareMemoryCodecs(const BucketValues& values, BucketParams* params) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    codec::Memory* memory = memories_[part.tensor].get();
    if (memory == nullptr) continue;
    const uint64_t begin = setup_.plan.tensor_begin[part.tensor] + part.begin;
    const std::span<const float> values_to_encode = memory->Compensate(
        part.begin, {PushedValues(values.arena, part.tensor) + part.begin, part.count},
        {&compensated_values_[begin], part.count});
    values_of_memory_[part.tensor] = values_to_encode.data() - part.begin;
    TERN_RETURN_IF_ERROR(PreparePart(values, part, &(*params)[i]));
  }
  PrepareTogether(values, params);
  return Ok();
}

void HostCoder::PrepareTogether(const BucketValues& values, BucketParams* params) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[values.bucket];
  std::vector<uint32_t> part_indices;  // the parts of the bucket that are prepared together
  const codec::Codec* codec = nullptr;
  joint_values_.clear();
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = plan.parts[bucket.first_part + i];
    if (!plan.codec_of[part.tensor]->prepares_tensors_together()) continue;
    if (codec == nullptr) codec = plan.codec_of[part.tensor];
    part_indices.push_back(i);
    const auto values_to_encode = ValuesToEncode(values, part);
    joint_values_.insert(joint_values_.end(), values_to_encode.begin(), values_to_encode.end());
  }
  if (codec == nullptr) return;
  const kernels::Stats stats = kernels::ComputeStats(joint_values_.data(), joint_values_.size());
  const codec::EncodeParams joint_params =
      codec->Prepare(stats, joint_values_, NoiseKeyOf(values.round));
  for (const uint32_t i : part_indices) (*params)[i] = joint_params;
}

Result<uint64_t> HostCoder::CountClamped(const BucketValues& values, const BucketParams& params,
                                         std::span<const float> own_scalers) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  EnsureRotated(values);
  int64_t num_clamped = 0;
  for (size_t i = 0; i < bucket.shared_parts.size(); ++i) {
    const codec::EncodeParams& shared_params = params[bucket.shared_parts[i] - bucket.first_part];
    if (own_scalers[i] <= shared_params.scaler) continue;
    const auto values_to_encode = ValuesToEncode(values, setup_.plan.parts[bucket.shared_parts[i]]);
    num_clamped += std::count_if(values_to_encode.begin(), values_to_encode.end(), [&](float v) {
      return std::min(std::abs(v), shared_params.clip) > shared_params.scaler;
    });
  }
  return static_cast<uint64_t>(num_clamped);
}

Result<Bytes> HostCoder::Encode(const BucketValues& values, const protocol::Chunk& chunk,
                                const BucketParams& params,
                                std::span<const float> leading_scalers) {
  EnsureRotated(values);
  std::vector<uint8_t> codes;
  codes.reserve(chunk.max_push_bytes);
  const auto* scaler_bytes = reinterpret_cast<const uint8_t*>(leading_scalers.data());
  codes.insert(codes.end(), scaler_bytes, scaler_bytes + leading_scalers.size_bytes());
  const uint32_t first_part = setup_.plan.buckets[chunk.bucket].first_part;
  for (size_t i = 0; i < chunk.segments.size(); ++i)
    EncodeSegment(values, chunk.segments[i], params[chunk.part_of_segment[i] - first_part], &codes);
  return Bytes::Own(std::move(codes));
}

void HostCoder::EncodeSegment(const BucketValues& values, const codec::Segment& segment,
                              const codec::EncodeParams& params, std::vector<uint8_t>* codes) {
  const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
  const std::span<const float> values_to_encode = ValuesToEncode(
      values, {.tensor = segment.tensor, .begin = segment.begin, .count = segment.count});
  const size_t size_before = codes->size();
  codec.Encode(values_to_encode.data(), segment, params, NoiseKeyOf(values.round), codes);
  codec::Memory* memory = memories_[segment.tensor].get();
  if (memory == nullptr) return;
  const Status updated =
      codec.UpdateMemory(std::span(*codes).subspan(size_before), segment, values_to_encode, memory);
  CHECK(updated.ok()) << updated.message();  // The codec has just made these codes.
}

Result<std::vector<float>> HostCoder::CopyToHost(const BucketValues& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  std::vector<float> copy;
  copy.reserve(bucket.count);
  for (uint32_t i = bucket.first_part; i < bucket.first_part + bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[i];
    const float* begin = PushedValues(values.arena, part.tensor) + part.begin;
    copy.insert(copy.end(), begin, begin + part.count);
  }
  return copy;
}

Status HostCoder::ClearMemories() {
  for (const auto& memory : memories_) {
    if (memory != nullptr) memory->Reset();
  }
  return Ok();
}

Status HostCoder::VisitMemories(const std::function<void(SavedState)>& use) {
  SavedState states;
  for (uint32_t t = 0; t < memories_.size(); ++t) {
    if (memories_[t] == nullptr) continue;
    SavedState memory_state;
    memories_[t]->AddState(&memory_state);
    states.Append(memory_state, Cat("codec.", setup_.table.parameters[t].name, "."));
  }
  use(std::move(states));
  return Ok();
}

}  // namespace tern::client

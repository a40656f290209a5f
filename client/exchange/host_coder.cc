#include "client/exchange/host_coder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::client {

HostCoder::HostCoder(const setup::Setup& setup, uint32_t rank)
    : GradientCoder(setup, rank),
      compensated_(HasCodecMemory(setup) ? setup.plan.parameters() : 0) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t)
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
}

std::span<const float> HostCoder::ValuesToEncode(const float* arena,
                                                 const protocol::Part& part) const {
  const float* from = memories_[part.tensor] == nullptr ? arena : compensated_.data();
  return {from + setup_.plan.tensor_begin[part.tensor] + part.begin, part.count};
}

Result<GradientCoder::Prepared> HostCoder::Prepare(const Values& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  Prepared prepared(bucket.parts);
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    if (memories_[part.tensor] == nullptr)
      TERN_RETURN_IF_ERROR(PreparePart(values, part, &prepared[i]));
  }
  return prepared;
}

Status HostCoder::PreparePart(const Values& values, const protocol::Part& part,
                              codec::Prepared* prepared) {
  kernels::NoiseKey noise = NoiseOf(values.round);
  noise.tensor = part.tensor;
  const std::span<const float> to_code = ValuesToEncode(values.arena, part);
  const kernels::Stats stats = kernels::ComputeStats(to_code.data(), to_code.size());
  TERN_RETURN_IF_ERROR(Finite(stats, part.tensor, values.round));
  const codec::Codec& codec = *setup_.plan.codec_of[part.tensor];
  if (!codec.prepares_model()) *prepared = codec.Prepare(stats, to_code, noise);
  return Ok();
}

Status HostCoder::PrepareMemoryCodecs(const Values& values, Prepared* prepared) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    codec::Memory* memory = memories_[part.tensor].get();
    if (memory == nullptr) continue;
    const uint64_t begin = setup_.plan.tensor_begin[part.tensor] + part.begin;
    memory->Compensate(part.begin, {values.arena + begin, part.count},
                       {&compensated_[begin], part.count});
    TERN_RETURN_IF_ERROR(PreparePart(values, part, &(*prepared)[i]));
  }
  PrepareTogether(values, prepared);
  return Ok();
}

void HostCoder::PrepareTogether(const Values& values, Prepared* prepared) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[values.bucket];
  std::vector<uint32_t> indices;  // which parts of the bucket are prepared together
  const codec::Codec* codec = nullptr;
  together_.clear();
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = plan.parts[bucket.first_part + i];
    if (!plan.codec_of[part.tensor]->prepares_model()) continue;
    if (codec == nullptr) codec = plan.codec_of[part.tensor];
    indices.push_back(i);
    const auto to_code = ValuesToEncode(values.arena, part);
    together_.insert(together_.end(), to_code.begin(), to_code.end());
  }
  if (codec == nullptr) return;
  const kernels::Stats stats = kernels::ComputeStats(together_.data(), together_.size());
  const codec::Prepared all = codec->Prepare(stats, together_, NoiseOf(values.round));
  for (const uint32_t i : indices) (*prepared)[i] = all;
}

Result<uint64_t> HostCoder::CountClamped(const Values& values, const Prepared& prepared,
                                         std::span<const float> own) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  int64_t clamped = 0;
  for (size_t i = 0; i < bucket.shared.size(); ++i) {
    const codec::Prepared& shared_prepared = prepared[bucket.shared[i] - bucket.first_part];
    if (own[i] <= shared_prepared.scaler) continue;
    const auto to_code = ValuesToEncode(values.arena, setup_.plan.parts[bucket.shared[i]]);
    clamped += std::count_if(to_code.begin(), to_code.end(), [&](float v) {
      return std::min(std::abs(v), shared_prepared.clip) > shared_prepared.scaler;
    });
  }
  return static_cast<uint64_t>(clamped);
}

Result<Bytes> HostCoder::Encode(const Values& values, const protocol::Chunk& chunk,
                                const Prepared& prepared, std::span<const float> before) {
  std::vector<uint8_t> codes;
  codes.reserve(chunk.max_push_bytes);
  const auto* bytes = reinterpret_cast<const uint8_t*>(before.data());
  codes.insert(codes.end(), bytes, bytes + before.size_bytes());
  const uint32_t first = setup_.plan.buckets[chunk.bucket].first_part;
  for (size_t i = 0; i < chunk.segments.size(); ++i)
    EncodeSegment(values, chunk.segments[i], prepared[chunk.part_of[i] - first], &codes);
  return Bytes::Own(std::move(codes));
}

void HostCoder::EncodeSegment(const Values& values, const codec::Segment& segment,
                              const codec::Prepared& prepared, std::vector<uint8_t>* codes) {
  const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
  const std::span<const float> to_code = ValuesToEncode(
      values.arena, {.tensor = segment.tensor, .begin = segment.begin, .count = segment.count});
  const size_t before = codes->size();
  codec.Encode(to_code.data(), segment, prepared, NoiseOf(values.round), codes);
  codec::Memory* memory = memories_[segment.tensor].get();
  if (memory == nullptr) return;
  sent_.resize(segment.count);
  const Result<size_t> decoded =
      codec.DecodeSingleCode(std::span(*codes).subspan(before), segment, sent_.data());
  CHECK(decoded.ok()) << decoded.status().message();  // This object has made the codes.
  memory->Update(segment.begin, to_code, sent_);
}

Result<std::vector<float>> HostCoder::Copy(const Values& values) {
  const protocol::Bucket& of = setup_.plan.buckets[values.bucket];
  const float* begin = values.arena + of.begin;
  return std::vector<float>(begin, begin + of.count);
}

Status HostCoder::Forget() {
  for (const auto& memory : memories_) {
    if (memory != nullptr) memory->Reset();
  }
  return Ok();
}

Status HostCoder::VisitMemories(const std::function<void(SavedState)>& use) {
  SavedState all;
  for (uint32_t t = 0; t < memories_.size(); ++t) {
    if (memories_[t] == nullptr) continue;
    SavedState one;
    memories_[t]->AddState(&one);
    all.Append(one, Cat("codec.", setup_.table.parameters[t].name, "."));
  }
  use(std::move(all));
  return Ok();
}

}  // namespace tern::client

#include "worker/device/device_coder.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/base/text.h"
#include "kernels/codes/ternary.h"

namespace tern::device {
namespace {

std::vector<std::span<float>> ArraysOf(const SavedState& kept) {
  std::vector<std::span<float>> arrays;
  for (const SavedState::Array& array : kept.arrays) arrays.push_back(array.values);
  return arrays;
}

}  // namespace

DeviceCoder::DeviceCoder(const setup::Setup& setup, uint32_t rank, DeviceCodes& codes)
    : GradientCoder(setup, rank), codes_(codes) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t)
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
}

// Codecs with shared scalers need only the statistics; other codecs are prepared on the device.
Result<DeviceCoder::Prepared> DeviceCoder::Prepare(const Values& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  kernels::NoiseKey noise = NoiseOf(values.round);
  const auto stats = codes_.Prepare(values.bucket, noise);
  if (!stats.ok()) return stats.status();
  Prepared prepared(bucket.parts);
  for (uint32_t i = 0; i < stats->size(); ++i) {
    noise.tensor = setup_.plan.parts[bucket.first_part + i].tensor;
    TERN_RETURN_IF_ERROR(Finite((*stats)[i], noise.tensor, values.round));
    const codec::Codec& codec = *setup_.plan.codec_of[noise.tensor];
    if (codec.shares_scaler()) prepared[i] = codec.Prepare((*stats)[i], {}, noise);
  }
  return prepared;
}

Result<Bytes> DeviceCoder::Encode(const Values& values, const protocol::Chunk& chunk,
                                  const Prepared& prepared, std::span<const float> before) {
  const uint32_t first = setup_.plan.buckets[chunk.bucket].first_part;
  std::vector<kernels::TernaryScale> scales;
  for (const uint32_t p : chunk.part_of)
    scales.push_back({prepared[p - first].scaler, prepared[p - first].clip});
  auto codes = codes_.Encode(setup_.plan.ChunkIndex(chunk), scales, NoiseOf(values.round));
  if (codes.status().code() == Code::kDiverged) return NonFiniteTensor(values);
  if (!codes.ok() || before.empty()) return codes;
  const auto* bytes = reinterpret_cast<const uint8_t*>(before.data());
  std::vector<uint8_t> all(bytes, bytes + before.size_bytes());
  all.insert(all.end(), codes->span().begin(), codes->span().end());
  return Bytes::Own(std::move(all));
}

Result<uint64_t> DeviceCoder::CountClamped(const Values& values, const Prepared& prepared,
                                           std::span<const float> own) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  std::vector<float> from(bucket.parts, -1);  // negative: the part is not counted
  bool some = false;
  for (size_t i = 0; i < bucket.shared.size(); ++i) {
    const uint32_t p = bucket.shared[i] - bucket.first_part;
    const codec::Prepared& with = prepared[p];
    if (own[i] <= with.scaler || with.clip <= with.scaler) continue;
    from[p] = std::nextafter(with.scaler, std::numeric_limits<float>::infinity());
    some = true;
  }
  return some ? codes_.CountFrom(values.round, values.bucket, from) : uint64_t{0};
}

Result<std::vector<float>> DeviceCoder::Copy(const Values& values) {
  const protocol::Bucket& of = setup_.plan.buckets[values.bucket];
  std::vector<float> copy(of.count);
  TERN_RETURN_IF_ERROR(codes_.CopyGradientsToHost(values.round, of.begin, copy));
  return copy;
}

Status DeviceCoder::NonFiniteTensor(const Values& values) {
  const auto stats = codes_.StatsOf(values.round, values.bucket);
  if (!stats.ok()) return stats.status();
  const uint32_t first = setup_.plan.buckets[values.bucket].first_part;
  for (uint32_t i = 0; i < stats->size(); ++i)
    TERN_RETURN_IF_ERROR(Finite((*stats)[i], setup_.plan.parts[first + i].tensor, values.round));
  return Status(Code::kDiverged,
                Cat("a code of bucket ", values.bucket, " contains values that are not finite"));
}

Status DeviceCoder::Forget() {
  return client::KeepsSomething(setup_) ? codes_.ResetMemory() : Ok();
}

Status DeviceCoder::WithKept(const std::function<void(SavedState)>& use) {
  SavedState all;
  std::map<uint32_t, SavedState> kept;
  for (uint32_t t = 0; t < memories_.size(); ++t) {
    if (memories_[t] == nullptr) continue;
    SavedState& one = kept[t];
    memories_[t]->AddState(&one);
    TERN_RETURN_IF_ERROR(codes_.CopyMemoryToHost(setup_.plan.tensor_begin[t], ArraysOf(one)));
    all.Append(one, Cat("codec.", setup_.table.parameters[t].name, "."));
  }
  use(std::move(all));
  for (const auto& [t, one] : kept)
    TERN_RETURN_IF_ERROR(codes_.CopyMemoryToDevice(setup_.plan.tensor_begin[t], ArraysOf(one)));
  return Ok();
}

}  // namespace tern::device

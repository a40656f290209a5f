#include "worker/device/device_coder.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/base/text.h"
#include "kernels/codes/ternary.h"
#include "setup/own_state.h"

namespace tern::device {
namespace {

std::vector<std::span<float>> ArraysOf(const SavedState& state) {
  std::vector<std::span<float>> arrays;
  for (const SavedState::Array& array : state.arrays) arrays.push_back(array.values);
  return arrays;
}

}  // namespace

DeviceCoder::DeviceCoder(const setup::Setup& setup, uint32_t rank, DeviceCodes& codes)
    : GradientCoder(setup, rank), codes_(codes) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t)
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
}

// The device computes statistics of the values to encode, if the codec needs them. From these, the
// host computes the scalers, for codecs whose scalers all workers share. Other codecs need no more
// preparation.
Result<DeviceCoder::BucketParams> DeviceCoder::Prepare(const BucketValues& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  kernels::NoiseKey noise = NoiseKeyOf(values.round);
  const auto stats = codes_.Prepare(values.bucket, noise);
  if (!stats.ok()) return stats.status();
  BucketParams params(bucket.parts);
  for (uint32_t i = 0; i < stats->size(); ++i) {
    noise.tensor = setup_.plan.parts[bucket.first_part + i].tensor;
    TERN_RETURN_IF_ERROR(CheckFinite((*stats)[i], noise.tensor, values.round));
    const codec::Codec& codec = *setup_.plan.codec_of[noise.tensor];
    // The codecs that a device has, and that share scalers, prepare without the values.
    if (codec.shares_scaler()) params[i] = codec.Prepare((*stats)[i], {}, noise);
  }
  return params;
}

Result<Bytes> DeviceCoder::Encode(const BucketValues& values, const protocol::Chunk& chunk,
                                  const BucketParams& params, std::span<const float> before) {
  const uint32_t first_part = setup_.plan.buckets[chunk.bucket].first_part;
  std::vector<kernels::TernaryScale> scales;
  for (const uint32_t p : chunk.part_of_segment)
    scales.push_back({params[p - first_part].scaler, params[p - first_part].clip});
  auto codes = codes_.Encode(setup_.plan.ChunkIndex(chunk), scales, NoiseKeyOf(values.round));
  if (codes.status().code() == Code::kDiverged) return NonFiniteError(values);
  if (!codes.ok() || before.empty()) return codes;
  const auto* before_bytes = reinterpret_cast<const uint8_t*>(before.data());
  std::vector<uint8_t> payload(before_bytes, before_bytes + before.size_bytes());
  payload.insert(payload.end(), codes->span().begin(), codes->span().end());
  return Bytes::Own(std::move(payload));
}

Result<uint64_t> DeviceCoder::CountClamped(const BucketValues& values, const BucketParams& params,
                                           std::span<const float> own) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  // For each part (range of one tensor) of the bucket, the smallest magnitude to count. If that is
  // negative, no value of the part is counted.
  std::vector<float> min_magnitudes(bucket.parts, -1);
  bool is_any_clamped = false;
  for (size_t i = 0; i < bucket.shared_parts.size(); ++i) {
    const uint32_t p = bucket.shared_parts[i] - bucket.first_part;
    const codec::EncodeParams& prepared_part = params[p];
    if (own[i] <= prepared_part.scaler || prepared_part.clip <= prepared_part.scaler) continue;
    min_magnitudes[p] =
        std::nextafter(prepared_part.scaler, std::numeric_limits<float>::infinity());
    is_any_clamped = true;
  }
  return is_any_clamped ? codes_.CountAtLeast(values.round, values.bucket, min_magnitudes)
                        : uint64_t{0};
}

Result<std::vector<float>> DeviceCoder::CopyToHost(const BucketValues& values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  std::vector<float> gradients(bucket.count);
  TERN_RETURN_IF_ERROR(codes_.CopyGradientsToHost(values.round, bucket.begin, gradients));
  return gradients;
}

Status DeviceCoder::NonFiniteError(const BucketValues& values) {
  const auto stats = codes_.StatsOfCodedValues(values.round, values.bucket);
  if (!stats.ok()) return stats.status();
  const uint32_t first_part = setup_.plan.buckets[values.bucket].first_part;
  for (uint32_t i = 0; i < stats->size(); ++i)
    TERN_RETURN_IF_ERROR(
        CheckFinite((*stats)[i], setup_.plan.parts[first_part + i].tensor, values.round));
  return Status(Code::kDiverged,
                Cat("a code of bucket ", values.bucket, " contains values that are not finite"));
}

Status DeviceCoder::ClearMemories() {
  return setup::HasCodecMemory(setup_) ? codes_.ResetMemory() : Ok();
}

Status DeviceCoder::VisitMemories(const std::function<void(SavedState)>& use) {
  SavedState whole_state;
  std::map<uint32_t, SavedState> states_by_tensor;  // The key is the tensor's number.
  for (uint32_t t = 0; t < memories_.size(); ++t) {
    if (memories_[t] == nullptr) continue;
    SavedState& tensor_state = states_by_tensor[t];
    memories_[t]->AddState(&tensor_state);
    TERN_RETURN_IF_ERROR(
        codes_.CopyMemoryToHost(setup_.plan.tensor_begin[t], ArraysOf(tensor_state)));
    whole_state.Append(tensor_state, Cat("codec.", setup_.table.parameters[t].name, "."));
  }
  use(std::move(whole_state));
  for (const auto& [t, tensor_state] : states_by_tensor)
    TERN_RETURN_IF_ERROR(
        codes_.CopyMemoryToDevice(setup_.plan.tensor_begin[t], ArraysOf(tensor_state)));
  return Ok();
}

}  // namespace tern::device

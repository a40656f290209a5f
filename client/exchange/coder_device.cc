// The coder where gradients lie on a GPU (worker/device/device_model.h).
#include <cmath>
#include <limits>
#include <utility>

#include "client/exchange/coder.h"
#include "client/train/on_device.h"
#include "common/base/text.h"
#include "kernels/codes/ternary.h"

namespace tern::client {

namespace {

std::vector<std::span<float>> ArraysOf(const SavedState& kept) {
  std::vector<std::span<float>> arrays;
  for (const SavedState::Array& array : kept.arrays) arrays.push_back(array.values);
  return arrays;
}

}  // namespace

void Coder::TakeFrom(device::DeviceModel* device) {
  device_ = device;
  if (device != nullptr) compensated_ = Floats();
}

Status Coder::BringKept(uint32_t t, const SavedState& kept) {
  if (device_ == nullptr) return Ok();
  return device_->BringKept(setup_.plan.tensor_begin[t], ArraysOf(kept));
}

Status Coder::SendKept(uint32_t t, const SavedState& kept) {
  if (device_ == nullptr) return Ok();
  return device_->SendKept(setup_.plan.tensor_begin[t], ArraysOf(kept));
}

// Codecs whose scalers are shared look at nothing but statistics; the others have prepared what
// they need there.
bool Coder::PrepareOnDevice(const Ready& ready, Waiting* values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[ready.bucket];
  kernels::NoiseKey noise = NoiseOf(ready.round);
  const auto stats = device_->Prepare(ready.bucket, noise);
  if (!stats.ok()) return End(stats.status());
  values->prepared.resize(bucket.parts);
  for (uint32_t i = 0; i < stats->size(); ++i) {
    noise.tensor = setup_.plan.parts[bucket.first_part + i].tensor;
    if (const Status finite = Finite((*stats)[i], noise.tensor, ready.round); !finite.ok())
      return End(finite);
    const codec::Codec& codec = *setup_.plan.codec_of[noise.tensor];
    if (codec.shares_scaler()) values->prepared[i] = codec.Prepare((*stats)[i], {}, noise);
  }
  return true;
}

Result<Bytes> Coder::CodesOnDevice(const Waiting& values, const protocol::Chunk& chunk,
                                   uint64_t round) {
  const protocol::Bucket& bucket = setup_.plan.buckets[chunk.bucket];
  std::vector<kernels::TernaryScale> scales;
  for (const uint32_t p : chunk.part_of) {
    const codec::Prepared& prepared = values.prepared[p - bucket.first_part];
    scales.push_back({prepared.scaler, prepared.clip});
  }
  auto codes =
      device_->Encode(ChunkIndex(setup_.plan, chunk.bucket, chunk.index), scales, NoiseOf(round));
  if (codes.status().code() == Code::kDiverged) return WhichIsNotFinite(chunk.bucket, round);
  if (!codes.ok() || chunk.scalers == 0) return codes;
  std::vector<uint8_t> all = BeginOf(chunk, values);
  all.insert(all.end(), codes->span().begin(), codes->span().end());
  return Bytes::Own(std::move(all));
}

Result<uint64_t> Coder::CountClampedOnDevice(uint64_t round, const protocol::Bucket& bucket,
                                             const Waiting& values) const {
  std::vector<float> from(bucket.parts, -1);  // nothing is counted
  bool some = false;
  for (size_t i = 0; i < bucket.shared.size(); ++i) {
    const uint32_t p = bucket.shared[i] - bucket.first_part;
    const codec::Prepared& prepared = values.prepared[p];
    if (values.own[i] <= prepared.scaler || prepared.clip <= prepared.scaler) continue;
    from[p] = std::nextafter(prepared.scaler, std::numeric_limits<float>::infinity());
    some = true;
  }
  return some ? device_->CountFrom(round, bucket.chunks.front().bucket, from) : uint64_t{0};
}

Result<Observer::Pushed> Coder::CopyOfDevice(uint64_t step, uint64_t round, uint32_t bucket) const {
  const protocol::Bucket& of = setup_.plan.buckets[bucket];
  Observer::Pushed shown{step, bucket, std::vector<float>(of.count), {}, {}};
  TERN_RETURN_IF_ERROR(device_->BringGradients(round, of.begin, shown.values));
  return shown;
}

// Of what a device found while it coded.
Status Coder::WhichIsNotFinite(uint32_t bucket, uint64_t round) const {
  const auto stats = device_->StatsOf(round, bucket);
  if (!stats.ok()) return stats.status();
  const uint32_t first = setup_.plan.buckets[bucket].first_part;
  for (uint32_t i = 0; i < stats->size(); ++i)
    TERN_RETURN_IF_ERROR(Finite((*stats)[i], setup_.plan.parts[first + i].tensor, round));
  return Status(Code::kDiverged, Cat("a code of bucket ", bucket, " is of what is not finite"));
}

}  // namespace tern::client

#include "worker/device/device_arenas.h"

#include <cmath>

#include "client/train/host_arenas.h"
#include "common/update/clip.h"
#include "kernels/update/optimizer_math.h"
#include "worker/device/layout.h"

namespace tern::device {
namespace {

DeviceModel::Sums DeviceSumsOf(const client::Sums::Opened& opened) {
  return {opened.sums, static_cast<uint32_t>(opened.contributors), opened.scalers};
}

}  // namespace

DeviceArenas::DeviceArenas(const setup::Setup& setup, const client::HostValues& host,
                           DeviceModel& model)
    : setup_(setup),
      host_(host),
      model_(model),
      decay_of_tensor_(client::DecaysOf(setup, pb::WeightDecay::local)) {}

DeviceModel::Host DeviceArenas::HostArrays() const {
  DeviceModel::Host host;
  host.weights = host_.weights;
  for (const update::Optimizer::StateArray& slot : host_.optimizer->StateArrays())
    host.state_arrays.push_back(slot.values.data());
  host.average = host_.average;
  return host;
}

Status DeviceArenas::CopyFromHost() {
  device_is_newer_ = false;
  return model_.CopyToDevice(HostArrays());
}

Status DeviceArenas::CopyToHost() {
  if (!device_is_newer_) return Ok();
  TERN_RETURN_IF_ERROR(model_.CheckSums());
  TERN_RETURN_IF_ERROR(model_.CopyToHost(HostArrays()));
  device_is_newer_ = false;
  return Ok();
}

Status DeviceArenas::AddDecay(uint32_t t, float decay) {
  return model_.AddDecay(setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t], decay);
}

Status DeviceArenas::Clip(double norm) {
  const auto sum_of_squares = model_.SquaresOfGradients();
  if (!sum_of_squares.ok()) return sum_of_squares.status();
  const double scale = update::ClipScale(std::sqrt(*sum_of_squares), norm);
  return scale == 1 ? Ok() : model_.ScaleGradients(static_cast<float>(scale));
}

Status DeviceArenas::Apply(const client::Sums& sums, uint64_t round, uint32_t bucket) {
  const update::Step step{sums.learning_rate(round), round};
  // Checks the sums of the previous round. The device has processed them long ago, so this does not
  // wait.
  if (bucket == 0) TERN_RETURN_IF_ERROR(MutableModel().CheckSums());
  if (host_.optimizer->needs_whole_tensors()) return ApplyTensors(sums, round, bucket, step);
  return ApplyChunks(sums, round, bucket, step);
}

Status DeviceArenas::ApplyChunks(const client::Sums& sums, uint64_t round, uint32_t bucket,
                                 const update::Step& step) {
  const kernels::UpdateStep coefficients = host_.optimizer->CoefficientsOf(step);
  return sums.OpenSums(
      round, bucket, [&](const protocol::Chunk& chunk, const client::Sums::Opened& opened) {
        std::vector<kernels::TensorRates> rates;
        for (const codec::Segment& segment : chunk.segments)
          rates.push_back({.decay = decay_of_tensor_[segment.tensor]});
        TERN_RETURN_IF_ERROR(MutableModel().Update(setup_.plan.ChunkIndex(chunk),
                                                   DeviceSumsOf(opened), coefficients, rates));
        return Average(chunk.begin, chunk.count, step.number);
      });
}

Status DeviceArenas::ApplyTensors(const client::Sums& sums, uint64_t round, uint32_t bucket,
                                  const update::Step& step) {
  TERN_RETURN_IF_ERROR(MutableModel().ClearMeans(bucket));
  TERN_RETURN_IF_ERROR(sums.OpenSums(
      round, bucket, [&](const protocol::Chunk& chunk, const client::Sums::Opened& opened) {
        return model_.ReadMeans(setup_.plan.ChunkIndex(chunk), DeviceSumsOf(opened));
      }));
  const auto squares = model_.SquaresOf(bucket);
  if (!squares.ok()) return squares.status();
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  std::vector<kernels::TensorRates> rates;
  for (const DeviceModel::Squares& part_squares : *squares) {
    const float decay =
        decay_of_tensor_[setup_.plan.parts[planned_bucket.first_part + rates.size()].tensor];
    rates.push_back(
        {decay, host_.optimizer->RateOf(part_squares.weights, part_squares.means, decay)});
  }
  TERN_RETURN_IF_ERROR(model_.UpdateBucket(bucket, host_.optimizer->CoefficientsOf(step), rates));
  return Average(planned_bucket.begin, planned_bucket.count, step.number);
}

Status DeviceArenas::Average(uint64_t begin, uint64_t count, uint64_t update) {
  if (host_.average == nullptr) return Ok();
  return model_.Average(begin, count, client::OneMinusDecay(setup_, update));
}

Status DeviceArenas::ResetToGlobal() {
  return MutableModel().CopyWeights(DeviceModel::Local::kPoint);
}

Status DeviceArenas::SaveReference(client::LocalValues* local) {
  return local->before.empty() ? Ok() : MutableModel().CopyWeights(DeviceModel::Local::kBefore);
}

Result<const float*> DeviceArenas::RetainGradient(uint64_t round, uint32_t bucket,
                                                  client::LocalValues*) {
  TERN_RETURN_IF_ERROR(model_.RetainGradients(round, bucket));
  return static_cast<const float*>(host_.gradients);
}

Status DeviceArenas::Move(float learning_rate, const std::vector<float>& decay,
                          client::LocalValues* local) {
  return MutableModel().MoveLocally(local->updater->CoefficientsOf(learning_rate), decay);
}

std::vector<DeviceArenas::LocalCopy> DeviceArenas::LocalCopiesOf(client::LocalValues* local) const {
  std::vector<LocalCopy> copies = {{DeviceModel::Local::kPoint, host_.point}};
  if (!local->before.empty()) copies.push_back({DeviceModel::Local::kBefore, local->before.data()});
  for (const update::Optimizer::StateArray& slot : local->updater->StateArrays())
    copies.push_back({LocalArrayFor(slot), slot.values.data()});
  return copies;
}

Status DeviceArenas::CopyLocalToHost(client::LocalValues* local) {
  for (const LocalCopy& copy : LocalCopiesOf(local))
    TERN_RETURN_IF_ERROR(model_.CopyLocalToHost(copy.device_array, copy.host_array));
  return Ok();
}

Status DeviceArenas::CopyLocalFromHost(client::LocalValues* local) {
  for (const LocalCopy& copy : LocalCopiesOf(local))
    TERN_RETURN_IF_ERROR(model_.CopyLocalToDevice(copy.device_array, copy.host_array));
  return Ok();
}

}  // namespace tern::device

#include "worker/device/device_arenas.h"

#include <cmath>

#include "client/train/host_arenas.h"
#include "common/update/clip.h"
#include "kernels/update/optimizer_math.h"
#include "worker/device/layout.h"

namespace tern::device {
namespace {

DeviceModel::Sums DeviceSumsOf(const client::Sums::EncodedSum& encoded_sum) {
  return {encoded_sum.sums, static_cast<uint32_t>(encoded_sum.contributors), encoded_sum.scalers};
}

}  // namespace

DeviceArenas::DeviceArenas(const setup::Setup& setup, const client::HostValues& host,
                           DeviceModel& model)
    : setup_(setup),
      host_(host),
      model_(model),
      rates_(setup::UpdateRatesOf(setup.job, setup.table, host.optimizer->needs_loss_gradient())) {}

DeviceModel::HostCopies DeviceArenas::HostArrays() const {
  DeviceModel::HostCopies host;
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
  TERN_RETURN_IF_ERROR(model_.CheckSums(DeviceModel::SumCheck::kNow));
  TERN_RETURN_IF_ERROR(model_.CopyToHost(HostArrays()));
  device_is_newer_ = false;
  return Ok();
}

Status DeviceArenas::AddDecay(uint32_t t, float decay) {
  return model_.AddDecay(setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t], decay);
}

Status DeviceArenas::ClipGradients(double norm) {
  const auto sum_of_squares = model_.SumOfSquaredGradients();
  if (!sum_of_squares.ok()) return sum_of_squares.status();
  const double scale = update::ClipScale(std::sqrt(*sum_of_squares), norm);
  return scale == 1 ? Ok() : model_.ScaleGradients(static_cast<float>(scale));
}

Status DeviceArenas::ApplyBucket(const client::Sums& sums, uint64_t round, uint32_t bucket) {
  const update::Step step{sums.learning_rate(round), round,
                          host_.state_begins->BeginOf(setup_.plan.buckets[bucket].begin, round)};
  if (bucket == 0) TERN_RETURN_IF_ERROR(MutableModel().CheckSums(DeviceModel::SumCheck::kLater));
  if (host_.optimizer->needs_whole_tensors()) return ApplyTensors(sums, round, bucket, step);
  return ApplyChunks(sums, round, bucket, step);
}

Status DeviceArenas::ApplyChunks(const client::Sums& sums, uint64_t round, uint32_t bucket,
                                 const update::Step& step) {
  const kernels::UpdateStep coefficients = host_.optimizer->CoefficientsOf(step);
  return sums.VisitEncodedSums(
      round, bucket,
      [&](const protocol::Chunk& chunk, const client::Sums::EncodedSum& encoded_sum) {
        std::vector<kernels::TensorRates> rates;
        for (const codec::Segment& segment : chunk.segments)
          rates.push_back(rates_.InStep(step.number, segment.tensor));
        TERN_RETURN_IF_ERROR(MutableModel().Update(setup_.plan.ChunkIndex(chunk),
                                                   DeviceSumsOf(encoded_sum), coefficients, rates));
        return UpdateAverage(chunk.begin, chunk.count, step.number);
      });
}

Status DeviceArenas::ApplyTensors(const client::Sums& sums, uint64_t round, uint32_t bucket,
                                  const update::Step& step) {
  TERN_RETURN_IF_ERROR(MutableModel().ClearMeans(bucket));
  TERN_RETURN_IF_ERROR(sums.VisitEncodedSums(
      round, bucket,
      [&](const protocol::Chunk& chunk, const client::Sums::EncodedSum& encoded_sum) {
        return model_.DecodeMeans(setup_.plan.ChunkIndex(chunk), DeviceSumsOf(encoded_sum));
      }));
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  std::vector<kernels::TensorRates> rates;
  std::vector<float> removed_decay;
  for (uint32_t p = planned_bucket.first_part; p < planned_bucket.first_part + planned_bucket.parts;
       ++p) {
    rates.push_back(rates_.InStep(step.number, setup_.plan.parts[p].tensor));
    removed_decay.push_back(rates_.removed_decay[setup_.plan.parts[p].tensor]);
  }
  const auto squares = model_.SquareSumsOf(bucket, removed_decay);
  if (!squares.ok()) return squares.status();
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i].local_rate =
        host_.optimizer->LarsRatioOf((*squares)[i].weights, (*squares)[i].means, rates[i].decay);
  }
  TERN_RETURN_IF_ERROR(model_.UpdateBucket(bucket, host_.optimizer->CoefficientsOf(step), rates));
  return UpdateAverage(planned_bucket.begin, planned_bucket.count, step.number);
}

Status DeviceArenas::UpdateAverage(uint64_t begin, uint64_t count, uint64_t update) {
  const std::optional<float> one_minus_decay = client::OneMinusDecay(setup_, update);
  if (!one_minus_decay.has_value()) return Ok();
  return model_.UpdateAverage(begin, count, *one_minus_decay, DeviceModel::Weights::kKept);
}

Status DeviceArenas::LookAhead(uint32_t bucket, float one_minus_decay) {
  const protocol::Bucket& range = setup_.plan.buckets[bucket];
  return MutableModel().UpdateAverage(range.begin, range.count, one_minus_decay,
                                      DeviceModel::Weights::kReplaced);
}

Status DeviceArenas::ResetToGlobal() {
  return MutableModel().CopyWeights(DeviceModel::LocalArray::kPoint);
}

Status DeviceArenas::SaveReference(client::LocalValues* local) {
  return local->reference_weights.empty()
             ? Ok()
             : MutableModel().CopyWeights(DeviceModel::LocalArray::kBefore);
}

Result<const float*> DeviceArenas::RetainGradient(uint64_t round, uint32_t bucket,
                                                  client::LocalValues*) {
  TERN_RETURN_IF_ERROR(model_.RetainGradients(round, bucket));
  return static_cast<const float*>(host_.gradients);
}

Status DeviceArenas::MoveLocalPoint(float learning_rate,
                                    const std::vector<kernels::TensorRates>& rates,
                                    client::LocalValues* local) {
  return MutableModel().UpdateLocalWeights(local->updater->CoefficientsOf(learning_rate), rates);
}

std::vector<DeviceArenas::LocalCopy> DeviceArenas::LocalCopiesOf(client::LocalValues* local) const {
  std::vector<LocalCopy> copies = {{DeviceModel::LocalArray::kPoint, host_.point}};
  if (!local->reference_weights.empty())
    copies.push_back({DeviceModel::LocalArray::kBefore, local->reference_weights.data()});
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

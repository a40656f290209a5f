#include "client/train/apply.h"

#include <algorithm>

#include "client/train/gradient.h"
#include "client/train/on_device.h"
#include "common/algorithm/facts.h"
#include "kernels/update/optimizer_math.h"

namespace tern::client {

namespace {

device::DeviceModel::Sums OnDevice(const Sums::Opened& opened) {
  return {opened.sums, static_cast<uint32_t>(opened.contributors), opened.scalers};
}

}  // namespace

Apply::Apply(const setup::Setup& setup, Replica& replica, const Sums& sums)
    : setup_(setup),
      replica_(replica),
      sums_(sums),
      by_bucket_(algorithm::FactsOf(setup.job).by_bucket) {
  for (uint32_t t = 0; t < setup.table.parameters.size(); ++t)
    decay_.push_back(DecayOf(setup, t, pb::WeightDecay::local));
}

Status Apply::Run(uint64_t round) {
  if (setup_.plan.central) {
    TERN_RETURN_IF_ERROR(sums_.Install(round, replica_.parameters()));
    replica_.Average(0, setup_.table.total, round);
    return Ok();
  }
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) TERN_RETURN_IF_ERROR(Run(round, b));
  return Ok();
}

Status Apply::Run(uint64_t round, uint32_t bucket) {
  const update::Step step{sums_.learning_rate(round), round};
  if (replica_.device() != nullptr) return RunOnDevice(round, bucket, step);
  const Sums::Use update = [&](uint32_t t, uint64_t first, std::span<const float> mean) {
    replica_.Update(mean.data(), first, mean.size(), step, decay_[t]);
  };
  if (!replica_.needs_whole_tensors()) return sums_.Decode(round, bucket, update);
  const protocol::Bucket& planned = setup_.plan.buckets[bucket];
  float* const mean = replica_.scratch();
  std::fill_n(mean + planned.begin, planned.count, 0.f);
  TERN_RETURN_IF_ERROR(
      sums_.Decode(round, bucket, [&](uint32_t, uint64_t first, std::span<const float> values) {
        std::copy(values.begin(), values.end(), mean + first);
      }));
  for (uint32_t t = planned.first_tensor; t < planned.first_tensor + planned.tensors; ++t)
    update(t, setup_.plan.tensor_begin[t],
           {mean + setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t]});
  return Ok();
}

Status Apply::RunOnDevice(uint64_t round, uint32_t bucket, const update::Step& step) {
  device::DeviceModel& device = replica_.UseDevice();
  // Once a round, when what it waits for has long been done.
  if (bucket == 0) TERN_RETURN_IF_ERROR(device.CheckSums());
  if (replica_.needs_whole_tensors()) return RunTensorsOnDevice(round, bucket, step, device);
  const kernels::UpdateStep numbers = replica_.optimizer().NumbersOf(step);
  return sums_.OpenSums(
      round, bucket, [&](const protocol::Chunk& chunk, const Sums::Opened& opened) {
        std::vector<kernels::TensorRates> rates;
        for (const codec::Segment& segment : chunk.segments)
          rates.push_back({.decay = decay_[segment.tensor]});
        TERN_RETURN_IF_ERROR(device.Update(ChunkIndex(setup_.plan, bucket, chunk.index),
                                           OnDevice(opened), numbers, rates));
        return replica_.AverageOnDevice(chunk.begin, chunk.count, step.number);
      });
}

Status Apply::RunTensorsOnDevice(uint64_t round, uint32_t bucket, const update::Step& step,
                                 device::DeviceModel& device) {
  TERN_RETURN_IF_ERROR(device.ClearMeans(bucket));
  TERN_RETURN_IF_ERROR(
      sums_.OpenSums(round, bucket, [&](const protocol::Chunk& chunk, const Sums::Opened& opened) {
        return device.ReadMeans(ChunkIndex(setup_.plan, bucket, chunk.index), OnDevice(opened));
      }));
  const auto squares = device.SquaresOf(bucket);
  if (!squares.ok()) return squares.status();
  const protocol::Bucket& planned = setup_.plan.buckets[bucket];
  std::vector<kernels::TensorRates> rates;
  for (const device::DeviceModel::Squares& of : *squares) {
    const float decay = decay_[setup_.plan.parts[planned.first_part + rates.size()].tensor];
    rates.push_back({decay, replica_.optimizer().RateOf(of.weights, of.means, decay)});
  }
  TERN_RETURN_IF_ERROR(device.UpdateBucket(bucket, replica_.optimizer().NumbersOf(step), rates));
  return replica_.AverageOnDevice(planned.begin, planned.count, step.number);
}

}  // namespace tern::client

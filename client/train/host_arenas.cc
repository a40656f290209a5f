#include "client/train/host_arenas.h"

#include <algorithm>

#include "common/update/average.h"
#include "common/update/clip.h"
#include "kernels/update/optimizer.h"

namespace tern::client {
namespace {

// `optimizer`: null in a client's job, whose programs have the weights.
setup::UpdateRates UpdateRatesFor(const setup::Setup& setup, const update::Optimizer* optimizer) {
  return setup::UpdateRatesOf(setup.job, setup.table,
                              optimizer != nullptr && optimizer->needs_loss_gradient());
}

}  // namespace

HostArenas::HostArenas(const setup::Setup& setup, const HostValues& values)
    : setup_(setup), values_(values), rates_(UpdateRatesFor(setup, values.optimizer)) {}

Status HostArenas::AddDecay(uint32_t t, float decay) {
  const uint64_t begin = setup_.plan.tensor_begin[t];
  float* g = values_.gradients + begin;
  kernels::AddDecay(g, values_.point + begin, setup_.plan.tensor_count[t], decay, g);
  return Ok();
}

Status HostArenas::ClipGradients(double max_norm) {
  update::ClipByNorm(values_.gradients, setup_.table.total, max_norm);
  return Ok();
}

void HostArenas::Update(uint32_t t, uint64_t first, std::span<const float> mean,
                        const update::Step& step) {
  values_.optimizer->Update(values_.weights + first, mean.data(), first, mean.size(), step,
                            rates_.InStep(step.number, t));
  UpdateAverage(setup_, values_.weights, first, mean.size(), step.number, values_.average);
}

Status HostArenas::ApplyBucket(const Sums& sums, uint64_t round, uint32_t bucket) {
  const update::Step step{sums.learning_rate(round), round,
                          values_.state_begins->BeginOf(setup_.plan.buckets[bucket].begin, round)};
  if (values_.optimizer->needs_whole_tensors()) return ApplyTensors(sums, round, bucket, step);
  return sums.Decode(round, bucket, [&](uint32_t t, uint64_t first, std::span<const float> mean) {
    Update(t, first, mean, step);
  });
}

Status HostArenas::ApplyTensors(const Sums& sums, uint64_t round, uint32_t bucket,
                                const update::Step& step) {
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  means_.resize(setup_.table.total);
  float* const means = means_.data();
  std::fill_n(means + planned_bucket.begin, planned_bucket.count, 0.f);
  TERN_RETURN_IF_ERROR(
      sums.Decode(round, bucket, [&](uint32_t, uint64_t first, std::span<const float> values) {
        std::copy(values.begin(), values.end(), means + first);
      }));
  for (uint32_t t = planned_bucket.first_tensor;
       t < planned_bucket.first_tensor + planned_bucket.tensors; ++t) {
    const uint64_t begin = setup_.plan.tensor_begin[t], count = setup_.plan.tensor_count[t];
    if (rates_.removed_decay[t] != 0)
      kernels::AddDecay(means + begin, values_.weights + begin, count, -rates_.removed_decay[t],
                        means + begin);
    Update(t, begin, {means + begin, count}, step);
  }
  return Ok();
}

Status HostArenas::LookAhead(uint32_t bucket, float one_minus_decay) {
  const protocol::Bucket& range = setup_.plan.buckets[bucket];
  float *weights = values_.weights + range.begin, *average = values_.average + range.begin;
  kernels::EmaUpdate(average, weights, range.count, one_minus_decay);
  std::copy_n(average, range.count, weights);
  return Ok();
}

Status HostArenas::ResetToGlobal() {
  std::copy_n(values_.weights, setup_.table.total, values_.point);
  return Ok();
}

Status HostArenas::SaveReference(LocalValues* local) {
  std::copy_n(values_.weights, local->reference_weights.size(), local->reference_weights.data());
  return Ok();
}

Result<const float*> HostArenas::RetainGradient(uint64_t round, uint32_t bucket,
                                                LocalValues* local) {
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  std::vector<float>& copy = local->gradient_copies[round % 2];
  copy.resize(setup_.table.total);
  std::copy_n(values_.gradients + planned_bucket.begin, planned_bucket.count,
              copy.data() + planned_bucket.begin);
  return static_cast<const float*>(copy.data());
}

Status HostArenas::MoveLocalPoint(float learning_rate,
                                  const std::vector<kernels::TensorRates>& rates,
                                  LocalValues* local) {
  float* point = values_.point;
  const float* previous_weights =
      local->reference_weights.empty() ? point : local->reference_weights.data();
  for (uint32_t t = 0; t < rates.size(); ++t) {
    const uint64_t begin = setup_.plan.tensor_begin[t];
    local->updater->ComputeLocalWeights(values_.weights + begin, values_.gradients + begin,
                                        previous_weights + begin, learning_rate, point + begin,
                                        setup_.plan.tensor_count[t], begin, rates[t]);
  }
  return Ok();
}

void UpdateAverage(const setup::Setup& setup, const float* weights, uint64_t first, uint64_t count,
                   uint64_t update, float* average) {
  const std::optional<float> one_minus_decay = OneMinusDecay(setup, update);
  if (one_minus_decay.has_value())
    kernels::EmaUpdate(average + first, weights + first, count, *one_minus_decay);
}

std::optional<float> OneMinusDecay(const setup::Setup& setup, uint64_t update) {
  const double decay = setup.job.evaluation().ema_decay();
  if (decay == 0) return std::nullopt;
  return static_cast<float>(1 - update::EmaDecay(decay, update - 1));
}

}  // namespace tern::client

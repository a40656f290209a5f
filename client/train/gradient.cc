#include "client/train/gradient.h"

#include <utility>

#include "common/base/trace.h"
#include "setup/tensor_rates.h"

namespace tern::client {

namespace {

// 0, that is, no clipping, with train.compute: wait, whose gradients are the same noise in every
// step, as in setup::DecaysOf.
double MaxNormOf(const setup::Setup& setup) {
  const pb::Train& train = setup.job.train();
  return train.compute() == pb::Train::wait ? 0 : train.clip_norm();
}

}  // namespace

Gradient::Gradient(const setup::Setup& setup, Compute& compute, Replica& replica,
                   Progress& progress)
    : setup_(setup),
      compute_(compute),
      replica_(replica),
      progress_(progress),
      decays_(setup::DecaysOf(setup.job, setup.table, pb::WeightDecay::in_gradient)),
      max_norm_(MaxNormOf(setup)),
      buckets_of_tensor_(setup.plan.BucketsOfTensors()),
      reports_in_backward_(setup.job.exchange().overlap() && max_norm_ == 0) {}

Status Gradient::FetchSamples() {
  const TimeScope time(progress_.data_time);
  const TraceSpan span("wait for samples");
  const Result<uint32_t> num_samples = compute_.FetchSamples();
  num_samples_ = num_samples.ok() ? *num_samples : 0;
  return num_samples.status();
}

Status Gradient::ForwardBackward(const OnBucketReady& on_ready) {
  return ForwardBackward(nullptr, on_ready);
}

Status Gradient::ForwardBackward(const BeforeTensorRead& before_read,
                                 const OnBucketReady& on_ready) {
  TimeScope time(progress_.compute_time);
  const Result<double> loss = Forward(before_read, &time);
  if (!loss.ok()) return loss.status();
  TERN_RETURN_IF_ERROR(compute_.status());
  progress_.loss.Set(*loss);
  progress_.samples.Add(num_samples_);
  progress_.steps.Add();
  losses_.sum += *loss * num_samples_;
  losses_.samples += num_samples_;
  progress_.CountAdvance();
  return Backward(on_ready);
}

Result<double> Gradient::Forward(const BeforeTensorRead& before_read, TimeScope* time) {
  const TraceSpan span("forward");
  if (!before_read) return compute_.Forward(nullptr);
  Status before_read_status = Ok();
  const double loss = compute_.Forward([&](uint32_t tensor) {
    const Time before_read_began = Now();
    before_read_status = before_read(tensor);
    time->Exclude(Now() - before_read_began);
    return before_read_status.ok();
  });
  if (!before_read_status.ok()) return before_read_status;
  return loss;
}

Status Gradient::Backward(const OnBucketReady& on_ready) {
  const TraceSpan span("backward");
  tensors_left_.clear();
  for (const protocol::Bucket& bucket : setup_.plan.buckets)
    tensors_left_.push_back(bucket.tensors);
  Status decay_status;
  compute_.Backward([&](uint32_t tensor) {
    if (decay_status.ok() && decays_[tensor] != 0)
      decay_status = replica_.arenas().AddDecay(tensor, decays_[tensor]);
    if (!reports_in_backward_ || !decay_status.ok()) return;
    for (uint32_t bucket : buckets_of_tensor_[tensor]) {
      if (--tensors_left_[bucket] == 0) on_ready(bucket);
    }
  });
  TERN_RETURN_IF_ERROR(compute_.status());
  TERN_RETURN_IF_ERROR(decay_status);
  progress_.CountAdvance();
  if (reports_in_backward_) return Ok();
  if (max_norm_ != 0) TERN_RETURN_IF_ERROR(replica_.arenas().ClipGradients(max_norm_));
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) on_ready(b);
  return Ok();
}

Gradient::Losses Gradient::TakeLosses() { return std::exchange(losses_, {}); }

}  // namespace tern::client

#include "client/train/gradient.h"

#include <utility>

#include "client/train/host_arenas.h"

namespace tern::client {

Gradient::Gradient(const setup::Setup& setup, Compute& compute, Replica& replica,
                   Progress& progress)
    : setup_(setup),
      compute_(compute),
      replica_(replica),
      progress_(progress),
      decay_(DecaysOf(setup, pb::WeightDecay::in_gradient)),
      buckets_of_(setup.plan.BucketsOfTensors()),
      in_backward_(setup.job.exchange().overlap() && setup.job.train().clip_norm() == 0) {}

Status Gradient::Fetch() {
  const Result<uint32_t> samples = compute_.Fetch();
  samples_ = samples.ok() ? *samples : 0;
  return samples.status();
}

Status Gradient::ForwardBackward(const Ready& ready) { return ForwardBackward(nullptr, ready); }

Status Gradient::ForwardBackward(const Need& need, const Ready& ready) {
  TimeScope time(progress_.compute);
  const Result<double> loss = Forward(need, &time);
  if (!loss.ok()) return loss.status();
  TERN_RETURN_IF_ERROR(compute_.status());
  progress_.loss.Set(*loss);
  progress_.samples.Add(samples_);
  progress_.steps.Add();
  losses_.sum += *loss * samples_;
  losses_.samples += samples_;
  progress_.Move();
  return Backward(ready);
}

Result<double> Gradient::Forward(const Need& need, TimeScope* time) {
  if (!need) return compute_.Forward(nullptr);
  Status needed = Ok();
  const double loss = compute_.Forward([&](uint32_t tensor) {
    const Time asked = Now();
    needed = need(tensor);
    time->Exclude(Now() - asked);
    return needed.ok();
  });
  if (!needed.ok()) return needed;
  return loss;
}

Status Gradient::Backward(const Ready& ready) {
  tensors_left_.clear();
  for (const protocol::Bucket& bucket : setup_.plan.buckets)
    tensors_left_.push_back(bucket.tensors);
  Status decayed;
  compute_.Backward([&](uint32_t tensor) {
    if (decayed.ok() && decay_[tensor] != 0)
      decayed = replica_.arenas().AddDecay(tensor, decay_[tensor]);
    if (!in_backward_ || !decayed.ok()) return;
    for (uint32_t bucket : buckets_of_[tensor]) {
      if (--tensors_left_[bucket] == 0) ready(bucket);
    }
  });
  TERN_RETURN_IF_ERROR(compute_.status());
  TERN_RETURN_IF_ERROR(decayed);
  progress_.Move();
  if (in_backward_) return Ok();
  const double clip = setup_.job.train().clip_norm();
  if (clip != 0) TERN_RETURN_IF_ERROR(replica_.arenas().Clip(clip));
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) ready(b);
  return Ok();
}

Gradient::Losses Gradient::TakeLosses() { return std::exchange(losses_, {}); }

}  // namespace tern::client

#include "client/train/gradient.h"

#include <cmath>
#include <utility>

#include "common/update/clip.h"
#include "kernels/update/optimizer.h"

namespace tern::client {

float DecayOf(const setup::Setup& setup, uint32_t t, pb::WeightDecay::Where where) {
  const pb::WeightDecay& decay = setup.job.train().weight_decay();
  if (decay.where() != where || (setup.table.parameters[t].is_bias && !decay.biases())) return 0;
  return static_cast<float>(decay.rate());
}

Gradient::Gradient(const setup::Setup& setup, Compute& compute, Replica& replica,
                   Progress& progress)
    : setup_(setup),
      compute_(compute),
      replica_(replica),
      progress_(progress),
      buckets_of_(setup.plan.BucketsOfTensors()),
      in_backward_(setup.job.exchange().overlap() && setup.job.train().clip_norm() == 0) {
  for (uint32_t t = 0; t < setup.plan.tensor_count.size(); ++t)
    decay_.push_back(DecayOf(setup, t, pb::WeightDecay::in_gradient));
}

Status Gradient::Fetch() {
  const Result<uint32_t> samples = compute_.Fetch();
  samples_ = samples.ok() ? *samples : 0;
  return samples.status();
}

Status Gradient::Take(const Ready& ready) { return Take(nullptr, ready); }

Status Gradient::Take(const Need& need, const Ready& ready) {
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
    time->Leave(Now() - asked);
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
    if (decayed.ok()) decayed = AddDecay(tensor);
    if (!in_backward_ || !decayed.ok()) return;
    for (uint32_t bucket : buckets_of_[tensor]) {
      if (--tensors_left_[bucket] == 0) ready(bucket);
    }
  });
  TERN_RETURN_IF_ERROR(compute_.status());
  TERN_RETURN_IF_ERROR(decayed);
  progress_.Move();
  if (in_backward_) return Ok();
  TERN_RETURN_IF_ERROR(Clip());
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) ready(b);
  return Ok();
}

Status Gradient::AddDecay(uint32_t tensor) {
  if (decay_[tensor] == 0) return Ok();
  const uint64_t begin = setup_.plan.tensor_begin[tensor], count = setup_.plan.tensor_count[tensor];
  if (replica_.device() != nullptr)
    return replica_.device()->AddDecay(begin, count, decay_[tensor]);
  float* g = replica_.gradients() + begin;
  kernels::AddDecay(g, replica_.point() + begin, count, decay_[tensor], g);
  return Ok();
}

Status Gradient::Clip() {
  const double clip = setup_.job.train().clip_norm();
  device::DeviceModel* device = replica_.device();
  if (clip == 0) return Ok();
  if (device == nullptr) {
    update::ClipByNorm(replica_.gradients(), setup_.table.total, clip);
    return Ok();
  }
  const auto squares = device->SquaresOfGradients();
  if (!squares.ok()) return squares.status();
  const double scale = update::ClipScale(std::sqrt(*squares), clip);
  return scale == 1 ? Ok() : device->ScaleGradients(static_cast<float>(scale));
}

Gradient::Losses Gradient::TakeLosses() { return std::exchange(losses_, {}); }

}  // namespace tern::client

#include "client/guest/guest_compute.h"

#include <utility>

namespace tern::client {

void GuestCompute::Begin(uint64_t steps_done) {
  if (tasks_ != nullptr && has_begun_) GoBack();
  await_status_ = Ok();
  round_ = {};
  step_ = steps_done;
  has_begun_ = true;
  handoff_.SetStepsDone(steps_done);
  guest_events_.Push({.type = GuestEvent::Type::kReady, .step = steps_done});
}

void GuestCompute::GoBack() {
  handoff_.DropStep(/*is_computing=*/!tasks_->TakeBack(), progress_);
  if (!state_to_load_.has_value()) return;
  progress_.is_waiting_for_program = true;
  tasks_->Load(*std::exchange(state_to_load_, std::nullopt));
  progress_.is_waiting_for_program = false;
}

void GuestCompute::LoadState(const Bytes& state) {
  if (tasks_ != nullptr && has_begun_) {
    state_to_load_ = state;
  } else {
    handoff_.LoadState(state);
  }
}

void GuestCompute::OpenStep() {
  if (handoff_.OpenStep(++step_) && tasks_ != nullptr)
    tasks_->Give({.type = GuestTask::Type::kStep, .step = step_});
}

Result<uint32_t> GuestCompute::FetchSamples() {
  if (const Status status = handoff_.end_status(); !status.ok()) return status;
  return handoff_.report().num_samples;
}

void GuestCompute::Backward(const OnGradientReady& on_ready) {
  await_status_ = handoff_.TakePushed(on_ready, await_program_);
}

GuestArenas::GuestArenas(const setup::Setup& setup, Handoff& handoff, GuestRound& round)
    : setup_(setup), handoff_(handoff), round_(round) {
  for (const std::vector<uint32_t>& buckets : setup.plan.BucketsOfTensors())
    buckets_of_tensor_.push_back(static_cast<uint32_t>(buckets.size()));
}

Status GuestArenas::ApplyBucket(const Sums& sums, uint64_t round, uint32_t bucket) {
  if (round != round_.number) {
    round_ = {.number = round, .has_values = false};
    buckets_left_ = buckets_of_tensor_;
    tensors_left_ = buckets_left_.size();
  }
  TERN_RETURN_IF_ERROR(
      sums.Decode(round, bucket, [&](uint32_t tensor, uint64_t first, std::span<const float> mean) {
        round_.has_values = true;
        handoff_.WriteMean(tensor, first - setup_.plan.tensor_begin[tensor], mean);
      }));
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  for (uint32_t t = planned_bucket.first_tensor;
       t < planned_bucket.first_tensor + planned_bucket.tensors; ++t) {
    if (--buckets_left_[t] != 0) continue;
    // Rounds are steps.
    if (--tensors_left_ == 0 && round_.has_values) handoff_.SetStepsDone(round);
    handoff_.CompleteMean(t);
  }
  return Ok();
}

}  // namespace tern::client

#include "client/guest/handoff.h"

#include <algorithm>
#include <utility>

#include "common/algorithm/elasticity.h"
#include "common/base/text.h"

namespace tern::client {

Handoff::Handoff(const setup::Setup& setup, Events& wake, GuestEvents& guest_events)
    : setup_(setup),
      wake_(wake),
      guest_events_(guest_events),
      may_stay_in_place_(!algorithm::Elasticity::FromJob(setup.job).has_unsolicited_outcomes()),
      is_pushed_(setup.table.parameters.size()),
      means_(setup.table.parameters.size()),
      sources_(setup.table.parameters.size()) {}

void Handoff::SetArena(float* gradients) {
  gradients_ = gradients;
  for (size_t t = 0; t < sources_.size(); ++t)
    sources_[t] = gradients + setup_.table.parameters[t].offset;
}

Result<bool> Handoff::Push(uint32_t tensor, const float* gradient, float* mean, Time patience) {
  if (tensor >= means_.size()) {
    return Status(Code::kUsage, Cat("pushed tensor ", tensor, "; the table has the tensors 0 to ",
                                    means_.size() - 1));
  }
  bool must_ask = false;
  {
    const std::chrono::steady_clock::time_point until{Now() + patience};
    const MutexLock lock(mutex_);
    while (!is_open_ && !has_ended_ && !has_finished_) {
      if (!changed_.WaitUntil(mutex_, until)) break;
    }
    if (has_ended_) {
      return end_status_.ok() ? Status(Code::kUsage, "pushed a gradient, but the job has ended")
                              : end_status_;
    }
    if (has_finished_) return Status(Code::kUsage, "pushed a gradient after tern_finish");
    if (!is_open_) return false;
    if (is_pushed_[tensor]) {
      return Status(Code::kUsage, Cat("pushed ", setup_.table.parameters[tensor].name,
                                      " twice in step ", step_, ", in which ", MissingTensor(),
                                      " was not pushed; every tensor is pushed once a step"));
    }
    is_pushed_[tensor] = true;
    if (++num_pushed_ == is_pushed_.size()) is_open_ = false;
    must_ask = std::exchange(must_ask_for_state_, false);
    if (must_ask) {
      awaits_state_ = true;
      asked_after_step_ = step_ - 1;
    }
  }
  if (must_ask) guest_events_.Push({.type = GuestEvent::Type::kGiveState});
  const models::Parameter& parameter = setup_.table.parameters[tensor];
  float* const target = gradients_ + parameter.offset;
  sources_[tensor] = target;
  if (gradient == target) {
    // The program has written it into the arena (train.compute: module).
  } else if (gradient != nullptr && gradient == mean && may_stay_in_place_) {
    sources_[tensor] = gradient;
  } else if (gradient != nullptr) {
    std::copy_n(gradient, parameter.count, target);
  } else {
    std::fill_n(target, parameter.count, 0.f);
  }
  means_[tensor] = mean;
  {
    const MutexLock lock(mutex_);
    pushed_.push_back(tensor);
  }
  changed_.NotifyAll();
  wake_.Push(SamplesReady{});
  return true;
}

bool Handoff::IsInStep() const {
  const MutexLock lock(mutex_);
  return is_open_ && num_pushed_ > 0;
}

Status Handoff::CheckAllPushed(uint64_t step) const {
  const MutexLock lock(mutex_);
  if (!is_open_ || step != step_) return Ok();
  return Status(Code::kUsage, Cat("step ", step_, " is not complete: ", MissingTensor(),
                                  " was not pushed; every tensor is pushed once a step"));
}

const std::string& Handoff::MissingTensor() const {
  const auto missing = std::find(is_pushed_.begin(), is_pushed_.end(), false);
  return setup_.table.parameters[static_cast<size_t>(missing - is_pushed_.begin())].name;
}

void Handoff::Report(double loss, uint32_t num_samples) {
  const MutexLock lock(mutex_);
  loss_ = loss;
  num_samples_ = std::max(1u, num_samples);
}

void Handoff::Finish() {
  std::vector<uint32_t> missing;  // in a step that the program has begun
  {
    const MutexLock lock(mutex_);
    if (std::exchange(has_finished_, true)) return;
    for (uint32_t t = 0; is_open_ && num_pushed_ > 0 && t < is_pushed_.size(); ++t) {
      if (!is_pushed_[t]) missing.push_back(t);
    }
    is_open_ = false;
  }
  for (const uint32_t t : missing) {
    const models::Parameter& parameter = setup_.table.parameters[t];
    std::fill_n(gradients_ + parameter.offset, parameter.count, 0.f);
    means_[t] = nullptr;
    sources_[t] = gradients_ + parameter.offset;
    const MutexLock lock(mutex_);
    ++num_pushed_;
    pushed_.push_back(t);
  }
  changed_.NotifyAll();
  wake_.Push(SamplesReady{});
}

bool Handoff::OpenStep(uint64_t step) {
  bool is_open = false;
  {
    const MutexLock lock(mutex_);
    has_done_step_ |= num_pushed_ > 0;
    step_ = step;
    num_pushed_ = num_taken_ = 0;
    awaits_state_ = false;
    std::fill(is_pushed_.begin(), is_pushed_.end(), false);
    std::fill(means_.begin(), means_.end(), nullptr);
    is_open = is_open_ = !has_finished_;
  }
  changed_.NotifyAll();
  return is_open;
}

bool Handoff::HasStep() const {
  const MutexLock lock(mutex_);
  return (num_pushed_ > 0 && !awaits_state_) || has_finished_ || has_ended_;
}

StepReport Handoff::report() const {
  const MutexLock lock(mutex_);
  return {num_pushed_ > 0 ? num_samples_ : 0, loss_};
}

std::optional<uint32_t> Handoff::NextPushed() {
  const MutexLock lock(mutex_);
  if (pushed_.empty()) return std::nullopt;
  const uint32_t tensor = pushed_.front();
  pushed_.pop_front();
  ++num_taken_;
  return tensor;
}

Status Handoff::TakePushed(const std::function<void(uint32_t tensor)>& on_ready,
                           const Compute::AwaitProgram& await) {
  std::optional<uint32_t> tensor;
  const auto is_done = [&] {
    if (!tensor.has_value()) tensor = NextPushed();
    return tensor.has_value() || has_ended();
  };
  for (size_t i = 0; i < means_.size(); ++i) {
    TERN_RETURN_IF_ERROR(await(is_done));
    if (!tensor.has_value()) return end_status();
    on_ready(*tensor);
    tensor.reset();
  }
  return Ok();
}

void Handoff::DropStep(bool is_computing, Progress& progress) {
  progress.is_waiting_for_program = true;
  {
    const MutexLock lock(mutex_);
    if (!is_computing) is_open_ = false;
    while ((is_open_ || num_pushed_ > 0) && pushed_.size() + num_taken_ < is_pushed_.size() &&
           !has_ended_) {
      changed_.Wait(mutex_);
    }
    pushed_.clear();
  }
  progress.is_waiting_for_program = false;
  for (uint32_t t = 0; t < means_.size(); ++t) {
    if (means_[t] == nullptr) continue;
    std::fill_n(means_[t], setup_.table.parameters[t].count, 0.f);
    CompleteMean(t);
  }
  const MutexLock lock(mutex_);
  has_finished_ = false;
  has_done_step_ |= num_pushed_ > 0;
  num_pushed_ = num_taken_ = 0;
}

void Handoff::WriteMean(uint32_t tensor, uint64_t first, std::span<const float> values) {
  if (means_[tensor] != nullptr) std::copy(values.begin(), values.end(), means_[tensor] + first);
}

void Handoff::CompleteMean(uint32_t tensor) {
  if (means_[tensor] == nullptr) return;
  GuestEvent event{.type = GuestEvent::Type::kTensor, .tensor = tensor};
  {
    const MutexLock lock(mutex_);
    event.step = step_;
  }
  means_[tensor] = nullptr;
  guest_events_.Push(std::move(event));
}

void Handoff::AskForState() {
  {
    const MutexLock lock(mutex_);
    must_ask_for_state_ = has_done_step_ && num_pushed_ == 0 && !has_finished_;
    if (must_ask_for_state_) return;  // Push asks.
    if (!has_finished_) {
      asked_after_step_ = step_ == 0 ? 0 : step_ - 1;
      awaits_state_ = is_open_ && num_pushed_ == 0;
      guest_events_.Push({.type = GuestEvent::Type::kGiveState});
      return;
    }
  }
  End(Status(Code::kPeerLost,
             "another worker needs the state of the job, but this program has finished before"));
}

void Handoff::GiveState(Bytes state) {
  uint64_t step = 0;
  {
    const MutexLock lock(mutex_);
    step = asked_after_step_;
    awaits_state_ = false;
  }
  wake_.Push(StateGiven{std::move(state), step});
}

void Handoff::LoadState(const Bytes& state) {
  bool has_begun = false;
  {
    const MutexLock lock(mutex_);
    has_begun = has_done_step_ || num_pushed_ > 0;
  }
  if (!has_begun) {
    guest_events_.Push({.type = GuestEvent::Type::kState, .state = state});
    return;
  }
  End(Status(
      Code::kPeerLost,
      "this worker was lost to the job for a while, and its program cannot go on from another "
      "state; start it again"));
}

void Handoff::End(const Status& status) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(has_ended_, true)) return;
    end_status_ = status;
    is_open_ = false;
  }
  changed_.NotifyAll();
  wake_.Push(SamplesReady{});
}

bool Handoff::has_ended() const {
  const MutexLock lock(mutex_);
  return has_ended_;
}

Status Handoff::end_status() const {
  const MutexLock lock(mutex_);
  return end_status_;
}

}  // namespace tern::client

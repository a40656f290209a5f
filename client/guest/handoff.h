// Where a foreign program (client/tern.h) and the training thread of its guest meet: the program's
// threads hand over gradients, tensor by tensor, and get means back.
//
//   closed    a push waits: the means of the step before may not be in place yet
//   open      after OpenStep, until every tensor was pushed
//   finished  after Finish: no pushes; the steps that follow have no samples
//   ended     after End: the program's calls return that status
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "client/train/compute.h"
#include "common/base/bytes.h"
#include "common/base/channel.h"
#include "common/base/clock.h"
#include "common/base/log_sink.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

// What the program learns from polling.
struct GuestEvent {
  enum class Type { kNothing, kLog, kReady, kTensor, kGiveState, kState, kEnded };
  Type type = Type::kNothing;
  LogLevel level = LogLevel::kINFO;  // of kLog
  uint64_t step = 0;                 // of kReady, the steps done; of kTensor
  uint32_t tensor = 0;               // of kTensor
  Status status = {};                // of kEnded
  std::string text = {};             // of kLog
  Bytes state = {};                  // of kState
};
using GuestEvents = Channel<GuestEvent>;

// What the program says of its step.
struct StepReport {
  uint32_t num_samples = 0;  // 0: it has finished; 1 if it did not say
  double loss = 0;           // not a number if it did not say
};

class Handoff {
 public:
  // The arguments outlive this object. `wake`: gets SamplesReady when a tensor, or the end, has
  // come.
  Handoff(const setup::Setup& setup, Events& wake, GuestEvents& guest_events);

  // --- The program's threads.

  // Copies a gradient into the arena, unless its mean replaces it in the same place. Returns false
  // if the step is not open within `patience`. kUsage for an unknown tensor, one that was pushed in
  // this step before, or a push after Finish; after the end, its status, or kUsage if that is ok.
  // `mean` may be null.
  Result<bool> Push(uint32_t tensor, const float* gradient, float* mean, Time patience);
  // The loss and samples of the step.
  void Report(double loss, uint32_t num_samples);
  void Finish();
  // Answers a GuestEvent kGiveState.
  void GiveState(Bytes state);
  // Whether the program has pushed some tensors of a step, and not all.
  bool IsInStep() const;
  // kUsage if `step` is open, because the program has not pushed every tensor.
  Status CheckAllPushed(uint64_t step) const;

  // --- The training thread.

  // `gradients`: the arena, as long as the model. Call it before the first step.
  void SetArena(float* gradients);
  // By tensor: where the gradient is that was pushed in this step.
  const std::vector<const float*>& sources() const { return sources_; }
  // Lets the program push; `step` counts from 1. Returns false if the program has finished.
  bool OpenStep(uint64_t step);
  // Whether the program has begun to push and has given a state that it was asked for, or has
  // finished, or the job has ended.
  bool HasStep() const;
  StepReport report() const;
  // The next tensor that was pushed in this step and not yet returned; nullopt if there is none.
  std::optional<uint32_t> NextPushed();
  // Calls `on_ready` with each tensor of the step, in the order in which the program pushes them,
  // and `await` to wait for the next. Returns the error of `await`, or end_status() after the end.
  Status TakePushed(const std::function<void(uint32_t tensor)>& on_ready,
                    const Compute::AwaitProgram& await);
  // The step, if one is open, no longer counts. If the program is computing it, waits until it has
  // pushed every tensor. Tells it that the means are in place, which are zeros. A program that has
  // finished may push again.
  void DropStep(bool is_computing, Progress& progress);
  // Writes elements [first, first + values.size()) of a tensor's mean to where the program wants
  // it.
  void WriteMean(uint32_t tensor, uint64_t first, std::span<const float> values);
  // Tells the program that the tensor's mean is in place.
  void CompleteMean(uint32_t tensor);
  // How many steps are done: before the last mean of a step is announced, that step counts.
  void SetStepsDone(uint64_t steps) { steps_done_ = steps; }
  // Asks the program for its state, by kGiveState, as soon as it is the state between two steps:
  // once the program has begun to push the next step, so that it has used the means of the step
  // before; until it has given the state, HasStep is false. The event StateGiven brings it. A
  // program that has finished has no newer state: the job ends.
  void AskForState();
  // Gives the program another worker's state, with which it begins. After its first step, the
  // program cannot go on from another one: the job ends for it.
  void LoadState(const Bytes& state);

  // --- Any thread.

  uint64_t steps_done() const { return steps_done_; }
  // Ends all waiting; the first call counts.
  void End(const Status& status);
  bool has_ended() const;
  Status end_status() const;

 private:
  const setup::Setup& setup_;
  Events& wake_;
  GuestEvents& guest_events_;
  // Whether the mean of a step comes only when its gradient is encoded, and may overwrite it.
  const bool may_stay_in_place_;
  float* gradients_ = nullptr;
  std::atomic<uint64_t> steps_done_{0};

  mutable Mutex mutex_;
  mutable Condition changed_;
  bool is_open_ TERN_GUARDED_BY(mutex_) = false;
  bool has_finished_ TERN_GUARDED_BY(mutex_) = false;
  bool has_ended_ TERN_GUARDED_BY(mutex_) = false;
  Status end_status_ TERN_GUARDED_BY(mutex_);
  uint64_t step_ TERN_GUARDED_BY(mutex_) = 0;
  bool has_done_step_ TERN_GUARDED_BY(mutex_) = false;
  bool must_ask_for_state_ TERN_GUARDED_BY(mutex_) = false;
  bool awaits_state_ TERN_GUARDED_BY(mutex_) = false;      // before the step's gradients are used
  uint64_t asked_after_step_ TERN_GUARDED_BY(mutex_) = 0;  // whose state the program was asked for
  double loss_ TERN_GUARDED_BY(mutex_) = std::numeric_limits<double>::quiet_NaN();
  uint32_t num_samples_ TERN_GUARDED_BY(mutex_) = 1;
  // A tensor that the program has not pushed in this step.
  const std::string& MissingTensor() const TERN_MUST_HOLD(mutex_);

  std::vector<bool> is_pushed_ TERN_GUARDED_BY(mutex_);  // by tensor, in this step
  size_t num_pushed_ TERN_GUARDED_BY(mutex_) = 0;
  size_t num_taken_ TERN_GUARDED_BY(mutex_) = 0;  // how many of this step NextPushed has returned
  std::deque<uint32_t> pushed_ TERN_GUARDED_BY(mutex_);  // those that NextPushed has not returned
  // By tensor, where the program wants the mean of this step; null once it is complete. Written
  // before the tensor is in pushed_, and used after that, by the training thread.
  std::vector<float*> means_;
  std::vector<const float*> sources_;  // written and used as means_
};

}  // namespace tern::client

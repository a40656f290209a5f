// What computes and updates in a client's job (train.compute: client): the foreign program.
// GuestCompute takes its gradients, GuestArenas gives it their means. Threads: the compute thread.
//
// A program that takes tasks can go back: it is given an earlier state of its own, between two
// steps. If the job goes back in the middle of a step, that step ends for the program with means of
// zeros, and what they change is undone by the state that follows.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/exchange/progress.h"
#include "client/guest/handoff.h"
#include "client/guest/tasks.h"
#include "client/train/arenas.h"
#include "client/train/compute.h"
#include "setup/setup.h"

namespace tern::client {

// The newest round of which a bucket was applied; 0: none since training began or went back.
struct GuestRound {
  uint64_t number = 0;
  bool has_values = true;  // false: it had no contributor, so all programs have finished
};

class GuestCompute : public Compute {
 public:
  // The arguments outlive this object. `tasks`: null if the program takes none.
  GuestCompute(Handoff& handoff, GuestRound& round, GuestEvents& guest_events, Tasks* tasks,
               Progress& progress)
      : handoff_(handoff),
        round_(round),
        guest_events_(guest_events),
        tasks_(tasks),
        progress_(progress) {}

  uint64_t steps_per_epoch() const override { return 1; }
  void Begin(uint64_t steps_done) override;
  void End() override {}
  void SetAwaitProgram(AwaitProgram await) override { await_program_ = std::move(await); }
  void OpenStep() override;
  bool HasSamples() const override { return handoff_.HasStep(); }
  bool IsOver() const override { return !round_.has_values; }
  Result<uint32_t> FetchSamples() override;
  double Forward(const BeforeTensorRead&) override { return handoff_.report().loss; }
  // Calls `on_ready` in the order in which the program pushes its tensors.
  void Backward(const OnGradientReady& on_ready) override;
  Status status() const override {
    return await_status_.ok() ? handoff_.end_status() : await_status_;
  }
  void AskForState() override { handoff_.AskForState(); }
  // At once, while the program waits for the job to begin; after that as a task, by Begin.
  void LoadState(const Bytes& state) override;
  Result<Score> Evaluate(uint32_t, uint32_t, Confusion*) override { return Score(); }

 private:
  // Ends what the program does, and gives it the state from which it goes on.
  void GoBack();

  Handoff& handoff_;
  GuestRound& round_;
  GuestEvents& guest_events_;
  Tasks* const tasks_;
  Progress& progress_;
  bool has_begun_ = false;
  std::optional<Bytes> state_to_load_;
  AwaitProgram await_program_;
  Status await_status_;  // of the newest step: whether the program has pushed all of it
  uint64_t step_ = 0;
};

class GuestArenas : public Arenas {
 public:
  // The arguments outlive this object.
  GuestArenas(const setup::Setup& setup, Handoff& handoff, GuestRound& round);

  // Writes the bucket's mean gradient to where the program wants it.
  Status ApplyBucket(const Sums& sums, uint64_t round, uint32_t bucket) override;

  // There is nothing else: the program holds the weights.
  Status CopyToHost() override { return Ok(); }
  Status CopyFromHost() override { return Ok(); }
  Status AddDecay(uint32_t, float) override { return Unsupported(); }
  Status ClipGradients(double) override { return Unsupported(); }
  Status LookAhead(uint32_t, float) override { return Unsupported(); }
  Status ResetToGlobal() override { return Unsupported(); }
  Status SaveReference(LocalValues*) override { return Unsupported(); }
  Result<const float*> RetainGradient(uint64_t, uint32_t, LocalValues*) override {
    return Unsupported();
  }
  Status MoveLocalPoint(float, const std::vector<kernels::TensorRates>&, LocalValues*) override {
    return Unsupported();
  }
  Status CopyLocalToHost(LocalValues*) override { return Unsupported(); }
  Status CopyLocalFromHost(LocalValues*) override { return Unsupported(); }

 private:
  static Status Unsupported() {
    return Status(Code::kInternal, "the weights of a client's job are the program's");
  }

  const setup::Setup& setup_;
  Handoff& handoff_;
  GuestRound& round_;
  std::vector<uint32_t> buckets_of_tensor_;  // by tensor: how many buckets it lies in
  std::vector<uint32_t> buckets_left_;       // by tensor: how many of them the round still lacks
  size_t tensors_left_ = 0;                  // how many tensors the round still lacks
};

}  // namespace tern::client

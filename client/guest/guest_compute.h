// What computes and updates in a client's job (train.compute: client): the foreign program.
// GuestCompute takes its gradients, GuestArenas gives it their means. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "client/guest/handoff.h"
#include "client/train/arenas.h"
#include "client/train/compute.h"
#include "setup/setup.h"

namespace tern::client {

// Whether the newest round had no contributor: then all programs have finished.
struct GuestRound {
  bool has_values = true;
};

class GuestCompute : public Compute {
 public:
  // The arguments outlive this object.
  GuestCompute(Handoff& handoff, const GuestRound& round, GuestEvents& guest_events)
      : handoff_(handoff), round_(round), guest_events_(guest_events) {}

  uint64_t steps_per_epoch() const override { return 1; }
  void Begin(uint64_t steps_done) override;
  void End() override {}
  void SetAwaitProgram(AwaitProgram await) override { await_program_ = std::move(await); }
  void OpenStep() override { handoff_.OpenStep(++step_); }
  bool HasSamples() const override { return handoff_.HasStep(); }
  bool IsOver() const override { return !round_.has_values; }
  Result<uint32_t> FetchSamples() override;
  double Forward(const BeforeTensorRead&) override { return handoff_.Loss(); }
  // Calls `on_ready` in the order in which the program pushes its tensors.
  void Backward(const OnGradientReady& on_ready) override;
  Status status() const override {
    return await_status_.ok() ? handoff_.end_status() : await_status_;
  }
  void AskForState() override { handoff_.AskForState(); }
  void LoadState(const Bytes& state) override { handoff_.LoadState(state); }
  Result<Score> Evaluate(uint32_t, uint32_t, Confusion*) override { return Score(); }

 private:
  Handoff& handoff_;
  const GuestRound& round_;
  GuestEvents& guest_events_;
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
  Status ResetToGlobal() override { return Unsupported(); }
  Status SaveReference(LocalValues*) override { return Unsupported(); }
  Result<const float*> RetainGradient(uint64_t, uint32_t, LocalValues*) override {
    return Unsupported();
  }
  Status MoveLocalPoint(float, const std::vector<float>&, LocalValues*) override {
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
  uint64_t newest_round_ = 0;
};

}  // namespace tern::client

// Computes gradients and evaluates in a module's job (train.compute: module): the foreign program
// does it, at weights and into gradients that are the replica's own memory. Threads: the compute
// thread.
#pragma once

#include <cstdint>
#include <utility>

#include "client/exchange/progress.h"
#include "client/guest/handoff.h"
#include "client/guest/tasks.h"
#include "client/train/compute.h"
#include "client/train/replica.h"
#include "setup/setup.h"

namespace tern::client {

class ModuleCompute : public Compute {
 public:
  // The first six arguments outlive this object. `evaluates`: whether the program evaluates; if
  // not, scores have no samples.
  ModuleCompute(const setup::Setup& setup, Handoff& handoff, Tasks& tasks, Replica& replica,
                Progress& progress, GuestEvents& guest_events, bool evaluates)
      : setup_(setup),
        handoff_(handoff),
        tasks_(tasks),
        replica_(replica),
        progress_(progress),
        guest_events_(guest_events),
        evaluates_(evaluates) {}

  // Epochs are the program's affair.
  uint64_t steps_per_epoch() const override { return 1; }
  void Begin(uint64_t steps_done) override;
  void End() override {}
  void SetAwaitProgram(AwaitProgram await) override { await_program_ = std::move(await); }
  void OpenStep() override { ++step_; }
  // A program that is ready for a task has samples.
  bool HasSamples() const override { return tasks_.IsWanted(); }
  Result<uint32_t> FetchSamples() override;
  // Gives the program the step when all tensors may be read.
  double Forward(const BeforeTensorRead& before_read) override;
  void Backward(const OnGradientReady& on_ready) override;
  Status status() const override {
    return await_status_.ok() ? handoff_.end_status() : await_status_;
  }
  Result<Score> Evaluate(uint32_t part, uint32_t num_parts, Confusion* confusion) override;

  // Writes the weights for evaluation, and the mean statistics, to where the program reads them.
  void ShowEvaluatedWeights();

 private:
  const setup::Setup& setup_;
  Handoff& handoff_;
  Tasks& tasks_;
  Replica& replica_;
  Progress& progress_;
  GuestEvents& guest_events_;
  const bool evaluates_;
  AwaitProgram await_program_;
  Status await_status_;  // of the newest step: whether the program has computed it
  uint64_t step_ = 0;
};

}  // namespace tern::client

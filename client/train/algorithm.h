// The interface of training algorithms: what a worker does in a step. The files in
// client/train/algorithms read like the pseudocode of the papers. algorithms.cc has the table;
// job.proto has a section per algorithm, with the algorithm's traits.
//
//   W(r)    replica.parameters(): the weights after round r, on which the workers agree
//   point   replica.point(): the weights at which this worker computes its gradients
//
// Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange/coder.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "client/exchange/sums.h"
#include "client/train/gradient.h"
#include "client/train/open_round.h"
#include "client/train/replica.h"
#include "client/train/replica_state.h"
#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/base/trace.h"
#include "common/update/schedule.h"
#include "setup/setup.h"

namespace tern::client {

// The objects that an algorithm uses. All references outlive the algorithm.
struct Context {
  const setup::Setup& setup;
  uint32_t rank;
  uint64_t steps;  // the job's length in steps
  uint64_t steps_per_epoch;
  const update::Schedule& schedule;
  Replica& replica;
  ReplicaState& state;  // saves and loads the replica
  Gradient& gradient;
  Coder& coder;
  Sums& sums;
  Port& port;
  Progress& progress;
  // Handles events until `is_done` returns true, or returns the error that ends the worker.
  std::function<Status(const std::function<bool()>& is_done)> wait_until;
};

class Algorithm {
 public:
  explicit Algorithm(const Context& context)
      : context_(context),
        facts_(algorithm::FactsOf(context.setup.job)),
        may_close_without_worker_(
            algorithm::Elasticity::FromJob(context.setup.job).has_unsolicited_outcomes()) {}
  virtual ~Algorithm() = default;

  // Called before the first step, when the parameters are W(applied).
  virtual Status Begin(uint64_t applied) {
    applied_ = applied;
    return Ok();
  }
  // Called once per step, in order, from first_step(); steps count from 1.
  virtual Status Step(uint64_t step) = 0;
  // Called when answers of a round have arrived and are in the sums, while a step or the trainer
  // waits.
  virtual Status OnAnswers() { return Ok(); }
  // Waits for open exchanges. Then replica.parameters() are the newest weights on which workers
  // agree.
  virtual Status Drain() { return Ok(); }
  // Waits for open exchanges like Drain, but starts no new exchange.
  virtual Status Quiesce() { return Drain(); }
  // Called in place of Drain after the last step. May start an exchange, so that W has all that the
  // workers have trained.
  virtual Status DrainAtEnd(uint64_t /*last_step*/) { return Drain(); }
  // Whether the workers agree on W after `step`, so that training can resume from that step. False
  // after a round that is short because the job ended: a longer job could not resume there.
  // REQUIRES that Quiesce was called.
  bool WorkersAgreeAfter(uint64_t step) const {
    return applied_ != 0 && facts_.StepOfRound(applied_) == step;
  }
  // The next three functions save and restore this worker's private state besides the replica, for
  // checkpoints. AddState adds references to the private state to *state; after a restart, the
  // trainer restores the private state after Begin. If a device holds the private state,
  // CopyStateToHost copies it to the host, and CopyStateFromHost copies it back. All three REQUIRE
  // that Quiesce was called.
  virtual Status CopyStateToHost() { return Ok(); }
  virtual Status CopyStateFromHost() { return Ok(); }
  virtual void AddState(SavedState* /*state*/) {}
  // For algorithms without rounds: whether a worker that returns continues at its own point instead
  // of at the servers' weights.
  virtual bool keeps_point() const { return false; }
  // For algorithms without rounds, after the last step: tells the servers that no other worker has
  // to wait for this one.
  virtual Status Leave() { return Ok(); }
  // The newest round that this worker has pushed; without rounds: how many exchanges it has made.
  virtual uint64_t last_pushed_round() const { return applied_; }
  // Returns the state that another worker needs to continue after round applied(). Call it between
  // two steps, or while this worker waits.
  virtual Bytes SaveState() { return context_.state.Save(applied_); }

  // The step at whose end a worker has W(round) (Facts::StepOfRound), in this job.
  uint64_t StepOfRound(uint64_t round) const { return facts_.StepOfRound(round, context_.steps); }
  // The last step up to `step` after which the workers agree on W.
  uint64_t LastRoundEnd(uint64_t step) const { return facts_.LastRoundEnd(step); }
  // The step that ends the round to which `step` belongs.
  uint64_t EndOfRoundAt(uint64_t step) const { return StepOfRound(facts_.RoundOfStep(step)); }
  virtual uint64_t first_step() const { return StepOfRound(applied_) + 1; }
  uint64_t applied() const { return applied_; }

 protected:
  Status AwaitSums(uint64_t round) {
    return context_.wait_until([this, round] { return context_.sums.HasAnswers(round); });
  }
  // For algorithms in which each round turns W(round - 1) into W(round).
  OpenRound MakeOpenRound() {
    return {context_.setup,
            context_.steps,
            context_.replica,
            context_.sums,
            context_.progress,
            context_.wait_until,
            [this](uint64_t round) { MarkApplied(round); }};
  }
  void PushAll(uint64_t round, const float* arena) {
    for (uint32_t b = 0; b < context_.setup.plan.buckets.size(); ++b)
      context_.coder.Push(round, b, arena);
  }
  // Call when the parameters are W(round).
  void MarkApplied(uint64_t round) {
    const TraceSpan span("end of round", {.round = round});
    // The pushed values must not change until they are encoded.
    if (may_close_without_worker_) context_.coder.AwaitEncoding();
    applied_ = round;
    context_.coder.ShowMeans(round, context_.sums);
    context_.sums.DropRoundsUpTo(round);
    context_.port.ReportApplied(round);
  }
  // The schedule's learning rate at this step, for a worker's own updates.
  float LearningRateOf(uint64_t step) const {
    return static_cast<float>(context_.schedule.Rate(step - 1));
  }

  Context context_;
  const algorithm::Facts facts_;
  uint64_t applied_ = 0;

 private:
  const bool may_close_without_worker_;  // whether a round may close without this worker's push
};

// kBadJob if no algorithm of that name is in the table.
Result<std::unique_ptr<Algorithm>> MakeAlgorithm(const std::string& name, const Context& context);

}  // namespace tern::client

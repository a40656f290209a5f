// A training algorithm: what a worker does in a step. Each has a file of its own that reads like
// its paper's box; algorithms.cc has the table, and job.proto a section for each with what servers
// need to know.
//
//   W(r)    replica.parameters(): the weights after round r, on which the workers agree
//   point   replica.point(): the weights at which this worker takes its gradients
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
#include "common/update/schedule.h"
#include "setup/setup.h"

namespace tern::client {

// What an algorithm uses. All of it outlives the algorithm.
struct Context {
  const setup::Setup& setup;
  uint32_t rank;
  uint64_t steps;  // of the job
  uint64_t steps_an_epoch;
  const update::Schedule& schedule;
  Replica& replica;
  ReplicaState& state;  // of the replica
  Gradient& gradient;
  Coder& coder;
  Sums& sums;
  Port& port;
  Progress& progress;
  // Handles events until `done` returns true, or returns the error that ends the worker.
  std::function<Status(const std::function<bool()>& done)> wait;
};

class Algorithm {
 public:
  explicit Algorithm(const Context& context)
      : c_(context),
        facts_(algorithm::FactsOf(context.setup.job)),
        closes_without_(algorithm::Elasticity::Of(context.setup.job).unsolicited()) {}
  virtual ~Algorithm() = default;

  // Called before the first step; the parameters are W(applied).
  virtual Status Begin(uint64_t applied) {
    applied_ = applied;
    return Ok();
  }
  // Called once per step, in order, from first_step(); steps count from 1.
  virtual Status Step(uint64_t step) = 0;
  // Waits for open exchanges, so that parameters() are the newest on which the workers agree.
  virtual Status Drain() { return Ok(); }
  // The same without asking anybody for anything new.
  virtual Status Quiesce() { return Drain(); }
  // Whether the workers agree on W after `step` when all is quiet: training can resume after it. A
  // round that the end of the job has cut short is no place to resume a longer job.
  bool MeetsAfter(uint64_t step) const {
    return applied_ != 0 && facts_.StepOfRound(applied_) == step;
  }
  // The private state of this worker besides the replica; REQUIRES that all is quiet. It is
  // restored after Begin. If it is on a device: CopyStateToHost: device -> host; CopyStateFromHost:
  // host -> device.
  virtual Status CopyStateToHost() { return Ok(); }
  virtual Status CopyStateFromHost() { return Ok(); }
  virtual void AddState(SavedState* /*state*/) {}
  // Without rounds: whether a returning worker continues at its own point instead of at the
  // servers' weights.
  virtual bool keeps_point() const { return false; }
  // Without rounds, after the last step: tells the servers that nobody has to wait for this worker.
  virtual Status Leave() { return Ok(); }
  // The value of applied() after that.
  virtual uint64_t pushed() const { return applied_; }
  // The state that another worker needs to continue after round applied(). REQUIRES that it is
  // called between two steps, or while waiting.
  virtual Bytes SaveState() { return c_.state.Save(applied_); }

  // As Facts::StepOfRound, in this job.
  uint64_t StepOfRound(uint64_t round) const { return facts_.StepOfRound(round, c_.steps); }
  virtual uint64_t first_step() const { return StepOfRound(applied_) + 1; }
  uint64_t applied() const { return applied_; }

 protected:
  Status AwaitSums(uint64_t round) {
    return c_.wait([this, round] { return c_.sums.Has(round); });
  }
  // For a round that turns W(round - 1) into W(round).
  OpenRound MakeOpenRound() {
    return {c_.setup,    c_.replica, c_.sums,
            c_.progress, c_.wait,    [this](uint64_t round) { MarkApplied(round); }};
  }
  void PushAll(uint64_t round, const float* arena) {
    for (uint32_t b = 0; b < c_.setup.plan.buckets.size(); ++b) c_.coder.Push(round, b, arena);
  }
  // Call when W(round) is in place.
  void MarkApplied(uint64_t round) {
    // The pushed values must not change until they are coded.
    if (closes_without_) c_.coder.Finish();
    applied_ = round;
    c_.sums.Drop(round);
    c_.port.Applied(round);
  }
  // The schedule's rate, for a worker's own updates.
  float RateOf(uint64_t step) const { return static_cast<float>(c_.schedule.Rate(step - 1)); }

  Context c_;
  const algorithm::Facts facts_;
  uint64_t applied_ = 0;

 private:
  const bool closes_without_;  // a round may close without this worker
};

// kBadJob if no algorithm of that name is in the table.
Result<std::unique_ptr<Algorithm>> MakeAlgorithm(const std::string& name, const Context& context);

}  // namespace tern::client

// A way of training: what a worker does in a step. Each stands in a file of its own and reads like
// its paper's box; algorithms.cc has the table, job.proto a section for each with what servers must
// know.
//
//   W(r)    replica.parameters(): the weights after round r, which the workers agree on
//   point   replica.point(): the weights at which this worker takes its gradients
//
// Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "common/update/schedule.h"
#include "worker/data/prefetcher.h"
#include "worker/train/coder.h"
#include "worker/train/gradient.h"
#include "worker/train/open_round.h"
#include "worker/train/port.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"
#include "worker/train/sums.h"

namespace tern::train {

// What an algorithm works with. All outlive it.
struct Context {
  const setup::Setup& setup;
  uint32_t rank;
  uint64_t steps;  // of the job
  uint64_t steps_an_epoch;
  const update::Schedule& schedule;
  Replica& replica;
  Gradient& gradient;
  Coder& coder;
  Sums& sums;
  Port& port;
  Progress& progress;
  // Takes events until `done`; the error that ends the worker otherwise.
  std::function<Status(const std::function<bool()>& done)> wait;
};

class Algorithm {
 public:
  explicit Algorithm(const Context& context)
      : c_(context),
        facts_(algorithm::FactsOf(context.setup.job)),
        closes_without_(algorithm::Elasticity::Of(context.setup.job).unsolicited()) {}
  virtual ~Algorithm() = default;

  // Before the first step: the parameters stand at W(applied).
  virtual Status Begin(uint64_t applied) {
    applied_ = applied;
    return Ok();
  }
  // Steps are counted from 1; each is done once, in order, from first_step().
  virtual Status Step(uint64_t step, const data::Batch& batch) = 0;
  // Waits for what is under way, so that parameters() are the newest that the workers agree on.
  virtual Status Settle() { return Ok(); }
  // The same for whoever wants to look only: nobody is asked for anything new.
  virtual Status Rest() { return Settle(); }
  // Whether the workers have met at the end of `step`, done and at rest: it can be begun after. Not
  // where the end of the job has cut a round short: in a longer job they would not meet there.
  bool MeetsAfter(uint64_t step) const {
    return applied_ != 0 && facts_.StepOfRound(applied_) == step;
  }
  // What is this worker's own beside the replica, at rest. Restored after Begin. Where it lies on a
  // device, it is seen here after the one, and there after the other.
  virtual Status BringState() { return Ok(); }
  virtual Status SendState() { return Ok(); }
  virtual void AddState(SavedState* /*state*/) {}
  // Without rounds: whether a worker that comes back goes on at its own point, not at the weights
  // that the servers have.
  virtual bool keeps_point() const { return false; }
  // After the last step, where there are no rounds: nobody is to wait for this worker any more.
  virtual Status Part() { return Ok(); }
  // What applied() is after that.
  virtual uint64_t pushed() const { return applied_; }
  // What another worker needs to go on after round applied(). REQUIRES between two steps, or
  // waiting.
  virtual Bytes SaveState() { return c_.replica.SaveState(applied_); }

  // As Facts::StepOfRound, in this job.
  uint64_t StepOfRound(uint64_t round) const { return facts_.StepOfRound(round, c_.steps); }
  virtual uint64_t first_step() const { return StepOfRound(applied_) + 1; }
  uint64_t applied() const { return applied_; }

 protected:
  Status AwaitSums(uint64_t round) {
    return c_.wait([this, round] { return c_.sums.Has(round); });
  }
  // For a round that makes W(round) of W(round - 1).
  OpenRound MakeOpenRound() {
    return {c_.setup,    c_.replica, c_.sums,
            c_.progress, c_.wait,    [this](uint64_t round) { MarkApplied(round); }};
  }
  void PushAll(uint64_t round, const float* arena) {
    for (uint32_t b = 0; b < c_.setup.plan.buckets.size(); ++b) c_.coder.Push(round, b, arena);
  }
  // W(round) is in place.
  void MarkApplied(uint64_t round) {
    // What was pushed in it stays as it is until then.
    if (closes_without_) c_.coder.Finish();
    applied_ = round;
    c_.sums.Drop(round);
    c_.port.Applied(round);
  }
  // Of the schedule, for updates that a worker makes on its own.
  float RateOf(uint64_t step) const { return static_cast<float>(c_.schedule.Rate(step - 1)); }

  Context c_;
  const algorithm::Facts facts_;
  uint64_t applied_ = 0;

 private:
  const bool closes_without_;  // a round may, of this worker
};

// kBadJob where no algorithm of that name is in the table.
Result<std::unique_ptr<Algorithm>> MakeAlgorithm(const std::string& name, const Context& context);

}  // namespace tern::train

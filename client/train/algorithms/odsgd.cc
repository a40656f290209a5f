// OD-SGD, Algorithm 2 (docs/ALGORITHMS.md, section 7). wp is the number of warm-up steps, W(r) are
// the weights after round r, U_local is the worker's own (local) update. Every step s, from 1,
// computes the gradient g_s at the point w'_s and pushes it in round s. Then:
//
//   s <= wp       w'_{s+1} = W(s)                     waits for the sum of round s, as ssgd does
//   s == wp + 1   w'_{s+1} = W(s-1) + U_local(g_s)    g_s was computed at W(s-1): no compensation,
//                                                     but with reference: prev_global
//   s >  wp + 1   w'_{s+1} = W(s-1) + U_local(g_s)    waits only for the sum of round s - 1
//
// From step wp + 1 on, the exchange of g_s is in progress while g_{s+1} is computed, so two rounds
// are open. Each step computes w' from W, so local updates do not accumulate. U_local gets the
// gradient before encoding. Evaluation and saved weights use W, never w'.
#include <cmath>

#include "client/train/algorithms.h"
#include "client/train/local_point.h"

namespace tern::client {

namespace {

uint64_t WarmupSteps(const pb::Odsgd& settings, uint64_t steps_per_epoch) {
  if (settings.has_warmup_epochs())
    return static_cast<uint64_t>(
        std::llround(settings.warmup_epochs() * static_cast<double>(steps_per_epoch)));
  return settings.warmup_steps();
}

class Odsgd : public Algorithm {
 public:
  explicit Odsgd(const Context& context)
      : Algorithm(context),
        warmup_steps_(WarmupSteps(context_.setup.job.train().odsgd(), context.steps_per_epoch)),
        open_round_(MakeOpenRound()),
        local_point_(context_.setup, context_.replica) {}

  // A worker that returns to the job starts with w' = W.
  Status Begin(uint64_t applied) override {
    TERN_RETURN_IF_ERROR(Algorithm::Begin(applied));
    last_pushed_ = applied;
    return local_point_.Begin();
  }

  Status Step(uint64_t s) override {
    // If the answers arrive before this worker's push, the worker is late, and applies the closed
    // rounds instead.
    if (context_.sums.HasAnswers(s)) {
      last_pushed_ = s;
      TERN_RETURN_IF_ERROR(ApplyUpTo(s));
      return local_point_.ResetToGlobal();
    }
    if (!context_.gradient.has_samples()) return StepWithoutSamples(s);
    TERN_RETURN_IF_ERROR(Push(s));
    if (s <= warmup_steps_) {
      TERN_RETURN_IF_ERROR(ApplyUpTo(s));
      return local_point_.ResetToGlobal();
    }
    TERN_RETURN_IF_ERROR(ApplyUpTo(s - 1));
    TimeScope decode_scope(context_.progress.decode_time);
    return local_point_.MovePoint(LearningRateOf(s));  // w'_{s+1} = W(s-1) + U_local(g_s)
  }

  // Does not change the point, so an evaluation does not affect the next step.
  Status Drain() override { return ApplyUpTo(last_pushed_); }
  uint64_t last_pushed_round() const override { return last_pushed_; }
  Status CopyStateToHost() override { return local_point_.CopyToHost(); }
  Status CopyStateFromHost() override { return local_point_.CopyFromHost(); }
  void AddState(SavedState* state) override { local_point_.AddState(state); }

 private:
  Status Push(uint64_t s) {
    Status push_status;
    TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward([&](uint32_t bucket) {
      const Result<const float*> copy = local_point_.RetainGradient(s, bucket);
      if (push_status.ok()) push_status = copy.status();
      if (copy.ok()) context_.coder.Push(s, bucket, *copy);
    }));
    last_pushed_ = s;
    return push_status;
  }

  // A step in which this worker has no samples: no gradient, no local update.
  Status StepWithoutSamples(uint64_t s) {
    context_.coder.SkipRound(s);
    last_pushed_ = s;
    TERN_RETURN_IF_ERROR(ApplyUpTo(s <= warmup_steps_ ? s : s - 1));
    return local_point_.ResetToGlobal();
  }

  Status ApplyUpTo(uint64_t round) {
    while (applied_ < round) {
      TERN_RETURN_IF_ERROR(local_point_.SaveReference());
      open_round_.Open(applied_ + 1);
      TERN_RETURN_IF_ERROR(open_round_.Finish());
    }
    return Ok();
  }

  const uint64_t warmup_steps_;  // wp, in steps
  OpenRound open_round_;
  LocalPoint local_point_;  // w', the point at which gradients are computed
  uint64_t last_pushed_ = 0;
};

}  // namespace

std::unique_ptr<Algorithm> MakeOdsgd(const Context& context) {
  return std::make_unique<Odsgd>(context);
}

}  // namespace tern::client

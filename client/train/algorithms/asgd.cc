// Asynchronous SGD and its relatives (survey, section on asynchronous SGD; OD-SGD equations 4 to
// 6). Their workers do the same; the servers decide what a push does and when it is answered
// (server/rules/asgd.cc, dcasgd.cc, ssp.cc, softsync.cc). A worker, in every step:
//
//   g = gradient at its weights
//   push g
//   its weights = the answer
//
// Downpour (asgd.push_every, pull_every above 1): in between, the worker descends on its own copy;
// it pushes the sum of its gradients, and pulls after pull_every steps. DC-ASGD where a push is a
// drawn code, or contains remainders of older gradients: its square is not that of the gradient, so
// the worker forms the term itself, against the weights just before its push (docs/ALGORITHMS.md,
// section 9).
#include <algorithm>
#include <optional>

#include "client/train/algorithms.h"
#include "client/train/asynchronous.h"
#include "client/train/pull.h"
#include "common/base/text.h"
#include "common/protocol/plan/codec_options.h"
#include "common/update/delay_compensation.h"
#include "kernels/update/optimizer.h"

namespace tern::client {

namespace {

class Asgd : public Asynchronous {
 public:
  using Asynchronous::Asynchronous;

  Status Step(uint64_t) override {
    if (!c_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(c_.gradient.Take(
        [this](uint32_t bucket) { c_.coder.Push(clock() + 1, bucket, c_.replica.gradients()); }));
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return TrainOnThere();
  }
};

class Downpour : public Asynchronous {
 public:
  explicit Downpour(const Context& context)
      : Asynchronous(context),
        job_(c_.setup.job.train().asgd()),
        size_(c_.setup.table.total),
        gathered_(size_) {}

  Status Step(uint64_t step) override {
    if (!c_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(c_.gradient.Take());
    const float* g = c_.replica.gradients();
    for (size_t i = 0; i < size_; ++i) gathered_[i] += g[i];
    kernels::SgdUpdate(c_.replica.point(), g, size_, RateOf(step), 0);
    ++steps_;
    const bool push = steps_ % job_.push_every() == 0, pull = steps_ % job_.pull_every() == 0;
    if (push) TERN_RETURN_IF_ERROR(Push(pull));
    if (pull && !push) TERN_RETURN_IF_ERROR(client::Pull(c_, c_.replica.parameters(), false));
    if (pull) std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
    return Ok();
  }

 private:
  Status Push(bool pull) {
    for (uint32_t b = 0; b < c_.setup.plan.buckets.size(); ++b)
      c_.coder.Push(clock() + 1, b, gathered_.data(), /*wants_weights=*/pull);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    std::fill(gathered_.begin(), gathered_.end(), 0.f);
    return pull ? Install(c_.replica.parameters()) : Ok();
  }

  const pb::Asgd& job_;
  const size_t size_;
  std::vector<float> gathered_;  // gradients since the last push
  uint64_t steps_ = 0;
};

// g' = g + lambda g g (w - w_bak): w as pulled just now, w_bak the weights that g was taken at.
class DelayCompensated : public Asynchronous {
 public:
  DelayCompensated(const Context& context, const pb::Dcasgd& job, bool adaptive)
      : Asynchronous(context),
        now_(c_.setup.table.total),
        compensation_(
            adaptive ? update::DelayCompensation::Adaptive(job.lambda(), job.rho(), now_.size())
                     : update::DelayCompensation::Constant(job.lambda())) {}

  Status Step(uint64_t) override {
    if (!c_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(c_.gradient.Take());
    // Changes are against what this worker holds.
    std::copy_n(c_.replica.parameters(), now_.size(), now_.data());
    TERN_RETURN_IF_ERROR(client::Pull(c_, now_.data(), false));
    float* g = c_.replica.gradients();
    compensation_.Apply(g, now_.data(), c_.replica.parameters(), 0, now_.size(), g);
    std::copy_n(now_.data(), now_.size(), c_.replica.parameters());
    PushAll(clock() + 1, g);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return Install(c_.replica.parameters());
  }

  void AddState(SavedState* state) override {
    for (const update::Optimizer::StateArray& slot : compensation_.StateArrays())
      state->arrays.push_back({Cat("compensation.", slot.name), slot.values});
  }

 private:
  std::vector<float> now_;
  update::DelayCompensation compensation_;
};

std::unique_ptr<Algorithm> MakeDcasgd(const Context& context, const pb::Dcasgd& job,
                                      bool adaptive) {
  if (!protocol::WorkersFormTerm(context.setup.job)) return std::make_unique<Asgd>(context);
  return std::make_unique<DelayCompensated>(context, job, adaptive);
}

}  // namespace

std::unique_ptr<Algorithm> MakeAsgd(const Context& context) {
  const pb::Asgd& job = context.setup.job.train().asgd();
  if (job.push_every() == 1 && job.pull_every() == 1) return std::make_unique<Asgd>(context);
  return std::make_unique<Downpour>(context);
}
std::unique_ptr<Algorithm> MakeDcasgdC(const Context& context) {
  return MakeDcasgd(context, context.setup.job.train().dcasgd_c(), false);
}
std::unique_ptr<Algorithm> MakeDcasgdA(const Context& context) {
  return MakeDcasgd(context, context.setup.job.train().dcasgd_a(), true);
}
// The waiting and the weighing are the servers'.
std::unique_ptr<Algorithm> MakeSsp(const Context& context) {
  return std::make_unique<Asgd>(context);
}
std::unique_ptr<Algorithm> MakeSoftsync(const Context& context) {
  return std::make_unique<Asgd>(context);
}

}  // namespace tern::client

// The workers of asgd, dcasgd_c, dcasgd_a, ssp and softsync (survey, section on asynchronous SGD;
// OD-SGD, equations 4 to 6). The workers of these algorithms do the same; the servers decide what a
// push does and when it is answered (server/rules/asgd.cc, dcasgd.cc, ssp.cc, softsync.cc). In
// every step, a worker does:
//
//   g = gradient at its weights
//   push g
//   its weights = the answer
//
// There are two other kinds of workers. Downpour SGD (asgd.push_every or pull_every above 1):
// between exchanges the worker applies its gradients to its own copy of the weights; it pushes the
// sum of push_every gradients, and pulls every pull_every steps. DC-ASGD with compensation:
// on_worker: the square of a decoded push is not that of the gradient if codes are random or
// contain remainders of older gradients, so the worker computes the compensation term itself, with
// the weights just before its push (docs/ALGORITHMS.md, section 9).
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
    TERN_RETURN_IF_ERROR(c_.gradient.ForwardBackward(
        [this](uint32_t bucket) { c_.coder.Push(clock() + 1, bucket, c_.replica.gradients()); }));
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return MovePointToAnswer();
  }
};

class Downpour : public Asynchronous {
 public:
  explicit Downpour(const Context& context)
      : Asynchronous(context),
        job_(c_.setup.job.train().asgd()),
        size_(c_.setup.table.total),
        gradient_sum_(size_) {}

  Status Step(uint64_t step) override {
    if (!c_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(c_.gradient.ForwardBackward());
    const float* g = c_.replica.gradients();
    for (size_t i = 0; i < size_; ++i) gradient_sum_[i] += g[i];
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
      c_.coder.Push(clock() + 1, b, gradient_sum_.data(), /*wants_weights=*/pull);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    std::fill(gradient_sum_.begin(), gradient_sum_.end(), 0.f);
    return pull ? Install(c_.replica.parameters()) : Ok();
  }

  const pb::Asgd& job_;
  const size_t size_;
  std::vector<float> gradient_sum_;  // the sum of the gradients since the last push
  uint64_t steps_ = 0;
};

// Pushes g' = g + lambda g g (w - w_bak), element by element. g is the gradient, w_bak the weights
// at which it was computed, w the weights pulled after that, lambda the job's factor. `adaptive`:
// lambda is divided by the root of a moving mean square of g (dcasgd_a).
class DelayCompensated : public Asynchronous {
 public:
  DelayCompensated(const Context& context, const pb::Dcasgd& job, bool adaptive)
      : Asynchronous(context),
        pulled_(c_.setup.table.total),
        compensation_(
            adaptive ? update::DelayCompensation::Adaptive(job.lambda(), job.rho(), pulled_.size())
                     : update::DelayCompensation::Constant(job.lambda())) {}

  Status Step(uint64_t) override {
    if (!c_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(c_.gradient.ForwardBackward());
    // If servers send changes, the changes are relative to this worker's parameters.
    std::copy_n(c_.replica.parameters(), pulled_.size(), pulled_.data());
    TERN_RETURN_IF_ERROR(client::Pull(c_, pulled_.data(), false));
    float* g = c_.replica.gradients();
    compensation_.Apply(g, pulled_.data(), c_.replica.parameters(), 0, pulled_.size(), g);
    std::copy_n(pulled_.data(), pulled_.size(), c_.replica.parameters());
    PushAll(clock() + 1, g);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return Install(c_.replica.parameters());
  }

  void AddState(SavedState* state) override {
    for (const update::Optimizer::StateArray& slot : compensation_.StateArrays())
      state->arrays.push_back({Cat("compensation.", slot.name), slot.values});
  }

 private:
  std::vector<float> pulled_;
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
// What distinguishes ssp and softsync from asgd happens on the servers.
std::unique_ptr<Algorithm> MakeSsp(const Context& context) {
  return std::make_unique<Asgd>(context);
}
std::unique_ptr<Algorithm> MakeSoftsync(const Context& context) {
  return std::make_unique<Asgd>(context);
}

}  // namespace tern::client

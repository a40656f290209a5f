// The workers of asgd, dcasgd_c, dcasgd_a, ssp and softsync (survey, section on asynchronous SGD;
// OD-SGD, equations 4 to 6). The workers of these algorithms do the same; the servers decide what a
// push does and when it is answered (server/rules/asgd.cc, dcasgd.cc, ssp.cc, softsync.cc). In
// every step, a worker does:
//
//   g = gradient at its weights
//   push g
//   its weights = the answer
//
// There are two other kinds of workers. In Downpour SGD (asgd.push_every or pull_every above 1), a
// worker applies each gradient to its own copy of the weights, pushes the sum of push_every
// gradients, and pulls every pull_every steps. In DC-ASGD, the workers may compute the compensation
// term, with the weights just before the push. Servers cannot compute the term if codes are random
// or contain remainders of older gradients, because the square of a decoded push is then not that
// of the gradient (docs/ALGORITHMS.md, section 9).
#include <algorithm>
#include <optional>

#include "client/train/algorithms.h"
#include "client/train/asynchronous.h"
#include "client/train/pull.h"
#include "common/base/text.h"
#include "common/base/trace.h"
#include "common/protocol/plan/codec_options.h"
#include "common/update/delay_compensation.h"
#include "kernels/update/optimizer.h"
#include "setup/tensor_rates.h"

namespace tern::client {

namespace {

class Asgd : public Asynchronous {
 public:
  using Asynchronous::Asynchronous;

  Status Step(uint64_t) override {
    if (!context_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward([this](uint32_t bucket) {
      context_.coder.Push(clock() + 1, bucket, context_.replica.gradients());
    }));
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return MovePointToAnswer();
  }
};

class Downpour : public Asynchronous {
 public:
  explicit Downpour(const Context& context)
      : Asynchronous(context),
        settings_(context_.setup.job.train().asgd()),
        num_parameters_(context_.setup.table.total),
        gradient_sum_(num_parameters_),
        rates_(setup::UpdateRatesOf(context.setup.job, context.setup.table, false).of_tensor) {}

  Status Step(uint64_t step) override {
    if (!context_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward());
    MoveOwnPoint(step);
    ++num_steps_;
    const bool pushes = num_steps_ % settings_.push_every() == 0,
               pulls = num_steps_ % settings_.pull_every() == 0;
    if (pushes) TERN_RETURN_IF_ERROR(Push(pulls));
    if (pulls && !pushes)
      TERN_RETURN_IF_ERROR(client::Pull(context_, context_.replica.parameters(), false));
    const TraceSpan span("update");
    if (pulls)
      std::copy_n(context_.replica.parameters(), num_parameters_, context_.replica.point());
    return Ok();
  }

 private:
  void MoveOwnPoint(uint64_t step) {
    const TraceSpan span("update");
    const float* g = context_.replica.gradients();
    for (size_t i = 0; i < num_parameters_; ++i) gradient_sum_[i] += g[i];
    for (size_t t = 0; t < rates_.size(); ++t) {
      const uint64_t begin = context_.setup.plan.tensor_begin[t];
      kernels::SgdUpdate(context_.replica.point() + begin, g + begin,
                         context_.setup.plan.tensor_count[t],
                         LearningRateOf(step) * rates_[t].rate_times, rates_[t].decay);
    }
  }
  Status Push(bool wants_weights) {
    for (uint32_t b = 0; b < context_.setup.plan.buckets.size(); ++b)
      context_.coder.Push(clock() + 1, b, gradient_sum_.data(), /*wants_weights=*/wants_weights);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    const TraceSpan span("update");
    std::fill(gradient_sum_.begin(), gradient_sum_.end(), 0.f);
    return wants_weights ? InstallWeights(context_.replica.parameters()) : Ok();
  }

  const pb::Asgd& settings_;
  const size_t num_parameters_;
  std::vector<float> gradient_sum_;  // the sum of the gradients since the last push
  const std::vector<kernels::TensorRates> rates_;
  uint64_t num_steps_ = 0;
};

// Pushes g' = g + lambda g g (w - w_bak), element by element. g is the gradient, w_bak the weights
// at which it was computed, w the weights pulled after that, lambda the job's factor. `adaptive`:
// lambda is divided by the root of a moving mean square of g (dcasgd_a).
class DelayCompensated : public Asynchronous {
 public:
  DelayCompensated(const Context& context, const pb::Dcasgd& settings, bool adaptive)
      : Asynchronous(context),
        pulled_weights_(context_.setup.table.total),
        compensation_(adaptive ? update::DelayCompensation::MakeAdaptive(
                                     settings.lambda(), settings.rho(), pulled_weights_.size())
                               : update::DelayCompensation::MakeConstant(settings.lambda())) {}

  Status Step(uint64_t) override {
    if (!context_.gradient.has_samples()) return Ok();
    TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward());
    // If servers send changes, the changes are relative to this worker's parameters.
    CopyWeights();
    TERN_RETURN_IF_ERROR(client::Pull(context_, pulled_weights_.data(), false));
    float* g = context_.replica.gradients();
    Compensate(g);
    PushAll(clock() + 1, g);
    TERN_RETURN_IF_ERROR(AwaitExchange());
    return InstallWeights(context_.replica.parameters());
  }

  void AddState(SavedState* state) override {
    for (const update::Optimizer::StateArray& array : compensation_.StateArrays())
      state->arrays.push_back({Cat("compensation.", array.name), array.values});
  }

 private:
  void CopyWeights() {
    const TraceSpan span("compensate");
    std::copy_n(context_.replica.parameters(), pulled_weights_.size(), pulled_weights_.data());
  }
  void Compensate(float* g) {
    const TraceSpan span("compensate");
    compensation_.CompensateGradient(g, pulled_weights_.data(), context_.replica.parameters(), 0,
                                     pulled_weights_.size(), g);
    std::copy_n(pulled_weights_.data(), pulled_weights_.size(), context_.replica.parameters());
  }

  std::vector<float> pulled_weights_;
  update::DelayCompensation compensation_;
};

std::unique_ptr<Algorithm> MakeDcasgd(const Context& context, const pb::Dcasgd& settings,
                                      bool adaptive) {
  if (!protocol::WorkersFormTerm(context.setup.job)) return std::make_unique<Asgd>(context);
  return std::make_unique<DelayCompensated>(context, settings, adaptive);
}

}  // namespace

std::unique_ptr<Algorithm> MakeAsgd(const Context& context) {
  const pb::Asgd& settings = context.setup.job.train().asgd();
  if (settings.push_every() == 1 && settings.pull_every() == 1)
    return std::make_unique<Asgd>(context);
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

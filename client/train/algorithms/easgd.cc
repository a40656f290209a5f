// Synchronous EASGD (survey, equations 2 to 4; docs/ALGORITHMS.md, section 11): every tau steps the
// workers and the centre c move towards each other, by alpha times their difference before the
// step. x^i_t are worker i's weights after t steps, g its gradient, eta the learning rate, rho the
// elastic constant, alpha = eta rho.
//
//   x^i_{t+1} = x^i_t - eta g(x^i_t) - alpha (x^i_t - c_t)    if tau divides t
//   x^i_{t+1} = x^i_t - eta g(x^i_t)                          else
//   c_{t+1}   = c_t + alpha sum_i (x^i_t - c_t)               if tau divides t
//
// The servers hold the centre; W is the centre as the workers last received it. With nesterov as
// the optimizer, this is EAMSGD in PyTorch's form of the momentum. At t = 0 all weights are still
// equal, so nothing is exchanged.
#include "client/train/algorithms.h"
#include "client/train/apply.h"
#include "client/train/local_steps.h"
#include "common/base/trace.h"

namespace tern::client {

namespace {

class Easgd : public LocalSteps {
 public:
  explicit Easgd(const Context& context)
      : LocalSteps(context),
        alpha_(static_cast<float>(context_.setup.job.train().easgd().alpha())),
        applier_(context_.setup, context_.steps, context_.replica, context_.sums),
        elastic_terms_(num_parameters_) {}

  Status Step(uint64_t step) override {
    // `step` is t + 1. It ends a round if tau divides t, except for t = 0.
    if (!EndsRound(step)) return Descend(step);
    const uint64_t round = RoundOf(step);
    if (!context_.sums.HasAnswers(round))
      PushAll(round,
              context_.replica.point());  // The exchange overlaps with the gradient's computation.
    if (context_.gradient.has_samples()) {
      TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward());
    }
    TERN_RETURN_IF_ERROR(AwaitSums(round));
    const TraceSpan span("decode, update", {.round = round});
    float* x = context_.replica.point();
    const float* centre = context_.replica.parameters();
    for (size_t i = 0; i < num_parameters_; ++i) elastic_terms_[i] = alpha_ * (x[i] - centre[i]);
    if (context_.gradient.has_samples()) MovePoint(step);
    for (size_t i = 0; i < num_parameters_; ++i) x[i] -= elastic_terms_[i];
    TERN_RETURN_IF_ERROR(applier_.ApplyRound(round));
    MarkApplied(round);
    return Ok();
  }

 private:
  const float alpha_;
  RoundApplier applier_;
  std::vector<float> elastic_terms_;  // alpha (x - c), by element
};

}  // namespace

std::unique_ptr<Algorithm> MakeEasgd(const Context& context) {
  return std::make_unique<Easgd>(context);
}

}  // namespace tern::client

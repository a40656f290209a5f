// Asynchronous EASGD (Zhang et al. 2015; survey, equations 2 to 4): after every tau of its steps, a
// worker and the centre c move towards each other, by alpha times their difference. x_t are
// the worker's weights after t steps, g its gradient, eta the learning rate. The worker pushes
// x_t; the answer is the centre before the push:
//
//   c       = c + alpha (x_t - c)                     on the server
//   x_{t+1} = x_t - eta g(x_t) - alpha (x_t - c)      on the worker, with the old c
//
// With nesterov as the optimizer, this is EAMSGD in PyTorch's form of the momentum.
#include "client/train/algorithms.h"
#include "client/train/asynchronous.h"
#include "client/train/descent.h"
#include "common/base/trace.h"

namespace tern::client {

namespace {

class EasgdAsync : public Asynchronous {
 public:
  explicit EasgdAsync(const Context& context)
      : Asynchronous(context),
        tau_(context_.setup.job.train().easgd_async().tau()),
        alpha_(static_cast<float>(context_.setup.job.train().easgd_async().alpha())),
        descent_(context_.setup, context_.replica, context_.schedule),
        elastic_terms_(context_.setup.table.total) {}

  bool keeps_point() const override { return true; }
  void AddState(SavedState* state) override {
    state->numbers.push_back({"local.steps", &steps_done_});
  }
  // Exchange k is in step k tau + 1, and the next one in step (k + 1) tau + 1. If the point was
  // loaded from a checkpoint between the two, its next step is the first.
  uint64_t first_step() const override {
    const uint64_t after_exchanges = Asynchronous::first_step();
    const uint64_t first = after_exchanges == 1 ? 1 : after_exchanges + 1;
    const uint64_t next = steps_done_ + 1;
    return next >= first && next <= after_exchanges + tau_ ? next : first;
  }

  Status Step(uint64_t step) override {
    const uint64_t t = step - 1;
    const bool exchanges_now = t > 0 && t % tau_ == 0;
    if (exchanges_now)
      PushAll(clock() + 1,
              context_.replica.point());  // The exchange overlaps with the gradient's computation.
    if (context_.gradient.has_samples()) {
      TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward());
    }
    if (exchanges_now) {
      TERN_RETURN_IF_ERROR(AwaitExchange());
      const TraceSpan span("decode, update", {.round = clock()});
      TERN_RETURN_IF_ERROR(InstallWeights(context_.replica.parameters()));
      const float* x = context_.replica.point();
      const float* centre = context_.replica.parameters();
      for (size_t i = 0; i < elastic_terms_.size(); ++i)
        elastic_terms_[i] = alpha_ * (x[i] - centre[i]);
    }
    const TraceSpan span("update");
    if (context_.gradient.has_samples()) descent_.MovePoint(step);
    float* x = context_.replica.point();
    for (size_t i = 0; exchanges_now && i < elastic_terms_.size(); ++i) x[i] -= elastic_terms_[i];
    steps_done_ = step;
    return Ok();
  }

 private:
  const uint64_t tau_;
  const float alpha_;
  Descent descent_;
  std::vector<float> elastic_terms_;  // alpha (x - c), by element
  uint64_t steps_done_ = 0;           // the steps that the point has made
};

}  // namespace

std::unique_ptr<Algorithm> MakeEasgdAsync(const Context& context) {
  return std::make_unique<EasgdAsync>(context);
}

}  // namespace tern::client

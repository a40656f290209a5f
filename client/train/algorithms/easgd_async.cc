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
    return Ok();
  }

 private:
  const uint64_t tau_;
  const float alpha_;
  Descent descent_;
  std::vector<float> elastic_terms_;  // alpha (x - c), by element
};

}  // namespace

std::unique_ptr<Algorithm> MakeEasgdAsync(const Context& context) {
  return std::make_unique<EasgdAsync>(context);
}

}  // namespace tern::client

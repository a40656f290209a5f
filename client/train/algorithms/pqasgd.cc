// PQASGD, Algorithm 2: local steps. After every p-th step, and after the last, the workers add to
// the common weights the mean of their quantized changes since the last synchronization. x_{j,i}
// are worker i's weights, x_j the common weights, g is the gradient, gamma the learning rate, Q the
// codec and n the number of workers. In iteration j, from 0 (if p does not divide j + 1, only the
// first line):
//
//   x_{j+1,i} = x_{j,i} - gamma g(x_{j,i})
//   G_i       = x_{j+1,i} - x_{j+1-p}
//   Delta_i   = Q(G_i)
//   x_{j+1}   = x_{j+1-p} + 1/n sum_k Delta_k
//
// With the job's key pqasgd.outer, the last line is a step of an outer optimizer (outer_step.h).
#include "client/train/algorithms.h"
#include "client/train/local_steps.h"
#include "client/train/outer_step.h"
#include "common/base/trace.h"

namespace tern::client {

namespace {

class Pqasgd : public LocalSteps {
 public:
  explicit Pqasgd(const Context& context)
      : LocalSteps(context),
        at_sync_(context_.setup.job.train().pqasgd().at_sync()),
        outer_step_(context_.setup, context_.replica),
        changes_(num_parameters_) {}

  Status Step(uint64_t step) override {
    const uint64_t round = RoundOf(step);
    // Answers before this worker's push mean that the worker is late: the round closed without it.
    if (!context_.sums.HasAnswers(round)) {
      TERN_RETURN_IF_ERROR(Descend(step));
      if (!EndsRound(step)) return Ok();
      ComputeChanges();
      PushAll(round, changes_.data());
      TERN_RETURN_IF_ERROR(AwaitSums(round));
    } else if (!EndsRound(step)) {
      return Ok();
    }
    return Synchronize(round);
  }

 private:
  void ComputeChanges() {
    const TraceSpan span("update");
    const float* x = context_.replica.point();
    const float* common_weights = context_.replica.parameters();
    for (size_t i = 0; i < num_parameters_; ++i) changes_[i] = x[i] - common_weights[i];
  }
  Status Synchronize(uint64_t round) {
    TimeScope decode_scope(context_.progress.decode_time);
    const TraceSpan span("decode, update", {.round = round});
    TERN_RETURN_IF_ERROR(
        context_.sums.Decode(round, [&](uint32_t, uint64_t first, std::span<const float> mean) {
          outer_step_.AddChange(round, first, mean);
          context_.replica.UpdateMovingAverage(first, mean.size(), round);
        }));
    std::copy_n(context_.replica.parameters(), num_parameters_, context_.replica.point());
    if (at_sync_ == pb::OptimizerState::reset) ResetOptimizer();
    MarkApplied(round);
    return Ok();
  }

  const pb::OptimizerState::AtSync at_sync_;
  OuterStep outer_step_;
  // G_i, the change of this worker's weights since the last synchronization.
  std::vector<float> changes_;
};

}  // namespace

std::unique_ptr<Algorithm> MakePqasgd(const Context& context) {
  return std::make_unique<Pqasgd>(context);
}

}  // namespace tern::client

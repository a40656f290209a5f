// PQASGD, Algorithm 2: local steps. After every p-th step, and after the last, the workers add the
// mean of their quantized changes since the last synchronization. In iteration j, from 0:
//
// (x_{j,i}: worker i's weights; x_j: the common weights; g: gradient; gamma: learning rate; Q: the
// codec; n: number of workers; the last three lines only if p divides j + 1)
//
//   x_{j+1,i} = x_{j,i} - gamma g(x_{j,i})
//   G_i       = x_{j+1,i} - x_{j+1-p}
//   Delta_i   = Q(G_i)
//   x_{j+1}   = x_{j+1-p} + 1/n sum_k Delta_k
#include "client/train/algorithms.h"
#include "client/train/local_steps.h"

namespace tern::client {

namespace {

class Pqasgd : public LocalSteps {
 public:
  explicit Pqasgd(const Context& context)
      : LocalSteps(context), at_sync_(c_.setup.job.train().pqasgd().at_sync()), change_(size_) {}

  Status Step(uint64_t step) override {
    const uint64_t round = RoundOf(step);
    // If this worker is late, the round has closed without it.
    if (!c_.sums.Has(round)) {
      TERN_RETURN_IF_ERROR(Descend(step));
      if (!EndsRound(step)) return Ok();
      const float* x = c_.replica.point();
      const float* before = c_.replica.parameters();
      for (size_t i = 0; i < size_; ++i) change_[i] = x[i] - before[i];
      PushAll(round, change_.data());
      TERN_RETURN_IF_ERROR(AwaitSums(round));
    } else if (!EndsRound(step)) {
      return Ok();
    }
    return Synchronize(round);
  }

 private:
  Status Synchronize(uint64_t round) {
    TimeScope decode(c_.progress.decode);
    TERN_RETURN_IF_ERROR(
        c_.sums.Decode(round, [&](uint32_t, uint64_t first, std::span<const float> mean) {
          float* x = c_.replica.parameters() + first;
          for (size_t i = 0; i < mean.size(); ++i) x[i] += mean[i];
          c_.replica.Average(first, mean.size(), round);
        }));
    std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
    if (at_sync_ == pb::OptimizerState::reset) ResetOptimizer();
    MarkApplied(round);
    return Ok();
  }

  const pb::OptimizerState::AtSync at_sync_;
  // G_i, the change of this worker's weights since the last synchronization.
  std::vector<float> change_;
};

}  // namespace

std::unique_ptr<Algorithm> MakePqasgd(const Context& context) {
  return std::make_unique<Pqasgd>(context);
}

}  // namespace tern::client

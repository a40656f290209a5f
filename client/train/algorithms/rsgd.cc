// RSGD (PQASGD paper, section 5): local steps. After each step, the workers average one of the p
// parts of the model. x_{j,i} are worker i's weights, g is its gradient, gamma the learning rate, W
// the weights on which the workers agree. In iteration j, from 0:
//
//   x_{j+1,i} = x_{j,i} - gamma g(x_{j,i})
//   part (j mod p) of x_{j+1,i} becomes its mean over the workers
//
// With the job's key rsgd.order: random, the part is drawn anew in each iteration, by a function of
// seed and step, so that all workers average the same one.
//
// Part k is bucket k of the exchange plan. Step s exchanges its part in round 2 s. Before an
// evaluation all parts are exchanged once, in round 2 s + 1 after step s, so that W is the mean of
// all workers; x does not change.
#include "client/train/algorithms.h"
#include "client/train/local_steps.h"
#include "common/base/trace.h"
#include "kernels/codes/philox.h"

namespace tern::client {

namespace {

class Rsgd : public LocalSteps {
 public:
  explicit Rsgd(const Context& context)
      : LocalSteps(context),
        num_parts_(facts_.num_parts),
        is_random_(context_.setup.job.train().rsgd().order() == pb::Rsgd::random),
        num_averages_(num_parts_) {}

  // Each worker has its own weights (the point); a joining worker starts with a copy of this one's,
  // without the half of a step in which this one waits: the joining worker makes the whole step.
  Bytes SaveState() override {
    return context_.state.SaveWeights(
        applied_, is_in_step_ ? point_before_step_.data() : context_.replica.point());
  }

  Status Step(uint64_t step) override {
    const uint32_t part = PartOf(step);
    const uint64_t round = RoundOf(step);
    // Answers before this worker's push mean that the worker is late: the round closed without it.
    if (!context_.sums.HasAnswers(round, part)) {
      KeepPoint(round);
      TERN_RETURN_IF_ERROR(Descend(step));
      context_.coder.Push(round, part, context_.replica.point());
      TERN_RETURN_IF_ERROR(
          context_.wait_until([&] { return context_.sums.HasAnswers(round, part); }));
    }
    const TraceSpan span("decode, update", {.round = round, .bucket = static_cast<int32_t>(part)});
    CountAverages(step);
    TERN_RETURN_IF_ERROR(context_.sums.Decode(
        round, part, [&](uint32_t, uint64_t first, std::span<const float> mean) {
          std::copy(mean.begin(), mean.end(), context_.replica.point() + first);
          std::copy(mean.begin(), mean.end(), context_.replica.parameters() + first);
          context_.replica.UpdateMovingAverage(first, mean.size(), num_averages_[part]);
        }));
    is_in_step_ = false;
    MarkApplied(round);
    return Ok();
  }

  Status Quiesce() override { return Ok(); }  // Each step waits for its own part.

  Status Drain() override {
    const uint64_t round = applied_ + 1;
    if (round % 2 == 0) return Ok();  // All parts were exchanged after the last step.
    if (!context_.sums.HasAnswers(round)) PushAll(round, context_.replica.point());
    TERN_RETURN_IF_ERROR(AwaitSums(round));
    TERN_RETURN_IF_ERROR(
        context_.sums.Decode(round, [this](uint32_t, uint64_t first, std::span<const float> mean) {
          std::copy(mean.begin(), mean.end(), context_.replica.parameters() + first);
        }));
    MarkApplied(round);
    return Ok();
  }

 private:
  // Keeps the point as it is between two steps, for SaveState.
  void KeepPoint(uint64_t round) {
    const TraceSpan span("keep weights", {.round = round});
    const float* point = context_.replica.point();
    point_before_step_.assign(point, point + num_parameters_);
    is_in_step_ = true;
  }
  // The part that a step averages. A draw of 32 bits is uniform but for a share of at most
  // num_parts_ / 2^32.
  uint32_t PartOf(uint64_t step) const {
    if (!is_random_) return static_cast<uint32_t>((step - 1) % num_parts_);
    const kernels::NoiseKey key{
        .seed = context_.setup.job.seed(), .stream = kernels::NoiseStream::kParts, .round = step};
    return static_cast<uint32_t>(kernels::Draw32(key, 0) * num_parts_ >> 32);
  }
  // Makes num_averages_ that of the steps up to `step`.
  void CountAverages(uint64_t step) {
    while (num_counted_steps_ < step) ++num_averages_[PartOf(++num_counted_steps_)];
  }

  const uint64_t num_parts_;
  const bool is_random_;
  std::vector<uint64_t> num_averages_;  // by part: how often it was averaged, since the first step
  uint64_t num_counted_steps_ = 0;
  bool is_in_step_ = false;  // whether the point has moved since round applied_
  std::vector<float> point_before_step_;
};

}  // namespace

std::unique_ptr<Algorithm> MakeRsgd(const Context& context) {
  return std::make_unique<Rsgd>(context);
}

}  // namespace tern::client

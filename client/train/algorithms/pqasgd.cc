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
//
// With pqasgd.fragments: K above 1, the workers synchronize one of K fragments of the model at a
// time (Streaming DiLoCo, arXiv 2501.18512, algorithm 2; docs/ALGORITHMS.md, section 10). Interval
// j, from 1, are h = p / K steps; f = (j - 1) mod K is its fragment, which is bucket f of the
// exchange plan. W are the common weights, alpha is pqasgd.mixing. At the end of the interval, in
// the elements of fragment f:
//
//   Delta_i = Q(x_i - W)                   pushed in round 2 j
//   W       = W + 1/n sum_k Delta_k        or a step of the outer optimizer
//   x_i     = W + alpha (x_i - W)
//
// With pqasgd.overlap, the last two lines wait for the end of interval j + 1, so that the worker
// computes while the exchange is in progress. Without, they follow at once, with alpha = 0. After
// the job's last step, round 2 j + 1 exchanges what the workers still have, where j is the last
// whole interval: all fragments, but not that of interval j if no step came after it.
#include <algorithm>

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
          std::copy_n(context_.replica.parameters() + first, mean.size(),
                      context_.replica.point() + first);
        }));
    if (at_sync_ == pb::OptimizerState::reset) ResetOptimizer();
    MarkApplied(round);
    return Ok();
  }

  const pb::OptimizerState::AtSync at_sync_;
  OuterStep outer_step_;
  // G_i, the change of this worker's weights since the last synchronization.
  std::vector<float> changes_;
};

class FragmentedPqasgd : public LocalSteps {
 public:
  explicit FragmentedPqasgd(const Context& context)
      : LocalSteps(context),
        settings_(context_.setup.job.train().pqasgd()),
        num_fragments_(facts_.num_parts),
        overlaps_(facts_.exchanges_ahead != 0),
        mixing_(overlaps_ ? static_cast<float>(MixingOf(settings_)) : 0),
        outer_step_(context_.setup, context_.replica),
        changes_(num_parameters_) {}

  Status Begin(uint64_t applied) override {
    TERN_RETURN_IF_ERROR(LocalSteps::Begin(applied));
    last_pushed_ = applied;
    return Ok();
  }

  Status Step(uint64_t step) override {
    const uint64_t round = RoundOf(step);
    // Answers before this worker's push mean that the worker is late: the round closed without it.
    const bool is_late = context_.sums.HasAnswers(round, FragmentOf(round));
    if (!is_late) TERN_RETURN_IF_ERROR(Descend(step));
    if (!EndsRound(step)) return Ok();
    if (overlaps_) TERN_RETURN_IF_ERROR(TakeFragment(last_pushed_));
    if (!is_late) Push(round, FragmentOf(round));
    last_pushed_ = round;
    return overlaps_ ? Ok() : TakeFragment(round);
  }

  // Does not change the point, so an evaluation does not affect the next step.
  Status Drain() override { return ApplyUpTo(last_pushed_); }

  Status DrainAtEnd(uint64_t last_step) override {
    // This worker came back so late that it got the State after the last round.
    if (applied_ % 2 != 0) return Ok();
    const bool has_moved_since = last_step != StepOfRound(last_pushed_);
    TERN_RETURN_IF_ERROR(overlaps_ && has_moved_since ? TakeFragment(last_pushed_) : Drain());
    const uint64_t round = last_pushed_ + 1;
    std::vector<uint32_t> fragments;
    for (uint32_t f = 0; f < num_fragments_; ++f) {
      if (has_moved_since || f != FragmentOf(last_pushed_)) fragments.push_back(f);
    }
    for (const uint32_t f : fragments) {
      if (!context_.sums.HasAnswers(round, f)) Push(round, f);
    }
    return Apply(round, fragments);
  }
  uint64_t last_pushed_round() const override { return last_pushed_; }
  // An odd round is the last: no step follows it, even if the job ends within an interval.
  uint64_t first_step() const override {
    const bool is_at_end = applied_ % 2 != 0 && StepOfRound(applied_ + 1) > context_.steps;
    return is_at_end ? context_.steps + 1 : LocalSteps::first_step();
  }

 private:
  static double MixingOf(const pb::Pqasgd& settings) {
    return settings.has_mixing() ? settings.mixing() : 0.5;
  }

  // The fragment that an even round exchanges.
  uint32_t FragmentOf(uint64_t round) const {
    return static_cast<uint32_t>((round / 2 + num_fragments_ - 1) % num_fragments_);
  }
  const protocol::Bucket& RangeOf(uint32_t fragment) const {
    return context_.setup.plan.buckets[fragment];
  }
  // How many of the rounds up to `round` have exchanged the fragment.
  uint64_t CountExchanges(uint32_t fragment, uint64_t round) const {
    return (round / 2 + num_fragments_ - 1 - fragment) / num_fragments_ + round % 2;
  }

  void Push(uint64_t round, uint32_t fragment) {
    const TraceSpan span("update");
    const float* x = context_.replica.point();
    const float* w = context_.replica.parameters();
    const protocol::Bucket& range = RangeOf(fragment);
    for (uint64_t i = range.begin; i < range.begin + range.count; ++i) changes_[i] = x[i] - w[i];
    context_.coder.Push(round, fragment, changes_.data());
  }

  // Waits for the answers of a round, which exchanges these fragments, and applies them to W. While
  // it waits, W is that of the round before in all fragments.
  Status Apply(uint64_t round, const std::vector<uint32_t>& fragments) {
    TERN_RETURN_IF_ERROR(context_.wait_until([&] {
      return std::all_of(fragments.begin(), fragments.end(), [&](uint32_t fragment) {
        return context_.sums.HasAnswers(round, fragment);
      });
    }));
    TimeScope decode_scope(context_.progress.decode_time);
    for (const uint32_t f : fragments) TERN_RETURN_IF_ERROR(AddMeanChange(round, f));
    MarkApplied(round);
    return Ok();
  }
  Status AddMeanChange(uint64_t round, uint32_t fragment) {
    const TraceSpan span("decode, update",
                         {.round = round, .bucket = static_cast<int32_t>(fragment)});
    const uint64_t num_exchanges = CountExchanges(fragment, round);
    return context_.sums.Decode(
        round, fragment, [&](uint32_t, uint64_t first, std::span<const float> mean) {
          outer_step_.AddChange(num_exchanges, first, mean);
          context_.replica.UpdateMovingAverage(first, mean.size(), num_exchanges);
        });
  }
  Status ApplyUpTo(uint64_t round) {
    while (applied_ < round) {
      const uint64_t next = applied_ + 2;
      TERN_RETURN_IF_ERROR(Apply(next, {FragmentOf(next)}));
    }
    return Ok();
  }

  // Waits for the answers of an even round, and moves the point in its fragment towards W.
  Status TakeFragment(uint64_t round) {
    if (round == 0) return Ok();
    TERN_RETURN_IF_ERROR(ApplyUpTo(round));
    const TraceSpan span("update");
    float* x = context_.replica.point();
    const float* w = context_.replica.parameters();
    const protocol::Bucket& range = RangeOf(FragmentOf(round));
    for (uint64_t i = range.begin; i < range.begin + range.count; ++i)
      x[i] = w[i] + mixing_ * (x[i] - w[i]);
    if (settings_.at_sync() == pb::OptimizerState::reset) ResetOptimizer(range.begin, range.count);
    return Ok();
  }

  const pb::Pqasgd& settings_;
  const uint32_t num_fragments_;  // K
  const bool overlaps_;
  const float mixing_;  // alpha
  OuterStep outer_step_;
  std::vector<float> changes_;  // x_i - W, in the fragments as they were last pushed
  uint64_t last_pushed_ = 0;
};

}  // namespace

std::unique_ptr<Algorithm> MakePqasgd(const Context& context) {
  if (algorithm::FactsOf(context.setup.job).num_parts != 0)
    return std::make_unique<FragmentedPqasgd>(context);
  return std::make_unique<Pqasgd>(context);
}

}  // namespace tern::client

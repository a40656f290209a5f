// Tests that every algorithm without rounds follows its equations in double precision. In most
// tests, four workers make 60 pushes in a fixed random order; each push is the gradient at the
// weights that its worker received last.
#include "server/rules/clock_rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

constexpr uint32_t kNumWorkers = 4;
constexpr int kNumPushes = 60;
constexpr double kDecay = 0.02;

using Values = std::vector<double>;

// The equations of one algorithm for servers and workers. w are the servers' weights,
// received_weights[rank] those that worker `rank` received last.
class Reference {
 public:
  Reference(const setup::Setup& job)
      : w(ToDoubles(InitialWeights(job))),
        received_weights(kNumWorkers, w),
        received_at(kNumWorkers, 0) {
    for (const models::Parameter& p : job.table.parameters)
      weight_decay.insert(weight_decay.end(), p.count, p.is_bias ? 0 : kDecay);
  }
  virtual ~Reference() = default;

  // Applies the gradient g that worker `rank` computed at received_weights[rank]. The worker then
  // receives new weights.
  void Push(uint32_t rank, const Values& g) {
    received_weights[rank] = ApplyPush(rank, g);
    received_at[rank] = num_changes;
    ++num_pushes;
  }

  Values w;
  std::vector<Values> received_weights;
  uint64_t num_pushes = 0;

 protected:
  // Updates w, and returns the weights that the worker receives.
  virtual Values ApplyPush(uint32_t rank, const Values& g) = 0;

  // Returns the learning rate: 0.1 * 0.8 ^ floor(step / 5), where a step is kNumWorkers pushes.
  double LearningRate() const {
    const uint64_t step = num_pushes / kNumWorkers;
    return 0.1 * std::pow(0.8, static_cast<double>(step / 5));
  }
  // Makes a step of plain SGD with weight decay.
  void MakeSgdStep(const Values& g, double rate) {
    for (size_t k = 0; k < w.size(); ++k) w[k] -= rate * (g[k] + weight_decay[k] * w[k]);
    ++num_changes;
  }

  Values weight_decay;
  // By rank: `num_changes` when the worker received its weights.
  std::vector<uint64_t> received_at;
  uint64_t num_changes = 0;  // How often w has changed.
};

class AsgdReference : public Reference {
 public:
  using Reference::Reference;
  Values ApplyPush(uint32_t, const Values& g) override {
    MakeSgdStep(g, LearningRate());
    return w;
  }
};

// SGD with momentum 0.5: v = 0.5 v + g, w -= rate v.
class MomentumReference : public Reference {
 public:
  using Reference::Reference;
  Values ApplyPush(uint32_t, const Values& g) override {
    v.resize(w.size());
    for (size_t k = 0; k < w.size(); ++k) {
      v[k] = 0.5 * v[k] + g[k] + weight_decay[k] * w[k];
      w[k] -= LearningRate() * v[k];
    }
    return w;
  }
  Values v;
};

// DC-ASGD (OD-SGD paper, equations 4 to 6). received_weights[rank] is w_bak of the equations.
// `is_adaptive`: lambda is divided by the root of the mean square of the gradients; `is_global`:
// one mean square for all workers.
class DcasgdReference : public Reference {
 public:
  DcasgdReference(const setup::Setup& job, bool is_adaptive, bool is_global)
      : Reference(job),
        is_adaptive(is_adaptive),
        is_global(is_global),
        mean_squares(kNumWorkers, Values(w.size())) {}
  Values ApplyPush(uint32_t rank, const Values& g) override {
    Values compensated_gradient = g;
    Values& mean_square = mean_squares[is_global ? 0 : rank];
    for (size_t k = 0; k < w.size(); ++k) {
      double lambda = 0.9;
      if (is_adaptive) {
        mean_square[k] = 0.8 * mean_square[k] + (1 - 0.8) * g[k] * g[k];
        lambda /= std::sqrt(mean_square[k] + 1e-7);
      }
      compensated_gradient[k] += lambda * g[k] * g[k] * (w[k] - received_weights[rank][k]);
    }
    MakeSgdStep(compensated_gradient, LearningRate());
    return w;
  }
  const bool is_adaptive, is_global;
  std::vector<Values> mean_squares;
};

class SspReference : public Reference {
 public:
  using Reference::Reference;
  Values ApplyPush(uint32_t, const Values& g) override {
    MakeSgdStep(g, LearningRate() / kNumWorkers);
    return w;
  }
};

// n-softsync with N workers: a step with the mean of c = floor(N / n) gradients, each divided by
// max(1, staleness). The staleness counts the changes of w since the worker received its weights.
class SoftsyncReference : public Reference {
 public:
  using Reference::Reference;
  Values ApplyPush(uint32_t rank, const Values& g) override {
    const uint64_t c = kNumWorkers / 2;
    gradient_sum.resize(w.size());
    const auto staleness =
        static_cast<double>(std::max<uint64_t>(1, num_changes - received_at[rank]));
    for (size_t k = 0; k < w.size(); ++k) gradient_sum[k] += g[k] / staleness;
    if (++num_summed == c) {
      for (double& value : gradient_sum) value /= static_cast<double>(c);
      MakeSgdStep(gradient_sum, LearningRate());
      num_summed = 0;
      gradient_sum.clear();
    }
    return w;
  }
  Values gradient_sum;
  uint64_t num_summed = 0;
};

struct RuleCase {
  const char* name;
  std::vector<std::string> overrides;
  std::function<std::unique_ptr<Reference>(const setup::Setup&)> make_reference;
};

template <typename R>
std::unique_ptr<Reference> MakeReference(const setup::Setup& job) {
  return std::make_unique<R>(job);
}

const RuleCase kRuleCases[] = {
    {"asgd", {"train.algorithm=asgd"}, MakeReference<AsgdReference>},
    {"asgd_momentum",
     {"train.algorithm=asgd", "train.optimizer.name=momentum", "train.optimizer.momentum=0.5"},
     MakeReference<MomentumReference>},
    {"dcasgd_c",
     {"train.algorithm=dcasgd_c", "train.dcasgd_c.lambda=0.9"},
     [](const setup::Setup& job) { return std::make_unique<DcasgdReference>(job, false, false); }},
    {"dcasgd_a",
     {"train.algorithm=dcasgd_a", "train.dcasgd_a.lambda=0.9", "train.dcasgd_a.rho=0.8"},
     [](const setup::Setup& job) { return std::make_unique<DcasgdReference>(job, true, false); }},
    {"dcasgd_a_global",
     {"train.algorithm=dcasgd_a", "train.dcasgd_a.lambda=0.9", "train.dcasgd_a.rho=0.8",
      "train.dcasgd_a.mean_square_scope=global"},
     [](const setup::Setup& job) { return std::make_unique<DcasgdReference>(job, true, true); }},
    {"ssp_unbounded",
     {"train.algorithm=ssp", "train.ssp.staleness=1000", "train.ssp.push_weight=one_over_workers"},
     MakeReference<SspReference>},
    {"softsync",
     {"train.algorithm=softsync", "train.softsync.n=2"},
     MakeReference<SoftsyncReference>},
};

class ClockRules : public testing::TestWithParam<RuleCase> {};

TEST_P(ClockRules, FollowItsEquations) {
  std::vector<std::string> overrides = GetParam().overrides;
  overrides.insert(overrides.end(),
                   {"train.weight_decay.rate=0.02", "train.weight_decay.where=local"});
  const auto job = MakeCentralJob(overrides);
  ClockDrill drill(*job);
  const auto reference = GetParam().make_reference(*job);
  RandomRanks order(3);
  for (int push = 0; push < kNumPushes; ++push) {
    const uint32_t rank = order.Next(kNumWorkers);
    const uint64_t step = drill.clock(rank) + 1;
    drill.Push(rank, GradientAt(rank, step, drill.weights_of(rank)));
    reference->Push(rank, GradientAt(rank, step, reference->received_weights[rank]));
    ASSERT_LT(RelativeDistance(drill.weights_of(rank), reference->w), 1e-5) << "push " << push;
  }
  // The weights must have changed much; otherwise the comparisons above would show little.
  EXPECT_GT(RelativeDistance(InitialWeights(*job), reference->w), 0.3);
}

INSTANTIATE_TEST_SUITE_P(All, ClockRules, testing::ValuesIn(kRuleCases),
                         [](const auto& info) { return std::string(info.param.name); });

// With SSP (stale synchronous parallel), a worker waits if its clock is more than 1 ahead of the
// smallest clock.
TEST(ClockRulesWithWaiting, AnswerAWaitingWorkerWithTheWeightsOfThatTime) {
  const auto job = MakeCentralJob({"train.algorithm=ssp", "train.ssp.staleness=1"});
  ClockDrill drill(*job);
  Values w = ToDoubles(InitialWeights(*job));
  std::vector<Values> received_weights(kNumWorkers, w);
  std::vector<uint64_t> clocks(kNumWorkers);
  std::vector<bool> is_waiting(kNumWorkers);
  RandomRanks order(11);
  int num_waits = 0;
  for (int push = 0; push < kNumPushes; ++push) {
    uint32_t rank = order.Next(kNumWorkers);
    while (is_waiting[rank]) rank = (rank + 1) % kNumWorkers;
    const Values g = GradientAt(rank, ++clocks[rank], received_weights[rank]);
    drill.Push(rank, GradientAt(rank, clocks[rank], drill.weights_of(rank)));
    const double rate = 0.1 * std::pow(0.8, push / static_cast<int>(kNumWorkers) / 5);
    for (size_t k = 0; k < w.size(); ++k) w[k] -= rate * g[k];
    is_waiting[rank] = true;
    const uint64_t least_clock = *std::min_element(clocks.begin(), clocks.end());
    for (uint32_t each_rank = 0; each_rank < kNumWorkers; ++each_rank) {
      if (is_waiting[each_rank] && clocks[each_rank] <= least_clock + 1) {
        is_waiting[each_rank] = false;
        received_weights[each_rank] = w;
      }
      ASSERT_EQ(drill.is_waiting(each_rank), is_waiting[each_rank]) << "push " << push;
      ASSERT_LT(RelativeDistance(drill.weights_of(each_rank), received_weights[each_rank]), 1e-5)
          << "push " << push;
    }
    num_waits += is_waiting[rank];
  }
  EXPECT_GT(num_waits, 5);
}

// Asynchronous elastic averaging: at each push, the worker and the central weights move towards
// each other by alpha times their difference before the push.
TEST(ClockRulesWithElasticity, MoveBothSidesByTheOldDifference) {
  const auto job = MakeCentralJob(
      {"train.algorithm=easgd_async", "train.easgd_async.alpha=0.2", "train.easgd_async.tau=2"});
  ClockDrill drill(*job);
  Values centre = ToDoubles(InitialWeights(*job));
  std::vector<std::vector<float>> x(kNumWorkers, InitialWeights(*job));
  std::vector<Values> exact_x(kNumWorkers, centre);
  RandomRanks order(5);
  for (int push = 0; push < kNumPushes; ++push) {
    const uint32_t rank = order.Next(kNumWorkers);
    for (int step = 0; step < 2; ++step) {  // tau = 2 local steps.
      const std::vector<float> g = GradientAt(rank, drill.clock(rank), x[rank]);
      const Values exact_gradient = GradientAt(rank, drill.clock(rank), exact_x[rank]);
      for (size_t k = 0; k < centre.size(); ++k) {
        x[rank][k] -= 0.1f * g[k];
        exact_x[rank][k] -= 0.1 * exact_gradient[k];
      }
    }
    drill.Push(rank, x[rank]);
    for (size_t k = 0; k < centre.size(); ++k) {
      x[rank][k] -= 0.2f * (x[rank][k] - drill.weights_of(rank)[k]);
      const double difference = exact_x[rank][k] - centre[k];
      exact_x[rank][k] -= 0.2 * difference;
      centre[k] += 0.2 * difference;
    }
    ASSERT_LT(RelativeDistance(x[rank], exact_x[rank]), 1e-5) << "push " << push;
  }
  drill.Rejoin(0);  // Worker 0 pulls the current central weights.
  EXPECT_LT(RelativeDistance(drill.weights_of(0), centre), 1e-5);
}

// The weights of the first chunk after a push of worker 1, and then one of worker 0 that was
// computed at version `base`.
std::vector<float> WeightsAfterTwoPushes(const std::string& algorithm, uint64_t base) {
  const auto job = MakeCentralJob({"train.algorithm=" + algorithm});
  const protocol::Chunk& chunk = *ChunksOf(*job)[0];
  const std::vector<float> w = InitialWeights(*job);
  auto rule = MakeClockRule(*job, chunk, w, RateOf(*job));
  EXPECT_TRUE(rule.ok()) << rule.status().message();
  for (const uint32_t rank : {1, 0}) {
    const Bytes push = EncodePush(*job, chunk, GradientAt(rank, 1, w), rank, 1);
    EXPECT_TRUE((*rule)->Push(rank, rank == 1 ? 0 : base, push).ok());
  }
  return {(*rule)->weights().begin(), (*rule)->weights().end()};
}

// The server has the weights of a worker's newest answer alone. A push that the worker computed at
// others is applied as it is.
TEST(ClockRulesWithCompensation, LeaveAPushAloneThatWasComputedAtOtherWeights) {
  const std::vector<float> w = WeightsAfterTwoPushes("asgd", 0);
  EXPECT_EQ(WeightsAfterTwoPushes("dcasgd_c", 1), w);
  EXPECT_NE(WeightsAfterTwoPushes("dcasgd_c", 0), w);
}

TEST(ClockRulesAtTheEnd, CountPushesOfManyStepsAsSteps) {
  const auto job =
      MakeCentralJob({"train.algorithm=asgd", "train.asgd.push_every=4", "train.steps=10"});
  ClockDrill drill(*job);  // The job has 10 pushes: 10 steps of 4 workers, 4 steps per push.
  const std::vector<float> zeros(job->table.total);
  for (int push = 0; push < 9; ++push) drill.Push(0, zeros);
  EXPECT_FALSE(drill.has_stopped(0));
  EXPECT_EQ(drill.central().step(), 9u);
  drill.Push(1, zeros);
  EXPECT_TRUE(drill.has_stopped(1));
}

TEST(ClockRulesWithAverage, SendTheMovingAverageOnRequest) {
  const auto job = MakeCentralJob({"train.algorithm=asgd", "evaluation.ema_decay=0.5"});
  ClockDrill drill(*job);
  Values average = ToDoubles(InitialWeights(*job));
  for (int push = 0; push < 30; ++push) {
    drill.Push(0, GradientAt(0, 1, drill.weights_of(0)));
    const double ema_decay = std::min(0.5, (1.0 + push) / (10.0 + push));
    for (size_t k = 0; k < average.size(); ++k)
      average[k] = ema_decay * average[k] + (1 - ema_decay) * drill.weights_of(0)[k];
  }
  EXPECT_LT(RelativeDistance(drill.PullAverage(1), average), 1e-5);
  EXPECT_GT(RelativeDistance(drill.weights_of(0), average), 1e-3);
}

}  // namespace
}  // namespace tern::server

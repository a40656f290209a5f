// Tests of psgd and pqasgd with an outer optimizer. A reference makes the local steps and the outer
// steps in double precision, as algorithm 1 of DiLoCo says. The weights at which each worker
// computes gradients, and the common weights after each round, must be close to those of the
// reference. quantized_traces_test.cc tests outer optimizers of quantized changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

constexpr uint64_t kPeriod = 4;  // does not divide kSteps, so the last round is shorter

std::unique_ptr<setup::Setup> MakeOuterJob(const std::string& algorithm,
                                           std::vector<std::string> settings) {
  settings.push_back("train." + algorithm + ".p=" + std::to_string(kPeriod));
  return MakeJob(algorithm, settings);
}

// Both algorithms have the same equations, as long as what they push is not quantized.
// `resets_momentum`: whether each synchronization resets the momentum of the local steps.
void CheckOuterSteps(const setup::Setup& job, OuterReference outer, bool resets_momentum) {
  const auto traces = RunCluster(job, {kSteps});
  Vector w = InitialWeights(job);
  std::vector<Vector> x(kWorkers, w), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ASSERT_LT(RelativeDistance(traces[i].points[s - 1], x[i]), kTolerance) << "step " << s;
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % kPeriod != 0 && s != kSteps) continue;
    Vector mean_change = MeanOf(x);
    for (size_t k = 0; k < w.size(); ++k) mean_change[k] -= w[k];
    outer.AddChange(mean_change, &w);
    std::fill(x.begin(), x.end(), w);
    if (resets_momentum) std::fill(v.begin(), v.end(), Vector());
    const uint64_t round = (s + kPeriod - 1) / kPeriod;
    for (const Trace& trace : traces) {
      ASSERT_LT(RelativeDistance(trace.weights_after_round.at(round), w), kTolerance)
          << "round " << round;
      EXPECT_EQ(trace.weights_after_round.at(round), traces[0].weights_after_round.at(round))
          << "replicas differ";
    }
  }
}

TEST(OuterOptimizer, TakesMinusTheMeanChangeForItsGradient) {
  for (const std::string algorithm : {"psgd", "pqasgd"}) {
    for (const OuterCase& c : OuterCases(algorithm)) {
      SCOPED_TRACE(algorithm + " with " + c.name);
      CheckOuterSteps(*MakeOuterJob(algorithm, c.settings), c.reference, false);
    }
  }
}

TEST(OuterOptimizer, KeepsItsMomentumWhenLocalStepsLoseTheirs) {
  for (const std::string algorithm : {"psgd", "pqasgd"}) {
    SCOPED_TRACE(algorithm);
    const OuterCase c = OuterCases(algorithm).back();
    auto settings = c.settings;
    settings.push_back("train." + algorithm + ".at_sync=reset");
    CheckOuterSteps(*MakeOuterJob(algorithm, settings), c.reference, true);
  }
}

TEST(OuterOptimizer, OfRateOneWithoutMomentumChangesNoBitOfPqasgd) {
  const std::vector<std::string> ternary = {"exchange.codec=ternary", "evaluation.ema_decay=0.9"};
  auto settings = ternary;
  settings.insert(settings.end(),
                  {"train.pqasgd.outer.name=sgd", "train.pqasgd.outer.learning_rate=1"});
  const auto with = RunCluster(*MakeOuterJob("pqasgd", settings), {kSteps});
  const auto without = RunCluster(*MakeOuterJob("pqasgd", ternary), {kSteps});
  EXPECT_EQ(with[0].weights_after_round, without[0].weights_after_round);
  EXPECT_EQ(with[0].points, without[0].points);
  EXPECT_EQ(with[0].average_weights, without[0].average_weights);
}

// One worker, p = 1 and plain SGD: an outer step is then a step with lr g in place of g.
TEST(OuterOptimizer, OfEachStepOfOneWorkerIsThatOptimizer) {
  const auto traces =
      RunCluster(*MakeJob("psgd",
                          {"train.psgd.p=1", "train.optimizer.name=sgd",
                           "train.psgd.outer.name=momentum", "train.psgd.outer.learning_rate=1"},
                          1),
                 {kSteps});
  const auto momentum_traces = RunCluster(*MakeJob("ssgd", {}, 1), {kSteps});
  for (uint64_t t = 1; t <= kSteps; ++t) {
    const std::vector<float>& expected = momentum_traces[0].weights_after_round.at(t);
    EXPECT_LT(RelativeDistance(traces[0].weights_after_round.at(t),
                               Vector(expected.begin(), expected.end())),
              kTolerance)
        << t;
  }
}

TEST(OuterOptimizer, OfTernaryChangesIsTheSameOnAllWorkers) {
  const auto traces = RunCluster(
      *MakeOuterJob("pqasgd", {"exchange.codec=ternary", "train.pqasgd.outer.name=nesterov"}),
      {kSteps});
  ASSERT_EQ(traces[0].weights_after_round.size(), (kSteps + kPeriod - 1) / kPeriod);
  for (const Trace& trace : traces)
    EXPECT_EQ(trace.weights_after_round, traces[0].weights_after_round);
}

}  // namespace
}  // namespace tern::client

// Tests of algorithms with rounds. A reference computes the equations of the algorithm's paper in
// double precision. The weights at which each worker computes gradients, and W (the weights that
// the workers agree on after each round), must be close to those of the reference. In a reference,
// x[i] are the weights of worker i, v is momentum, and s (in the tests of Ssgd, t) counts steps
// from 1.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

// Expects that the worker computed its gradient of `step` at the weights `expected`.
void ExpectPoint(const Trace& trace, uint64_t step, const Vector& expected) {
  ASSERT_GE(trace.points.size(), step);
  EXPECT_LT(RelativeDistance(trace.points[step - 1], expected), kTolerance) << "at step " << step;
}
// Expects that W after `round` is close to `expected`, and that all workers hold the same bits.
void ExpectWeights(const std::vector<Trace>& traces, uint64_t round, const Vector& expected) {
  for (const Trace& trace : traces) {
    ASSERT_TRUE(trace.weights_after_round.count(round)) << round;
    EXPECT_LT(RelativeDistance(trace.weights_after_round.at(round), expected), kTolerance)
        << "round " << round;
    EXPECT_EQ(trace.weights_after_round.at(round), traces[0].weights_after_round.at(round))
        << "replicas differ";
  }
}

TEST(Ssgd, IsMomentumOnTheMeanGradient) {
  const auto job = MakeJob("ssgd", {});
  const auto traces = RunCluster(*job, {kSteps});
  Vector w = InitialWeights(*job), v;
  for (uint64_t t = 1; t <= kSteps; ++t) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], t, w);
      g.push_back(GradientAt(i, t, w));
    }
    MomentumStep(MeanOf(g), kRate, kMomentum, &v, &w);
    ExpectWeights(traces, t, w);
  }
}

// The settings of OD-SGD, algorithm 2 of its paper, for CheckOdsgd.
struct OdsgdReference {
  uint64_t warmup_steps = 5;
  // The local updater makes steps of SGD with momentum, at local_rate. Its gradient is scale * g,
  // where g is the worker's own gradient, with delay compensation of strength lambda.
  double local_rate = 0.03, lambda = 0, local_momentum = 0, scale = 1;
  // Whether the compensation uses the previous global weights instead of the local ones.
  bool uses_previous_global = false;
};

// Compares the job's traces with the reference. W[t] are the global weights after round t, and
// local[i] the local weights (w' in the paper) at which worker i computes its next gradient.
void CheckOdsgd(const setup::Setup& job, const OdsgdReference& ref) {
  const auto traces = RunCluster(job, {kSteps});
  std::vector<Vector> W = {InitialWeights(job)};
  Vector v;
  std::vector<Vector> local(kWorkers, W[0]), local_v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, local[i]);
      g.push_back(GradientAt(i, s, local[i]));
    }
    Vector next_weights = W.back();
    MomentumStep(MeanOf(g), kRate, kMomentum, &v, &next_weights);
    W.push_back(next_weights);
    ExpectWeights(traces, s, W[s]);
    for (uint32_t i = 0; i < kWorkers; ++i) {
      if (s <= ref.warmup_steps) {
        local[i] = W[s];
        continue;
      }
      // The local weights become W[s - 1] plus a local update with the gradient h = scale * g,
      // compensated to h + lambda h h (W[s - 1] - reference).
      const Vector& global_weights = W[s - 1];
      const Vector& reference = ref.uses_previous_global ? W[s >= 2 ? s - 2 : 0] : local[i];
      Vector compensated_gradient = g[i];
      for (size_t k = 0; k < global_weights.size(); ++k) {
        const double scaled_gradient = ref.scale * g[i][k];
        compensated_gradient[k] = scaled_gradient + ref.lambda * scaled_gradient * scaled_gradient *
                                                        (global_weights[k] - reference[k]);
      }
      Vector next_local = global_weights;
      MomentumStep(compensated_gradient, ref.local_rate, ref.local_momentum, &local_v[i],
                   &next_local);
      local[i] = next_local;
    }
  }
}

TEST(Odsgd, FollowsAlgorithm2ThroughBothBoundariesOfItsWarmUp) {
  for (uint64_t warmup_steps : {0, 1, 5}) {
    SCOPED_TRACE(warmup_steps);
    CheckOdsgd(*MakeJob("odsgd", {"train.odsgd.warmup_steps=" + std::to_string(warmup_steps),
                                  "train.odsgd.local.learning_rate=0.03"}),
               {.warmup_steps = warmup_steps});
  }
}

TEST(Odsgd, CompensatesAgainstThePointOfTheGradient) {
  CheckOdsgd(*MakeJob("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                                "train.odsgd.local.learning_rate=0.03",
                                "train.odsgd.local.lambda=2", "train.odsgd.local.momentum=0.5"}),
             {.warmup_steps = 3, .lambda = 2, .local_momentum = 0.5});
}

TEST(Odsgd, CompensatesAgainstThePreviousGlobalWeightsIfAsked) {
  CheckOdsgd(
      *MakeJob("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                         "train.odsgd.local.learning_rate=0.03", "train.odsgd.local.lambda=2",
                         "train.odsgd.local.reference=prev_global"}),
      {.warmup_steps = 3, .lambda = 2, .uses_previous_global = true});
}

TEST(Odsgd, ScalesTheLocalGradientAsTheReleasedCodeIfAsked) {
  CheckOdsgd(
      *MakeJob("odsgd", {"train.odsgd.warmup_steps=2", "train.odsgd.local.learning_rate=0.03",
                         "train.odsgd.local.grad_scale=global_mean"}),
      {.warmup_steps = 2, .scale = 1.0 / kWorkers});
}

TEST(Odsgd, WithoutALocalUpdaterOnlyDelaysGradients) {
  const auto job = MakeJob("odsgd", {"train.odsgd.warmup_steps=4", "train.odsgd.local.name=none"});
  const auto traces = RunCluster(*job, {kSteps});
  for (uint64_t s = 7; s <= kSteps; ++s)
    EXPECT_EQ(traces[0].points[s - 1], traces[0].weights_after_round.at(s - 2)) << s;
}

TEST(Odsgd, OfOneWorkerWithPlainSgdIsSsgdBitForBit) {
  const std::vector<std::string> ssgd_overrides = {"train.optimizer.name=sgd",
                                                   "train.schedule.name=poly"};
  auto odsgd_overrides = ssgd_overrides;
  odsgd_overrides.push_back("train.odsgd.warmup_steps=3");
  const auto ssgd_traces = RunCluster(*MakeJob("ssgd", ssgd_overrides, 1), {kSteps});
  const auto odsgd_traces = RunCluster(*MakeJob("odsgd", odsgd_overrides, 1), {kSteps});
  EXPECT_EQ(ssgd_traces[0].weights_after_round, odsgd_traces[0].weights_after_round);
  EXPECT_EQ(ssgd_traces[0].points, odsgd_traces[0].points);
}

TEST(Psgd, AveragesTheParametersEveryPSteps) {
  const uint64_t p = 4;  // Does not divide kSteps, so the last round is shorter.
  const auto job = MakeJob("psgd", {"train.psgd.p=4"});
  const auto traces = RunCluster(*job, {kSteps});
  std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % p != 0 && s != kSteps) continue;
    const Vector mean = MeanOf(x);
    std::fill(x.begin(), x.end(), mean);
    ExpectWeights(traces, (s + p - 1) / p, mean);
  }
}

TEST(Psgd, ResetsOrAveragesMomentumAtEachSynchronization) {
  for (const std::string at_sync : {"reset", "average"}) {
    SCOPED_TRACE(at_sync);
    const auto job = MakeJob("psgd", {"train.psgd.p=3", "train.psgd.at_sync=" + at_sync});
    const auto traces = RunCluster(*job, {kSteps});
    std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers, Vector(job->table.total));
    for (uint64_t s = 1; s <= kSteps; ++s) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        ExpectPoint(traces[i], s, x[i]);
        MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
      }
      if (s % 3 != 0) continue;
      const Vector mean = MeanOf(x);
      std::fill(x.begin(), x.end(), mean);
      const Vector momentum = at_sync == "average" ? MeanOf(v) : Vector(job->table.total);
      std::fill(v.begin(), v.end(), momentum);
      ExpectWeights(traces, s / 3, mean);
    }
  }
}

TEST(Psgd, IsSsgdIfWorkersAverageAfterEveryStep) {
  const auto ssgd_traces = RunCluster(*MakeJob("ssgd", {}), {kSteps});
  const auto psgd_traces = RunCluster(*MakeJob("psgd", {"train.psgd.p=1"}), {kSteps});
  for (uint64_t t = 1; t <= kSteps; ++t) {
    const Vector expected(ssgd_traces[0].weights_after_round.at(t).begin(),
                          ssgd_traces[0].weights_after_round.at(t).end());
    EXPECT_LT(RelativeDistance(psgd_traces[0].weights_after_round.at(t), expected), 1e-6) << t;
  }
}

TEST(Rsgd, AveragesOneOfPPartsEachStep) {
  const uint64_t p = 4;
  const double decay = 0.5;
  const auto job = MakeJob("rsgd", {"train.rsgd.p=4", "evaluation.ema_decay=0.5"});
  const auto traces = RunCluster(*job, {kSteps});
  const uint64_t n = job->table.total;
  Vector average_weights = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    const uint64_t part = (s - 1) % p;
    const Vector mean = MeanOf(x);
    const double t = static_cast<double>((s - 1) / p);  // How often this part was averaged before.
    const double ema_decay = std::min(decay, (1 + t) / (10 + t));
    for (uint64_t k = part * n / p; k < (part + 1) * n / p; ++k) {
      for (Vector& each : x) each[k] = mean[k];
      average_weights[k] = ema_decay * average_weights[k] + (1 - ema_decay) * mean[k];
    }
  }
  for (const Trace& trace : traces) {
    EXPECT_LT(RelativeDistance(trace.final_weights, MeanOf(x)), kTolerance);
    EXPECT_LT(RelativeDistance(trace.average_weights, average_weights), kTolerance);
  }
}

TEST(Pqasgd, AddsTheMeanChangeEveryPSteps) {
  const auto job = MakeJob("pqasgd", {"train.pqasgd.p=5"});
  const auto traces = RunCluster(*job, {kSteps});
  Vector common_weights = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, common_weights), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % 5 != 0 && s != kSteps) continue;
    std::vector<Vector> changes = x;
    for (Vector& each : changes)
      for (size_t k = 0; k < each.size(); ++k) each[k] -= common_weights[k];
    const Vector mean = MeanOf(changes);
    for (size_t k = 0; k < common_weights.size(); ++k) common_weights[k] += mean[k];
    std::fill(x.begin(), x.end(), common_weights);
    ExpectWeights(traces, (s + 4) / 5, common_weights);
  }
}

TEST(Pqasgd, QuantizedReplicasAgreeBitForBit) {
  const auto job = MakeJob("pqasgd", {"exchange.codec=ternary", "exchange.clip=none"});
  const auto traces = RunCluster(*job, {kSteps});
  ASSERT_EQ(traces[0].weights_after_round.size(), (kSteps + 7) / 8);
  for (const Trace& trace : traces)
    EXPECT_EQ(trace.weights_after_round, traces[0].weights_after_round);
}

TEST(Odsgd, TernaryReplicasAgreeBitForBit) {
  const auto job = MakeJob("odsgd", {"exchange.codec=ternary", "train.odsgd.warmup_steps=3"});
  const auto traces = RunCluster(*job, {kSteps});
  ASSERT_EQ(traces[0].weights_after_round.size(), kSteps);
  for (const Trace& trace : traces)
    EXPECT_EQ(trace.weights_after_round, traces[0].weights_after_round);
}

}  // namespace
}  // namespace tern::client

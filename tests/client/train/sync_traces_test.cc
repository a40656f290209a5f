// Tests of every algorithm with rounds. A reference computes the equations of the algorithm's paper
// in double precision. The weights at which each worker computes gradients, and W (the weights that
// the workers agree on after each round), must be close to it. In the references, x[i] are the
// weights of worker i, v momentum, and s or t counts steps from 1.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/train/replica.h"
#include "tests/client/train/cluster.h"
#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint64_t kSteps = 33;
constexpr double kRate = 0.05, kMomentum = 0.9;
constexpr double kTolerance = 1e-5;

using Vector = std::vector<double>;

std::unique_ptr<setup::Setup> Job(const std::string& algorithm, std::vector<std::string> more,
                                  uint32_t workers = kWorkers) {
  std::vector<std::string> overrides = {
      "workers.count=" + std::to_string(workers),
      "train.batch_total=" + std::to_string(2 * workers),
      "train.algorithm=" + algorithm,
      "exchange.codec=fp32",
      "exchange.chunk_kib=1",
      "exchange.bucket_kib=2",
      "train.schedule.learning_rate=0.05",
      "faults.compare_every_steps=10",
      "output_dir=" + testing::TempDir() + "tern_traces_" + algorithm};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return SmallJob(overrides);
}

Vector InitialWeights(const setup::Setup& job) {
  auto replica = std::move(*Replica::Make(job));
  return {replica->parameters(), replica->parameters() + job.table.total};
}

Vector Gradient(uint32_t rank, uint64_t step, const Vector& w) {
  Vector g(w.size());
  AnalyticGradient(rank, step, w.data(), w.size(), g.data());
  return g;
}

Vector MeanOf(const std::vector<Vector>& vectors) {
  Vector mean(vectors[0].size());
  for (const Vector& each : vectors)
    for (size_t k = 0; k < mean.size(); ++k)
      mean[k] += each[k] / static_cast<double>(vectors.size());
  return mean;
}

// Makes one step of SGD with momentum m: v = m v + g; w -= rate v.
void MomentumStep(const Vector& g, double rate, double m, Vector* v, Vector* w) {
  v->resize(w->size());
  for (size_t k = 0; k < w->size(); ++k) {
    (*v)[k] = m * (*v)[k] + g[k];
    (*w)[k] -= rate * (*v)[k];
  }
}

// Expects that the worker computed its gradient of `step` at the weights `expected`.
void ExpectPoint(const Trace& trace, uint64_t step, const Vector& expected) {
  ASSERT_GE(trace.points.size(), step);
  EXPECT_LT(RelativeDistance(trace.points[step - 1], expected), kTolerance) << "at step " << step;
}
// Expects that W after `round` is close to `expected`, and that all workers hold the same bits.
void ExpectWeights(const std::vector<Trace>& traces, uint64_t round, const Vector& expected) {
  for (const Trace& trace : traces) {
    ASSERT_TRUE(trace.weights.count(round)) << round;
    EXPECT_LT(RelativeDistance(trace.weights.at(round), expected), kTolerance) << "round " << round;
    EXPECT_EQ(trace.weights.at(round), traces[0].weights.at(round)) << "replicas differ";
  }
}

TEST(Ssgd, IsMomentumOnTheMeanGradient) {
  const auto job = Job("ssgd", {});
  const auto traces = RunCluster(*job, {kSteps});
  Vector w = InitialWeights(*job), v;
  for (uint64_t t = 1; t <= kSteps; ++t) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], t, w);
      g.push_back(Gradient(i, t, w));
    }
    MomentumStep(MeanOf(g), kRate, kMomentum, &v, &w);
    ExpectWeights(traces, t, w);
  }
}

// The settings of OD-SGD, algorithm 2 of its paper, for CheckOdsgd.
struct OdsgdReference {
  uint64_t warmup_steps = 5;
  // Of the local updater: SGD with momentum on scale * g, where g is the worker's own gradient.
  double local_rate = 0.03, lambda = 0, local_momentum = 0, scale = 1;
  // Whether the compensation compares with the previous global weights instead of the local ones.
  bool prev_global = false;
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
      g.push_back(Gradient(i, s, local[i]));
    }
    Vector next = W.back();
    MomentumStep(MeanOf(g), kRate, kMomentum, &v, &next);
    W.push_back(next);
    ExpectWeights(traces, s, W[s]);
    for (uint32_t i = 0; i < kWorkers; ++i) {
      if (s <= ref.warmup_steps) {
        local[i] = W[s];
        continue;
      }
      // The local weights become W[s - 1] plus a local update with the compensated gradient
      // g + lambda g g (W[s - 1] - reference).
      const Vector& current = W[s - 1];
      const Vector& reference = ref.prev_global ? W[s >= 2 ? s - 2 : 0] : local[i];
      Vector compensated = g[i];
      for (size_t k = 0; k < current.size(); ++k) {
        const double scaled = ref.scale * g[i][k];
        compensated[k] = scaled + ref.lambda * scaled * scaled * (current[k] - reference[k]);
      }
      Vector moved = current;
      MomentumStep(compensated, ref.local_rate, ref.local_momentum, &local_v[i], &moved);
      local[i] = moved;
    }
  }
}

TEST(Odsgd, FollowsAlgorithm2ThroughBothBoundariesOfItsWarmUp) {
  for (uint64_t warmup_steps : {0, 1, 5}) {
    SCOPED_TRACE(warmup_steps);
    CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=" + std::to_string(warmup_steps),
                              "train.odsgd.local.learning_rate=0.03"}),
               {.warmup_steps = warmup_steps});
  }
}

TEST(Odsgd, CompensatesAgainstThePointOfTheGradient) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                            "train.odsgd.local.learning_rate=0.03", "train.odsgd.local.lambda=2",
                            "train.odsgd.local.momentum=0.5"}),
             {.warmup_steps = 3, .lambda = 2, .local_momentum = 0.5});
}

TEST(Odsgd, CompensatesAgainstThePreviousGlobalWeightsIfAsked) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                            "train.odsgd.local.learning_rate=0.03", "train.odsgd.local.lambda=2",
                            "train.odsgd.local.reference=prev_global"}),
             {.warmup_steps = 3, .lambda = 2, .prev_global = true});
}

TEST(Odsgd, ScalesTheLocalGradientAsTheReleasedCodeIfAsked) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=2", "train.odsgd.local.learning_rate=0.03",
                            "train.odsgd.local.grad_scale=global_mean"}),
             {.warmup_steps = 2, .scale = 1.0 / kWorkers});
}

TEST(Odsgd, WithoutALocalUpdaterOnlyDelaysGradients) {
  const auto job = Job("odsgd", {"train.odsgd.warmup_steps=4", "train.odsgd.local.name=none"});
  const auto traces = RunCluster(*job, {kSteps});
  for (uint64_t s = 7; s <= kSteps; ++s)
    EXPECT_EQ(traces[0].points[s - 1], traces[0].weights.at(s - 2)) << s;
}

TEST(Odsgd, OfOneWorkerWithPlainSgdIsSsgdBitForBit) {
  const std::vector<std::string> ssgd = {"train.optimizer.name=sgd", "train.schedule.name=poly"};
  auto odsgd = ssgd;
  odsgd.push_back("train.odsgd.warmup_steps=3");
  const auto a = RunCluster(*Job("ssgd", ssgd, 1), {kSteps});
  const auto b = RunCluster(*Job("odsgd", odsgd, 1), {kSteps});
  EXPECT_EQ(a[0].weights, b[0].weights);
  EXPECT_EQ(a[0].points, b[0].points);
}

TEST(Psgd, AveragesTheParametersEveryPSteps) {
  const uint64_t p = 4;  // Does not divide kSteps, so the last round is shorter.
  const auto job = Job("psgd", {"train.psgd.p=4"});
  const auto traces = RunCluster(*job, {kSteps});
  std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
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
    const auto job = Job("psgd", {"train.psgd.p=3", "train.psgd.at_sync=" + at_sync});
    const auto traces = RunCluster(*job, {kSteps});
    std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers, Vector(job->table.total));
    for (uint64_t s = 1; s <= kSteps; ++s) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        ExpectPoint(traces[i], s, x[i]);
        MomentumStep(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
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
  const auto a = RunCluster(*Job("ssgd", {}), {kSteps});
  const auto b = RunCluster(*Job("psgd", {"train.psgd.p=1"}), {kSteps});
  for (uint64_t t = 1; t <= kSteps; ++t) {
    const Vector expected(a[0].weights.at(t).begin(), a[0].weights.at(t).end());
    EXPECT_LT(RelativeDistance(b[0].weights.at(t), expected), 1e-6) << t;
  }
}

TEST(Rsgd, AveragesOneOfPPartsEachStep) {
  const uint64_t p = 4;
  const double decay = 0.5;
  const auto job = Job("rsgd", {"train.rsgd.p=4", "evaluation.ema_decay=0.5"});
  const auto traces = RunCluster(*job, {kSteps});
  const uint64_t n = job->table.total;
  Vector average = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    const uint64_t part = (s - 1) % p;
    const Vector mean = MeanOf(x);
    const double t = static_cast<double>((s - 1) / p);  // How often this part was averaged before.
    const double ema_decay = std::min(decay, (1 + t) / (10 + t));
    for (uint64_t k = part * n / p; k < (part + 1) * n / p; ++k) {
      for (Vector& each : x) each[k] = mean[k];
      average[k] = ema_decay * average[k] + (1 - ema_decay) * mean[k];
    }
  }
  for (const Trace& trace : traces) {
    EXPECT_LT(RelativeDistance(trace.final_weights, MeanOf(x)), kTolerance);
    EXPECT_LT(RelativeDistance(trace.average, average), kTolerance);
  }
}

TEST(Pqasgd, AddsTheMeanChangeEveryPSteps) {
  const auto job = Job("pqasgd", {"train.pqasgd.p=5"});
  const auto traces = RunCluster(*job, {kSteps});
  Vector common_weights = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, common_weights), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % 5 != 0 && s != kSteps) continue;
    std::vector<Vector> change = x;
    for (Vector& each : change)
      for (size_t k = 0; k < each.size(); ++k) each[k] -= common_weights[k];
    const Vector mean = MeanOf(change);
    for (size_t k = 0; k < common_weights.size(); ++k) common_weights[k] += mean[k];
    std::fill(x.begin(), x.end(), common_weights);
    ExpectWeights(traces, (s + 4) / 5, common_weights);
  }
}

TEST(Pqasgd, QuantizedReplicasAgreeBitForBit) {
  const auto job = Job("pqasgd", {"exchange.codec=ternary", "exchange.clip=none"});
  const auto traces = RunCluster(*job, {kSteps});
  ASSERT_EQ(traces[0].weights.size(), (kSteps + 7) / 8);
  for (const Trace& trace : traces) EXPECT_EQ(trace.weights, traces[0].weights);
}

TEST(Odsgd, TernaryReplicasAgreeBitForBit) {
  const auto job = Job("odsgd", {"exchange.codec=ternary", "train.odsgd.warmup_steps=3"});
  const auto traces = RunCluster(*job, {kSteps});
  ASSERT_EQ(traces[0].weights.size(), kSteps);
  for (const Trace& trace : traces) EXPECT_EQ(trace.weights, traces[0].weights);
}

}  // namespace
}  // namespace tern::client

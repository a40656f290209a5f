// Every algorithm with rounds, compared with the equations of its paper in double precision: the
// weights at which each worker computed gradients, and W, step by step.
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
constexpr double kClose = 1e-5;

using Vector = std::vector<double>;

std::unique_ptr<setup::Setup> Job(const std::string& algorithm, std::vector<std::string> more,
                                  uint32_t workers = kWorkers) {
  std::vector<std::string> all = {"workers.count=" + std::to_string(workers),
                                  "train.batch_total=" + std::to_string(2 * workers),
                                  "train.algorithm=" + algorithm,
                                  "exchange.codec=fp32",
                                  "exchange.chunk_kib=1",
                                  "exchange.bucket_kib=2",
                                  "train.schedule.learning_rate=0.05",
                                  "faults.compare_every_steps=10",
                                  "output_dir=" + testing::TempDir() + "tern_traces_" + algorithm};
  all.insert(all.end(), more.begin(), more.end());
  return SmallJob(all);
}

Vector Initial(const setup::Setup& job) {
  auto replica = std::move(*Replica::Make(job));
  return {replica->parameters(), replica->parameters() + job.table.total};
}

Vector Gradient(uint32_t rank, uint64_t step, const Vector& w) {
  Vector g(w.size());
  AnalyticGradient(rank, step, w.data(), w.size(), g.data());
  return g;
}

Vector MeanOf(const std::vector<Vector>& all) {
  Vector mean(all[0].size());
  for (const Vector& one : all)
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += one[k] / static_cast<double>(all.size());
  return mean;
}

// v = m v + g; w -= rate v
void Momentum(const Vector& g, double rate, double m, Vector* v, Vector* w) {
  v->resize(w->size());
  for (size_t k = 0; k < w->size(); ++k) {
    (*v)[k] = m * (*v)[k] + g[k];
    (*w)[k] -= rate * (*v)[k];
  }
}

void ExpectPoint(const Trace& trace, uint64_t step, const Vector& expected) {
  ASSERT_GE(trace.points.size(), step);
  EXPECT_LT(RelativeDistance(trace.points[step - 1], expected), kClose) << "at step " << step;
}
void ExpectWeights(const std::vector<Trace>& traces, uint64_t round, const Vector& expected) {
  for (const Trace& trace : traces) {
    ASSERT_TRUE(trace.weights.count(round)) << round;
    EXPECT_LT(RelativeDistance(trace.weights.at(round), expected), kClose) << "round " << round;
    EXPECT_EQ(trace.weights.at(round), traces[0].weights.at(round)) << "replicas differ";
  }
}

TEST(Ssgd, IsMomentumOnTheMeanGradient) {
  const auto job = Job("ssgd", {});
  const auto traces = RunCluster(*job, {kSteps});
  Vector w = Initial(*job), v;
  for (uint64_t t = 1; t <= kSteps; ++t) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], t, w);
      g.push_back(Gradient(i, t, w));
    }
    Momentum(MeanOf(g), kRate, kMomentum, &v, &w);
    ExpectWeights(traces, t, w);
  }
}

// OD-SGD's algorithm 2. In CheckOdsgd, W[t] are the global weights after round t, and p the local
// weights w'. The local updater is plain SGD.
struct OdsgdReference {
  uint64_t wp = 5;
  double local_rate = 0.03, lambda = 0, local_momentum = 0, scale = 1;
  bool prev_global = false;
};

void CheckOdsgd(const setup::Setup& job, const OdsgdReference& ref) {
  const auto traces = RunCluster(job, {kSteps});
  std::vector<Vector> W = {Initial(job)};
  Vector v;
  std::vector<Vector> p(kWorkers, W[0]), local_v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, p[i]);
      g.push_back(Gradient(i, s, p[i]));
    }
    Vector next = W.back();
    Momentum(MeanOf(g), kRate, kMomentum, &v, &next);
    W.push_back(next);
    ExpectWeights(traces, s, W[s]);
    for (uint32_t i = 0; i < kWorkers; ++i) {
      if (s <= ref.wp) {
        p[i] = W[s];
        continue;
      }
      // w' = W(s-1) + U_local(g), g compensated by lambda g g (W(s-1) - reference)
      const Vector& now = W[s - 1];
      const Vector& then = ref.prev_global ? W[s >= 2 ? s - 2 : 0] : p[i];
      Vector compensated = g[i];
      for (size_t k = 0; k < now.size(); ++k) {
        const double scaled = ref.scale * g[i][k];
        compensated[k] = scaled + ref.lambda * scaled * scaled * (now[k] - then[k]);
      }
      Vector moved = now;
      Momentum(compensated, ref.local_rate, ref.local_momentum, &local_v[i], &moved);
      p[i] = moved;
    }
  }
}

TEST(Odsgd, FollowsAlgorithm2ThroughBothBoundariesOfItsWarmUp) {
  for (uint64_t wp : {0, 1, 5}) {
    SCOPED_TRACE(wp);
    CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=" + std::to_string(wp),
                              "train.odsgd.local.learning_rate=0.03"}),
               {.wp = wp});
  }
}

TEST(Odsgd, CompensatesAgainstThePointOfTheGradient) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                            "train.odsgd.local.learning_rate=0.03", "train.odsgd.local.lambda=2",
                            "train.odsgd.local.momentum=0.5"}),
             {.wp = 3, .lambda = 2, .local_momentum = 0.5});
}

TEST(Odsgd, CompensatesAgainstThePreviousGlobalWeightsIfAsked) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=3", "train.odsgd.local.name=dcasgd_c",
                            "train.odsgd.local.learning_rate=0.03", "train.odsgd.local.lambda=2",
                            "train.odsgd.local.reference=prev_global"}),
             {.wp = 3, .lambda = 2, .prev_global = true});
}

TEST(Odsgd, ScalesTheLocalGradientAsTheReleasedCodeIfAsked) {
  CheckOdsgd(*Job("odsgd", {"train.odsgd.warmup_steps=2", "train.odsgd.local.learning_rate=0.03",
                            "train.odsgd.local.grad_scale=global_mean"}),
             {.wp = 2, .scale = 1.0 / kWorkers});
}

TEST(Odsgd, WithoutALocalUpdaterOnlyDelaysGradients) {
  const auto job = Job("odsgd", {"train.odsgd.warmup_steps=4", "train.odsgd.local.name=none"});
  const auto traces = RunCluster(*job, {kSteps});
  for (uint64_t s = 7; s <= kSteps; ++s)
    EXPECT_EQ(traces[0].points[s - 1], traces[0].weights.at(s - 2)) << s;
}

TEST(Odsgd, OfOneWorkerWithPlainSgdIsSsgdBitForBit) {
  const std::vector<std::string> plain = {"train.optimizer.name=sgd", "train.schedule.name=poly"};
  auto odsgd = plain;
  odsgd.push_back("train.odsgd.warmup_steps=3");
  const auto a = RunCluster(*Job("ssgd", plain, 1), {kSteps});
  const auto b = RunCluster(*Job("odsgd", odsgd, 1), {kSteps});
  EXPECT_EQ(a[0].weights, b[0].weights);
  EXPECT_EQ(a[0].points, b[0].points);
}

TEST(Psgd, AveragesTheParametersEveryPSteps) {
  const uint64_t p = 4;  // does not divide the steps: the last round is shorter
  const auto job = Job("psgd", {"train.psgd.p=4"});
  const auto traces = RunCluster(*job, {kSteps});
  std::vector<Vector> x(kWorkers, Initial(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      Momentum(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % p != 0 && s != kSteps) continue;
    const Vector mean = MeanOf(x);
    std::fill(x.begin(), x.end(), mean);
    ExpectWeights(traces, (s + p - 1) / p, mean);
  }
}

TEST(Psgd, TreatsMomentumAsAtSyncSays) {
  for (const std::string at_sync : {"reset", "average"}) {
    SCOPED_TRACE(at_sync);
    const auto job = Job("psgd", {"train.psgd.p=3", "train.psgd.at_sync=" + at_sync});
    const auto traces = RunCluster(*job, {kSteps});
    std::vector<Vector> x(kWorkers, Initial(*job)), v(kWorkers, Vector(job->table.total));
    for (uint64_t s = 1; s <= kSteps; ++s) {
      for (uint32_t i = 0; i < kWorkers; ++i) {
        ExpectPoint(traces[i], s, x[i]);
        Momentum(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
      }
      if (s % 3 != 0) continue;
      const Vector mean = MeanOf(x);
      std::fill(x.begin(), x.end(), mean);
      const Vector slot = at_sync == "average" ? MeanOf(v) : Vector(job->table.total);
      std::fill(v.begin(), v.end(), slot);
      ExpectWeights(traces, s / 3, mean);
    }
  }
}

TEST(Psgd, WithPOneAndItsOwnMomentumIsSsgd) {
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
  Vector average = Initial(*job);
  std::vector<Vector> x(kWorkers, Initial(*job)), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      Momentum(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    const uint64_t part = (s - 1) % p;
    const Vector mean = MeanOf(x);
    const double t =
        static_cast<double>((s - 1) / p);  // how often this part has been averaged before
    const double keeps = std::min(decay, (1 + t) / (10 + t));
    for (uint64_t k = part * n / p; k < (part + 1) * n / p; ++k) {
      for (Vector& one : x) one[k] = mean[k];
      average[k] = keeps * average[k] + (1 - keeps) * mean[k];
    }
  }
  for (const Trace& trace : traces) {
    EXPECT_LT(RelativeDistance(trace.last, MeanOf(x)), kClose);
    EXPECT_LT(RelativeDistance(trace.average, average), kClose);
  }
}

TEST(Pqasgd, AddsTheMeanChangeEveryPSteps) {
  const auto job = Job("pqasgd", {"train.pqasgd.p=5"});
  const auto traces = RunCluster(*job, {kSteps});
  Vector agreed = Initial(*job);
  std::vector<Vector> x(kWorkers, agreed), v(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      Momentum(Gradient(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % 5 != 0 && s != kSteps) continue;
    std::vector<Vector> change = x;
    for (Vector& one : change)
      for (size_t k = 0; k < one.size(); ++k) one[k] -= agreed[k];
    const Vector mean = MeanOf(change);
    for (size_t k = 0; k < agreed.size(); ++k) agreed[k] += mean[k];
    std::fill(x.begin(), x.end(), agreed);
    ExpectWeights(traces, (s + 4) / 5, agreed);
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

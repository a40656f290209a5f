// Tests of the algorithms without rounds. Workers and servers run in this process, and the order of
// pushes is random. A reference applies each algorithm's equation in double precision in the same
// order. The weights at which each worker computes gradients must be close to those of the
// reference. In the reference, w are the servers' weights and x[rank] the weights of a worker.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "server/rules/clock_rules.h"
#include "tests/client/train/cluster.h"
#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint64_t kSteps = 14;  // Steps of each worker, so the 3 workers push 42 times.
constexpr double kTolerance = 1e-5;
constexpr double kRate = 0.05;

using Vector = std::vector<double>;

std::unique_ptr<setup::Setup> MakeJob(const std::string& algorithm,
                                      std::vector<std::string> extra_overrides) {
  std::vector<std::string> overrides = {
      "workers.count=" + std::to_string(kWorkers),
      "train.batch_total=" + std::to_string(2 * kWorkers),
      "train.algorithm=" + algorithm,
      "train.optimizer.name=sgd",
      "exchange.codec=fp32",
      "exchange.chunk_kib=1",
      "exchange.bucket_kib=2",
      "train.schedule.learning_rate=0.05",
      "train.steps=" + std::to_string(kSteps),
      "output_dir=" + testing::TempDir() + "tern_async_" + algorithm};
  overrides.insert(overrides.end(), extra_overrides.begin(), extra_overrides.end());
  return SmallJob(overrides);
}

// Applies push number `step` of worker `rank` to the servers' weights w, then pulls: updates the
// worker's weights x.
using ReferencePush = std::function<void(uint32_t rank, uint64_t step, Vector* w, Vector* x)>;

// Runs the job and checks every worker's weights at every step, and the final weights, against the
// reference that apply_push computes. A worker pushes once in steps_of_push steps.
void CheckTraces(const setup::Setup& job, const ReferencePush& apply_push,
                 uint64_t steps_of_push = 1) {
  std::vector<uint32_t> push_order;
  const auto traces = RunCluster(job, {kSteps, 7}, &push_order);
  ASSERT_GE(push_order.size(), 30u / steps_of_push);
  Vector w = InitialWeights(job);
  std::vector<Vector> x(kWorkers, w);
  std::vector<uint64_t> next_step(kWorkers, 1);
  for (uint32_t rank : push_order) {
    ASSERT_GE(traces[rank].points.size(), next_step[rank]);
    EXPECT_LT(RelativeDistance(traces[rank].points[next_step[rank] - 1], x[rank]), kTolerance)
        << "rank " << rank << " at step " << next_step[rank];
    apply_push(rank, next_step[rank]++, &w, &x[rank]);
  }
  for (const Trace& trace : traces) EXPECT_LT(RelativeDistance(trace.final_weights, w), kTolerance);
}

TEST(Asgd, AppliesEveryPushAtOnce) {
  CheckTraces(*MakeJob("asgd", {}), [](uint32_t rank, uint64_t step, Vector* w, Vector* x) {
    const Vector g = GradientAt(rank, step, *x);
    for (size_t k = 0; k < w->size(); ++k) (*w)[k] -= kRate * g[k];
    *x = *w;
  });
}

TEST(Asgd, EndsWithTheSameWeightsIfChangesArePulled) {
  CheckTraces(*MakeJob("asgd", {"exchange.pull=changes"}),
              [](uint32_t rank, uint64_t step, Vector* w, Vector* x) {
                const Vector g = GradientAt(rank, step, *x);
                for (size_t k = 0; k < w->size(); ++k) (*w)[k] -= kRate * g[k];
                *x = *w;
              });
}

void CheckDcasgd(const std::string& computed_by) {
  CheckTraces(*MakeJob("dcasgd_c",
                       {"train.dcasgd_c.lambda=2", "train.dcasgd_c.compensation=" + computed_by}),
              [](uint32_t rank, uint64_t step, Vector* w, Vector* x) {
                const Vector g = GradientAt(rank, step, *x);
                for (size_t k = 0; k < w->size(); ++k)
                  (*w)[k] -= kRate * (g[k] + 2 * g[k] * g[k] * ((*w)[k] - (*x)[k]));
                *x = *w;
              });
}
TEST(DcasgdC, CompensatesAgainstTheWorkersBackup) { CheckDcasgd("on_server"); }

TEST(DcasgdA, DividesByTheRootOfOneMeanSquarePerWorker) {
  std::vector<Vector> mean_squares(kWorkers);
  CheckTraces(*MakeJob("dcasgd_a", {"train.dcasgd_a.lambda=2", "train.dcasgd_a.rho=0.9"}),
              [&mean_squares](uint32_t rank, uint64_t step, Vector* w, Vector* x) {
                const Vector g = GradientAt(rank, step, *x);
                mean_squares[rank].resize(g.size());
                for (size_t k = 0; k < w->size(); ++k) {
                  double& mean_square = mean_squares[rank][k];
                  mean_square = 0.9 * mean_square + 0.1 * g[k] * g[k];
                  (*w)[k] -= kRate * (g[k] + 2 / std::sqrt(mean_square + 1e-7) * g[k] * g[k] *
                                                 ((*w)[k] - (*x)[k]));
                }
                *x = *w;
              });
}

// Whether the servers compute DC-ASGD's compensation term. If they do, they store a backup of the
// weights that each worker pulled last.
bool ServersCompensate(const setup::Setup& job) {
  auto rule = server::MakeClockRule(job, job.plan.chunk(0, 0), server::InitialWeights(job),
                                    [](uint64_t) { return kRate; });
  EXPECT_TRUE(rule.ok()) << rule.status().message();
  SavedState state;
  (*rule)->AddState(&state);
  return std::any_of(state.arrays.begin(), state.arrays.end(),
                     [](const auto& array) { return array.name == "backup.0"; });
}

// Whether the workers compute DC-ASGD's compensation term. If they do, they pull the newest weights
// before every push.
bool WorkersCompensate(const setup::Setup& job) {
  constexpr uint64_t kFewSteps = 4;
  uint64_t num_pulls = 0;
  for (const Trace& trace : RunCluster(job, {kFewSteps, 7})) num_pulls += trace.num_pulls;
  size_t num_chunks = 0;
  for (const protocol::Bucket& bucket : job.plan.buckets) num_chunks += bucket.chunks.size();
  return num_pulls >= kFewSteps * kWorkers * num_chunks;
}

TEST(Dcasgd, ComputesTheCompensationOnExactlyOneSide) {
  for (const std::string& name : codec::CodecNames()) {
    if (!codec::CanDecodeAlone(name)) continue;  // Algorithms without rounds refuse it.
    const auto codec = codec::MakeCodec(name, {});
    for (const bool has_feedback : {false, true}) {
      if (has_feedback && (*codec)->is_stochastic())
        continue;  // Stochastic codecs refuse error_feedback.
      SCOPED_TRACE(name + (has_feedback ? " with error feedback" : ""));
      std::vector<std::string> overrides = {"exchange.codec=" + name, "train.dcasgd_a.lambda=0.1"};
      if (has_feedback) overrides.emplace_back("exchange.error_feedback=true");
      const auto job = MakeJob("dcasgd_a", overrides);
      ASSERT_NE(job, nullptr);
      const bool servers_must_compensate =
          name == "fp32" || (!has_feedback && (name == "fp16" || name == "bf16"));
      EXPECT_EQ(ServersCompensate(*job), servers_must_compensate);
      EXPECT_EQ(WorkersCompensate(*job), !servers_must_compensate);
    }
  }
}

TEST(Ssp, IsAsgdIfNoWorkerIsTooFarAhead) {
  CheckTraces(*MakeJob("ssp", {"train.ssp.staleness=100"}),
              [](uint32_t rank, uint64_t step, Vector* w, Vector* x) {
                const Vector g = GradientAt(rank, step, *x);
                for (size_t k = 0; k < w->size(); ++k) (*w)[k] -= kRate * g[k];
                *x = *w;
              });
}

TEST(Ssp, KeepsAllWorkersWithinTheBound) {
  std::vector<uint32_t> push_order;
  RunCluster(*MakeJob("ssp", {"train.ssp.staleness=2"}), {kSteps, 3}, &push_order);
  std::vector<uint64_t> num_pushes(kWorkers);  // By rank.
  for (uint32_t rank : push_order) {
    ++num_pushes[rank];
    // A worker sends push c after it has the answer to push c - 1. The servers send that answer
    // only when every worker has made at least c - 3 pushes.
    for (uint32_t other_rank = 0; other_rank < kWorkers; ++other_rank)
      EXPECT_LE(num_pushes[rank], num_pushes[other_rank] + 3);
  }
}

TEST(EasgdAsync, MovesWorkerAndCentreByTheDifferenceBeforeTheStep) {
  const uint64_t tau = 2;
  const auto job =
      MakeJob("easgd_async", {"train.easgd_async.tau=2", "train.easgd_async.alpha=0.2"});
  std::vector<uint32_t> push_order;
  const auto traces = RunCluster(*job, {kSteps, 7}, &push_order);
  Vector centre = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, centre);
  std::vector<uint64_t> t(kWorkers);  // How many steps each worker has made.
  const auto make_step = [&](uint32_t rank, const Vector& elastic_force) {
    EXPECT_LT(RelativeDistance(traces[rank].points[t[rank]], x[rank]), kTolerance)
        << rank << " at " << t[rank];
    const Vector g = GradientAt(rank, t[rank] + 1, x[rank]);
    for (size_t k = 0; k < g.size(); ++k)
      x[rank][k] -= kRate * g[k] + (elastic_force.empty() ? 0 : elastic_force[k]);
    ++t[rank];
  };
  ASSERT_GE(push_order.size(), 15u);
  for (uint32_t rank : push_order) {
    while (t[rank] == 0 || t[rank] % tau != 0) make_step(rank, {});
    Vector elastic_force(centre.size());
    for (size_t k = 0; k < elastic_force.size(); ++k)
      elastic_force[k] = 0.2 * (x[rank][k] - centre[k]);
    for (size_t k = 0; k < elastic_force.size(); ++k) centre[k] += elastic_force[k];
    make_step(rank, elastic_force);
  }
  for (const Trace& trace : traces)
    EXPECT_LT(RelativeDistance(trace.final_weights, centre), kTolerance);
}

// The loss at the end is that of the steps after the last comparison before the end, whether or not
// there are rounds.
TEST(Losses, AreOfTheSameLastStepsWithAndWithoutRounds) {
  for (const char* algorithm : {"ssgd", "asgd", "ssp", "softsync", "easgd_async"}) {
    for (const uint64_t every_steps : {5, 7, 14, 100}) {
      SCOPED_TRACE(std::string(algorithm) + " " + std::to_string(every_steps));
      const auto job =
          MakeJob(algorithm, {"faults.compare_every_steps=" + std::to_string(every_steps)});
      std::vector<uint32_t> push_order;
      for (const Trace& trace : RunCluster(*job, {kSteps, 7}, &push_order)) {
        const uint64_t steps = trace.points.size();  // about kSteps without rounds
        const uint64_t last_due = (std::min(steps, kSteps) - 1) / every_steps * every_steps;
        EXPECT_EQ(trace.num_loss_samples, 2 * (steps - last_due));
      }
    }
  }
}

TEST(Asgd, AppliesGradientsLocallyBetweenPushesAndPulls) {
  std::vector<uint32_t> push_order;
  const auto job = MakeJob("asgd", {"train.asgd.push_every=2", "train.asgd.pull_every=2",
                                    "train.weight_decay={rate: 0.1, where: local}",
                                    "train.schedule.rules=[{tensors: hidden.*, times: 0.5}]"});
  const Vector times = OfElements(*job, {0.5, 0.5, 1, 1});
  // A worker adds it to each of its own steps, and servers to each push as often as there are steps
  // in it. Biases have none.
  const Vector decay = OfElements(*job, {0.1, 0, 0.1, 0});
  const auto traces = RunCluster(*job, {kSteps, 5}, &push_order);
  Vector w = InitialWeights(*job);
  std::vector<Vector> x(kWorkers, w);
  std::vector<uint64_t> next_step(kWorkers, 1);
  for (uint32_t rank : push_order) {
    Vector gradient_sum(w.size());
    for (int n = 0; n < 2; ++n, ++next_step[rank]) {
      EXPECT_LT(RelativeDistance(traces[rank].points[next_step[rank] - 1], x[rank]), kTolerance)
          << next_step[rank];
      const Vector g = GradientAt(rank, next_step[rank], x[rank]);
      for (size_t k = 0; k < g.size(); ++k) {
        gradient_sum[k] += g[k];
        x[rank][k] -= kRate * times[k] * (g[k] + decay[k] * x[rank][k]);
      }
    }
    for (size_t k = 0; k < w.size(); ++k)
      w[k] -= kRate * times[k] * (gradient_sum[k] + 2 * decay[k] * w[k]);
    x[rank] = w;
  }
}

}  // namespace
}  // namespace tern::client

// Tests of algorithms with rounds. A reference computes the equations of the algorithm's paper in
// double precision. The weights at which each worker computes gradients, and W (the weights that
// the workers agree on after each round), must be close to those of the reference. In a reference,
// x[i] are the weights of worker i, v is momentum, and s (in the tests of Ssgd, t) counts steps
// from 1.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "kernels/codes/philox.h"
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

// Makes one step of an optimizer with the gradient g of the loss, weights *w and momentum *v.
using OptimizerStep = std::function<void(const Vector& g, Vector* v, Vector* w)>;

// Compares the traces of ssgd with the reference.
void CheckSsgd(const setup::Setup& job, const OptimizerStep& make_step) {
  const auto traces = RunCluster(job, {kSteps});
  Vector w = InitialWeights(job), v(w.size());
  for (uint64_t t = 1; t <= kSteps; ++t) {
    std::vector<Vector> g;
    for (uint32_t i = 0; i < kWorkers; ++i) g.push_back(GradientAt(i, t, w));
    make_step(MeanOf(g), &v, &w);
    ExpectWeights(traces, t, w);
  }
}

TEST(Ssgd, LooksAheadEveryKSteps) {
  constexpr uint64_t k = 4;
  constexpr double kDecay = 0.8, kPower = 3;
  const auto job =
      MakeJob("ssgd", {"train.ssgd.lookahead.every_steps=4", "train.ssgd.lookahead.decay=0.8",
                       "train.ssgd.lookahead.decay_power=3"});
  Vector slow = InitialWeights(*job);  // phi, the slow weights
  uint64_t t = 0;
  CheckSsgd(*job, [&](const Vector& g, Vector* v, Vector* w) {
    MomentumStep(g, kRate, kMomentum, v, w);
    if (++t % k != 0) return;
    const double alpha =
        1 - kDecay * std::pow(static_cast<double>(t) / static_cast<double>(kSteps), kPower);
    for (size_t i = 0; i < slow.size(); ++i) slow[i] += alpha * ((*w)[i] - slow[i]);
    *w = slow;
  });
  for (const Trace& trace : RunCluster(*job, {kSteps}))
    EXPECT_LT(RelativeDistance(trace.average_weights, slow), kTolerance);
}

// Compares the traces of psgd, in which every worker has an optimizer of its own, with the
// reference.
void CheckPsgd(const setup::Setup& job, uint64_t p, const OptimizerStep& make_step) {
  const auto traces = RunCluster(job, {kSteps});
  std::vector<Vector> x(kWorkers, InitialWeights(job)), v(kWorkers, Vector(x[0].size()));
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) make_step(GradientAt(i, s, x[i]), &v[i], &x[i]);
    if (s % p != 0 && s != kSteps) continue;
    const Vector mean = MeanOf(x);
    std::fill(x.begin(), x.end(), mean);
    ExpectWeights(traces, (s + p - 1) / p, mean);
  }
}

// The first rule that matches decides, for biases too. scores.weight has no rule, so it has the
// rate; scores.bias has none.
const std::vector<std::string> kDecayOverrides = {
    "train.weight_decay.rate=0.05",
    "train.weight_decay.rules=[{tensors: hidden.w*, rate: 0.3}, {tensors: hidden.*, rate: 0.1}]"};
const std::vector<double> kDecayOfTensor = {0.3, 0.1, 0.05, 0};

// Calls `visit` with the range of elements, and the weight decay, of each tensor of the job.
void ForEachTensor(const setup::Setup& job,
                   const std::function<void(uint64_t begin, uint64_t end, double decay)>& visit) {
  ASSERT_EQ(job.table.parameters.size(), kDecayOfTensor.size());
  for (size_t t = 0; t < kDecayOfTensor.size(); ++t) {
    const models::Parameter& parameter = job.table.parameters[t];
    visit(parameter.offset, parameter.offset + parameter.count, kDecayOfTensor[t]);
  }
}

TEST(WeightDecay, RulesChooseTheRateOfEachTensor) {
  for (const std::string where : {"in_gradient", "local"}) {
    SCOPED_TRACE(where);
    auto overrides = kDecayOverrides;
    overrides.push_back("train.weight_decay.where=" + where);
    const auto job = MakeJob("ssgd", overrides);
    const OptimizerStep make_step = [&](const Vector& g, Vector* v, Vector* w) {
      Vector decayed = g;
      ForEachTensor(*job, [&](uint64_t begin, uint64_t end, double decay) {
        for (uint64_t k = begin; k < end; ++k) decayed[k] += decay * (*w)[k];
      });
      MomentumStep(decayed, kRate, kMomentum, v, w);
    };
    CheckSsgd(*job, make_step);
    overrides.push_back("train.psgd.p=4");
    CheckPsgd(*MakeJob("psgd", overrides), 4, make_step);
  }
}

TEST(Rmsprop, FollowsTensorFlowsForm) {
  constexpr double kRho = 0.8, kEpsilon = 0.01;
  const std::vector<std::string> overrides = {
      "train.optimizer.name=rmsprop", "train.optimizer.rho=0.8", "train.optimizer.epsilon=0.01"};
  const auto job = MakeJob("ssgd", overrides);
  Vector square(job->table.total);
  CheckSsgd(*job, [&](const Vector& g, Vector* v, Vector* w) {
    for (size_t k = 0; k < g.size(); ++k) {
      square[k] = kRho * square[k] + (1 - kRho) * g[k] * g[k];
      (*v)[k] = kMomentum * (*v)[k] + kRate * g[k] / std::sqrt(square[k] + kEpsilon);
      (*w)[k] -= (*v)[k];
    }
  });
}

// The rate of a tensor has the norm of the gradient of the loss, wherever the decay is added.
TEST(Lars, FollowsItsEquationWhereverWeightsDecay) {
  constexpr double kTrust = 0.02;
  for (const std::string where : {"in_gradient", "local"}) {
    SCOPED_TRACE(where);
    auto overrides = kDecayOverrides;
    overrides.insert(overrides.end(),
                     {"train.weight_decay.where=" + where, "train.optimizer.name=lars",
                      "train.optimizer.trust_coefficient=0.02"});
    const auto job = MakeJob("ssgd", overrides);
    const OptimizerStep make_step = [&](const Vector& g, Vector* v, Vector* w) {
      ForEachTensor(*job, [&](uint64_t begin, uint64_t end, double decay) {
        double squares_g = 0, squares_w = 0;
        for (uint64_t k = begin; k < end; ++k) {
          squares_g += g[k] * g[k];
          squares_w += (*w)[k] * (*w)[k];
        }
        const double norm_g = std::sqrt(squares_g), norm_w = std::sqrt(squares_w);
        const double ratio =
            norm_w > 0 && norm_g > 0 ? kTrust * norm_w / (norm_g + decay * norm_w) : 1;
        for (uint64_t k = begin; k < end; ++k) {
          (*v)[k] = kMomentum * (*v)[k] + ratio * (g[k] + decay * (*w)[k]);
          (*w)[k] -= kRate * (*v)[k];
        }
      });
    };
    CheckSsgd(*job, make_step);
    overrides.push_back("train.psgd.p=4");
    CheckPsgd(*MakeJob("psgd", overrides), 4, make_step);
  }
}

// The settings of OD-SGD, algorithm 2 of its paper, for CheckOdsgd.
struct OdsgdReference {
  uint64_t warmup_steps = 5;
  // The learning rate of step s on the servers, and the local updater's.
  std::function<double(uint64_t s)> rate = [](uint64_t) { return kRate; };
  std::function<double(uint64_t s)> local_rate = [](uint64_t) { return 0.03; };
  // The local updater makes steps of SGD with momentum. Its gradient is scale * g, where g is the
  // worker's own gradient, with delay compensation of strength lambda.
  double lambda = 0, local_momentum = 0, scale = 1;
  // Whether the compensation uses the previous global weights instead of the local ones.
  bool uses_previous_global = false;
  Vector times_of_element = {};  // multiplies both rates; empty: 1
};

// Compares the job's traces with the reference. W[t] are the global weights after round t, and
// local[i] the local weights (w' in the paper) at which worker i computes its next gradient.
void CheckOdsgd(const setup::Setup& job, const OdsgdReference& ref) {
  const auto traces = RunCluster(job, {kSteps});
  // The elements' own rates, which multiply v where the weights change.
  const auto move = [&](const Vector& g, double rate, double m, Vector* v, Vector* w) {
    const Vector start = *w;
    MomentumStep(g, rate, m, v, w);
    for (size_t k = 0; k < ref.times_of_element.size(); ++k)
      (*w)[k] = start[k] + ref.times_of_element[k] * ((*w)[k] - start[k]);
  };
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
    move(MeanOf(g), ref.rate(s), kMomentum, &v, &next_weights);
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
      move(compensated_gradient, ref.local_rate(s), ref.local_momentum, &local_v[i], &next_local);
      local[i] = next_local;
    }
  }
}

// The factor of a tensor's rate is in the update of the common weights, and in OD-SGD's local one.
TEST(RateRules, MultiplyTheRateOfEachTensor) {
  const std::vector<std::string> overrides = {
      "train.schedule.rules=[{tensors: '*.bias', times: 4}, {tensors: hidden.*, times: 0.5}]"};
  const auto job = MakeJob("ssgd", overrides);
  const Vector times_of_element = OfElements(*job, {0.5, 4, 1, 4});
  const OptimizerStep make_step = [&](const Vector& g, Vector* v, Vector* w) {
    for (size_t k = 0; k < g.size(); ++k) {
      (*v)[k] = kMomentum * (*v)[k] + g[k];
      (*w)[k] -= kRate * times_of_element[k] * (*v)[k];
    }
  };
  CheckSsgd(*job, make_step);
  auto central_overrides = overrides;
  central_overrides.push_back("train.parameters=central");
  CheckSsgd(*MakeJob("ssgd", central_overrides), make_step);
  auto psgd_overrides = overrides;
  psgd_overrides.push_back("train.psgd.p=4");
  CheckPsgd(*MakeJob("psgd", psgd_overrides), 4, make_step);
  auto odsgd_overrides = overrides;
  odsgd_overrides.insert(odsgd_overrides.end(),
                         {"train.odsgd.warmup_steps=2", "train.odsgd.local.learning_rate=0.03"});
  CheckOdsgd(*MakeJob("odsgd", odsgd_overrides),
             {.warmup_steps = 2, .times_of_element = times_of_element});
}

TEST(RateRules, MakeARateZeroAfterTheirLastStep) {
  constexpr uint64_t kLastStep = 7;
  const std::vector<std::string> overrides = {
      "train.schedule.rules=[{tensors: hidden.*, times: 0.5, until_step: 7}]"};
  const auto job = MakeJob("ssgd", overrides);
  const auto check = [&](const setup::Setup& checked_job, uint64_t calls_a_step, const auto& run) {
    uint64_t num_calls = 0;
    run(checked_job, [&](const Vector& g, Vector* v, Vector* w) {
      const double times = num_calls++ / calls_a_step < kLastStep ? 0.5 : 0;
      const Vector times_of_element = OfElements(*job, {times, times, 1, 1});
      for (size_t k = 0; k < g.size(); ++k) {
        (*v)[k] = kMomentum * (*v)[k] + g[k];
        (*w)[k] -= kRate * times_of_element[k] * (*v)[k];
      }
    });
  };
  check(*job, 1, CheckSsgd);
  auto psgd_overrides = overrides;
  psgd_overrides.push_back("train.psgd.p=4");
  check(*MakeJob("psgd", psgd_overrides), kWorkers,
        [](const setup::Setup& psgd_job, const OptimizerStep& make_step) {
          CheckPsgd(psgd_job, 4, make_step);
        });
}

TEST(Odsgd, FollowsAlgorithm2ThroughBothBoundariesOfItsWarmUp) {
  for (uint64_t warmup_steps : {0, 1, 5}) {
    SCOPED_TRACE(warmup_steps);
    CheckOdsgd(*MakeJob("odsgd", {"train.odsgd.warmup_steps=" + std::to_string(warmup_steps),
                                  "train.odsgd.local.learning_rate=0.03"}),
               {.warmup_steps = warmup_steps});
  }
}

// With a falling schedule a fixed local rate becomes a larger and larger multiple of the global
// one, and learning_rate_times stays the same multiple.
TEST(Odsgd, LocalRateIsFixedOrAMultipleOfTheFallingSchedule) {
  const std::vector<std::string> falling_schedule = {
      "train.schedule.name=multistep", "train.schedule.milestones=[10,20]",
      "train.schedule.gamma=0.2", "train.odsgd.warmup_steps=3"};
  const auto rate = [](uint64_t s) { return kRate * (s > 20 ? 0.04 : s > 10 ? 0.2 : 1); };
  auto overrides_with_times = falling_schedule;
  overrides_with_times.push_back("train.odsgd.local.learning_rate_times=1.25");
  CheckOdsgd(
      *MakeJob("odsgd", overrides_with_times),
      {.warmup_steps = 3, .rate = rate, .local_rate = [&](uint64_t s) { return 1.25 * rate(s); }});
  auto overrides_with_rate = falling_schedule;
  overrides_with_rate.push_back("train.odsgd.local.learning_rate=0.0625");
  CheckOdsgd(*MakeJob("odsgd", overrides_with_rate),
             {.warmup_steps = 3, .rate = rate, .local_rate = [](uint64_t) { return 0.0625; }});
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
  const auto job = MakeJob("psgd", {"train.psgd.p=4", "evaluation.ema_decay=0.5"});
  const auto traces = RunCluster(*job, {kSteps});
  std::vector<Vector> x(kWorkers, InitialWeights(*job)), v(kWorkers);
  Vector average = x[0];
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    if (s % p != 0 && s != kSteps) continue;
    const Vector mean = MeanOf(x);
    std::fill(x.begin(), x.end(), mean);
    const uint64_t round = (s + p - 1) / p;
    ExpectWeights(traces, round, mean);
    const double decay = std::min(0.5, static_cast<double>(round) / static_cast<double>(9 + round));
    for (size_t k = 0; k < mean.size(); ++k)
      average[k] = decay * average[k] + (1 - decay) * mean[k];
  }
  for (const Trace& trace : traces)
    EXPECT_LT(RelativeDistance(trace.average_weights, average), kTolerance);
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

// adam's bias corrections count from the synchronization that resets its state.
TEST(Psgd, BeginsAdamAnewAtEachSynchronization) {
  const auto job =
      MakeJob("psgd", {"train.psgd.p=3", "train.psgd.at_sync=reset", "train.optimizer.name=adam"});
  const auto traces = RunCluster(*job, {kSteps});
  std::vector<Vector> x(kWorkers, InitialWeights(*job));
  std::vector<AdamReference> adam(kWorkers);
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      adam[i].Step(GradientAt(i, s, x[i]), kRate, &x[i]);
    }
    if (s % 3 != 0) continue;
    const Vector mean = MeanOf(x);
    std::fill(x.begin(), x.end(), mean);
    std::fill(adam.begin(), adam.end(), AdamReference());
    ExpectWeights(traces, s / 3, mean);
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

// Compares the traces of rsgd with the reference. part(s): the part that step s averages, of 4.
void CheckRsgd(const setup::Setup& job, const std::function<uint64_t(uint64_t s)>& part_of) {
  constexpr uint64_t p = 4;
  const double decay = 0.5;
  const auto traces = RunCluster(job, {kSteps});
  const uint64_t n = job.table.total;
  Vector average_weights = InitialWeights(job);
  std::vector<Vector> x(kWorkers, InitialWeights(job)), v(kWorkers);
  double num_averages[p] = {};  // by part: how often it was averaged before
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      ExpectPoint(traces[i], s, x[i]);
      MomentumStep(GradientAt(i, s, x[i]), kRate, kMomentum, &v[i], &x[i]);
    }
    const uint64_t part = part_of(s);
    const Vector mean = MeanOf(x);
    const double t = num_averages[part]++;
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

TEST(Rsgd, AveragesOneOfPPartsEachStep) {
  CheckRsgd(*MakeJob("rsgd", {"train.rsgd.p=4", "evaluation.ema_decay=0.5"}),
            [](uint64_t s) { return (s - 1) % 4; });
}

TEST(Rsgd, AveragesPartsThatAreDrawnFromSeedAndStep) {
  for (const uint64_t seed : {1, 7}) {
    SCOPED_TRACE(seed);
    std::array<uint64_t, 4> num_steps = {};
    CheckRsgd(*MakeJob("rsgd", {"train.rsgd.p=4", "train.rsgd.order=random",
                                "evaluation.ema_decay=0.5", "seed=" + std::to_string(seed)}),
              [&](uint64_t s) {
                const kernels::NoiseKey key{
                    .seed = seed, .stream = kernels::NoiseStream::kParts, .round = s};
                const uint64_t part = uint64_t{kernels::Draw32(key, 0)} * 4 >> 32;
                ++num_steps[part];
                return part;
              });
    for (const uint64_t count : num_steps) EXPECT_GE(count, 1u);
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

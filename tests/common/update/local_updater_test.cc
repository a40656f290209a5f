// Tests of LocalUpdater, which computes OD-SGD's local point w' from the global weights W and the
// worker's own gradient. The worker computes its next gradient at w' while the exchange is under
// way.
#include "common/update/local_updater.h"

#include "common/update/optimizer.h"
#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

constexpr size_t kNumElements = 10'000;  // spans several of the blocks in which the updater works
constexpr uint32_t kNumWorkers = 4;
constexpr int kNumSteps = 30;

pb::LocalUpdater MakeConfig(const std::string& name, double momentum = 0) {
  pb::LocalUpdater config;
  config.set_name(name);
  config.set_momentum(momentum);
  return config;
}

float LearningRate(int step) { return step < 15 ? 0.5f : 0.1f; }
std::vector<float> GlobalWeights(int step) { return RandomValues(kNumElements, 200 + step, 0.3); }

// The local update of OD-SGD's paper, w' = W + U_local(g), in double precision. The paper's
// equations 4 to 6 give the delay compensation. Each Fault is a mistake that the tests must detect.
// Some of them are made in the kernels that were released with the paper.
struct Reference {
  enum Fault {
    kNone,
    kNoCompensation,
    // Weight decay and lambda are swapped, as in the released kernel DCUpdate.
    kLambdaIsDecay,
    // Weight decay is used as lambda, and grad_scale as weight decay, as in the released kernel
    // ADCUpdate.
    kLambdaIsDecayDecayIsScale,
    kScaleAfterSquare,  // The compensation has the square of the gradient without grad_scale.
    kNoScale,           // grad_scale is ignored.
    kRateFolded,        // The learning rate is part of the momentum, as in MXNet.
    kAccumulates,       // The update starts from the last w' instead of W.
    kDecayInside,       // The squared gradient includes weight decay.
  } fault = kNone;
  double lambda = 0, rho = 0, momentum = 0, scale = 1, decay = 0;
  bool is_adaptive = false;
  std::vector<double> v = std::vector<double>(kNumElements), mean_square = v, last_result = {};

  std::vector<double> NextLocalPoint(const std::vector<double>& w,
                                     const std::vector<double>& gradient,
                                     const std::vector<double>& gradient_point, double rate) {
    double used_lambda = lambda, used_decay = decay, used_scale = scale;
    if (fault == kLambdaIsDecay) used_lambda = decay, used_decay = lambda;
    if (fault == kLambdaIsDecayDecayIsScale)
      used_lambda = decay, used_decay = scale, used_scale = 1;
    if (fault == kNoScale) used_scale = 1;
    std::vector<double> next_point =
        fault == kAccumulates && !last_result.empty() ? last_result : w;
    for (size_t i = 0; i < w.size(); ++i) {
      double g = used_scale * gradient[i];
      if (fault == kDecayInside) g += used_decay * w[i];
      const double square = fault == kScaleAfterSquare ? gradient[i] * gradient[i] : g * g;
      mean_square[i] = rho * mean_square[i] + (1 - rho) * square;
      const double factor =
          is_adaptive ? used_lambda / std::sqrt(mean_square[i] + 1e-7) : used_lambda;
      if (fault != kNoCompensation) g += factor * square * (w[i] - gradient_point[i]);
      if (fault != kDecayInside) g += used_decay * w[i];
      if (fault == kRateFolded) {
        v[i] = momentum * v[i] - rate * g;
        next_point[i] += v[i];
      } else {
        v[i] = momentum * v[i] + g;
        next_point[i] -= rate * v[i];
      }
    }
    last_result = next_point;
    return next_point;
  }
};

// The largest distance between the updater's w' and that of `reference` over kNumSteps, relative to
// the norm of w' - W. The gradient is compensated for the distance of W from the previous w'.
double WorstDistance(const pb::LocalUpdater& config, Reference reference) {
  auto updater = std::move(*MakeLocalUpdater(config, kNumElements, kNumWorkers));
  std::vector<float> local_point = GlobalWeights(-1);
  double worst_distance = 0;
  for (int step = 0; step < kNumSteps; ++step) {
    const std::vector<float> w = GlobalWeights(step), g = RandomValues(kNumElements, 100 + step);
    std::vector<double> expected = reference.NextLocalPoint(
        ToDouble(w), ToDouble(g), ToDouble(local_point), LearningRate(step));
    updater->ComputeLocalWeights(w.data(), g.data(), local_point.data(), LearningRate(step),
                                 local_point.data(), kNumElements, 0,
                                 {.decay = static_cast<float>(reference.decay)});
    std::vector<float> update(kNumElements);
    for (size_t i = 0; i < kNumElements; ++i) {
      update[i] = local_point[i] - w[i];
      expected[i] -= w[i];
    }
    worst_distance = std::max(worst_distance, RelativeDistance(update, expected));
  }
  return worst_distance;
}

TEST(LocalUpdater, NoneIsPureDelay) {
  auto updater = std::move(*MakeLocalUpdater(MakeConfig("none", 0.9), kNumElements, kNumWorkers));
  const std::vector<float> w = GlobalWeights(1), g = RandomValues(kNumElements, 1);
  std::vector<float> next(kNumElements);
  updater->ComputeLocalWeights(w.data(), g.data(), w.data(), 0.5f, next.data(), kNumElements);
  EXPECT_EQ(next, w);
  EXPECT_TRUE(updater->StateArrays().empty());
}

TEST(LocalUpdater, SgdFollowsThePaperWithAndWithoutMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    EXPECT_LT(WorstDistance(MakeConfig("sgd", momentum), {.momentum = momentum, .decay = 0.01}),
              kMaxRoundingDistance);
    EXPECT_GT(WorstDistance(MakeConfig("sgd", momentum),
                            {.fault = Reference::kAccumulates, .momentum = momentum}),
              kMinFaultDistance);
  }
  EXPECT_GT(
      WorstDistance(MakeConfig("sgd", 0.9), {.fault = Reference::kRateFolded, .momentum = 0.9}),
      kMinFaultDistance);
}

TEST(LocalUpdater, CompensatesAsEquations4To6) {
  for (const bool is_adaptive : {false, true}) {
    pb::LocalUpdater config = MakeConfig(is_adaptive ? "dcasgd_a" : "dcasgd_c", 0.5);
    config.set_lambda(is_adaptive ? 2 : 0.5);
    config.set_rho(0.95);
    config.set_grad_scale(pb::LocalUpdater::global_mean);
    const auto reference_with = [&](Reference::Fault fault) {
      return Reference{.fault = fault,
                       .lambda = config.lambda(),
                       .rho = 0.95,
                       .momentum = 0.5,
                       .scale = 1.0 / kNumWorkers,
                       .decay = 0.01,
                       .is_adaptive = is_adaptive};
    };
    EXPECT_LT(WorstDistance(config, reference_with(Reference::kNone)), kMaxRoundingDistance);
    for (const auto fault :
         {Reference::kNoCompensation, Reference::kLambdaIsDecay,
          Reference::kLambdaIsDecayDecayIsScale, Reference::kScaleAfterSquare, Reference::kNoScale,
          Reference::kRateFolded, Reference::kAccumulates}) {
      EXPECT_GT(WorstDistance(config, reference_with(fault)), kMinFaultDistance)
          << is_adaptive << " " << fault;
    }
    EXPECT_GT(WorstDistance(config, reference_with(Reference::kDecayInside)), kMinFaultDistance);
  }
}

// w' of a step with the schedule's rate `schedule_rate`.
std::vector<float> LocalPoint(const pb::LocalUpdater& config, float schedule_rate) {
  const std::vector<float> w = GlobalWeights(1), g = RandomValues(kNumElements, 1);
  std::vector<float> point(kNumElements);
  auto updater = std::move(*MakeLocalUpdater(config, kNumElements, 1));
  updater->ComputeLocalWeights(w.data(), g.data(), w.data(), schedule_rate, point.data(),
                               kNumElements);
  EXPECT_EQ(updater->CoefficientsOf(schedule_rate).lr,
            config.has_learning_rate()         ? config.learning_rate()
            : config.has_learning_rate_times() ? config.learning_rate_times() * schedule_rate
                                               : schedule_rate);
  return point;
}

TEST(LocalUpdater, OwnRateReplacesOrMultipliesTheSchedules) {
  pb::LocalUpdater config_with_rate = MakeConfig("sgd"), config_with_times = config_with_rate;
  config_with_rate.set_learning_rate(0.25);
  config_with_times.set_learning_rate_times(1.25);
  EXPECT_EQ(LocalPoint(config_with_rate, 7), LocalPoint(MakeConfig("sgd"), 0.25f));
  EXPECT_EQ(LocalPoint(config_with_times, 0.5f), LocalPoint(MakeConfig("sgd"), 0.625f));
}

// With one worker, OD-SGD equals SSGD exactly: the local update is the global one.
TEST(LocalUpdater, EqualsTheOptimizersBitForBit) {
  constexpr kernels::TensorRates kRates{.decay = 0.01f, .rate_times = 1.7f};
  for (const double momentum : {0.0, 0.9}) {
    pb::Optimizer config;
    config.set_name(momentum > 0 ? "momentum" : "sgd");
    config.set_momentum(momentum);
    auto optimizer = std::move(*MakeOptimizer(config, kNumElements));
    auto updater = std::move(*MakeLocalUpdater(MakeConfig("sgd", momentum), kNumElements, 1));
    std::vector<float> w = GlobalWeights(1), next(kNumElements);
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> g = RandomValues(kNumElements, 100 + step);
      updater->ComputeLocalWeights(w.data(), g.data(), nullptr, LearningRate(step), next.data(),
                                   kNumElements, 0, kRates);
      optimizer->Update(w.data(), g.data(), 0, kNumElements,
                        {LearningRate(step), uint64_t(step) + 1}, kRates);
      EXPECT_EQ(next, w);
    }
  }
}

TEST(LocalUpdater, RangesGiveTheSameBitsAsTheWhole) {
  pb::LocalUpdater config = MakeConfig("dcasgd_a", 0.9);
  config.set_lambda(2);
  auto whole_updater = std::move(*MakeLocalUpdater(config, kNumElements, 2));
  auto range_updater = std::move(*MakeLocalUpdater(config, kNumElements, 2));
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> w = GlobalWeights(step), g = RandomValues(kNumElements, step),
                             old_point = GlobalWeights(step - 1);
    std::vector<float> a(kNumElements), b(kNumElements);
    whole_updater->ComputeLocalWeights(w.data(), g.data(), old_point.data(), 0.1f, a.data(),
                                       kNumElements);
    size_t first = 0;
    for (const size_t n : {1, 4097, 900, 5002}) {
      range_updater->ComputeLocalWeights(w.data() + first, g.data() + first,
                                         old_point.data() + first, 0.1f, b.data() + first, n,
                                         first);
      first += n;
    }
    ASSERT_EQ(first, kNumElements);
    EXPECT_EQ(a, b);
  }
}

TEST(LocalUpdater, StateArraysContainTheWholeState) {
  const std::vector<std::vector<std::string>> expected_names = {
      {}, {"local_momentum"}, {"local_momentum"}, {"local_momentum", "local_mean_square"}};
  for (size_t k = 0; k < LocalUpdaterNames().size(); ++k) {
    pb::LocalUpdater config = MakeConfig(LocalUpdaterNames()[k], 0.9);
    config.set_lambda(2);
    auto original = std::move(*MakeLocalUpdater(config, kNumElements, 2));
    auto restored_updater = std::move(*MakeLocalUpdater(config, kNumElements, 2));
    const std::vector<float> w = GlobalWeights(1), g = RandomValues(kNumElements, 1),
                             old_point = GlobalWeights(2);
    std::vector<float> a(kNumElements), b(kNumElements);
    original->ComputeLocalWeights(w.data(), g.data(), old_point.data(), 0.1f, a.data(),
                                  kNumElements);
    std::vector<std::string> names_seen;
    const auto saved = original->StateArrays(), restored = restored_updater->StateArrays();
    for (size_t s = 0; s < saved.size(); ++s) {
      names_seen.push_back(saved[s].name);
      EXPECT_EQ(saved[s].values.size(), kNumElements);
      EXPECT_NE(saved[s].values[0], 0);
      std::copy(saved[s].values.begin(), saved[s].values.end(), restored[s].values.begin());
    }
    EXPECT_EQ(names_seen, expected_names[k]);
    original->ComputeLocalWeights(w.data(), g.data(), old_point.data(), 0.1f, a.data(),
                                  kNumElements);
    restored_updater->ComputeLocalWeights(w.data(), g.data(), old_point.data(), 0.1f, b.data(),
                                          kNumElements);
    EXPECT_EQ(a, b);
  }
}

TEST(LocalUpdater, UnknownNamesListTheKnownOnes) {
  const auto updater = MakeLocalUpdater(MakeConfig("dcasgd"), 9, 1);
  ASSERT_FALSE(updater.ok());
  EXPECT_EQ(updater.status().code(), Code::kBadJob);
  EXPECT_NE(updater.status().message().find("none, sgd, dcasgd_c, dcasgd_a"), std::string::npos);
}

}  // namespace
}  // namespace tern::update

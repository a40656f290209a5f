// Tests of the optimizers: each is compared with its formula in double precision.
#include "common/update/optimizer.h"

#include <functional>

#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

constexpr size_t kSizes[] = {40, 3, 29, 5};  // The number of elements of each tensor of a model.
constexpr size_t kNumElements = 77;
constexpr int kNumSteps = 40;
constexpr float kDecay = 0.01f;

pb::Optimizer MakeConfig(const std::string& name, double momentum = 0.9) {
  pb::Optimizer config;
  config.set_name(name);
  config.set_momentum(momentum);
  config.set_trust_coefficient(0.02);
  return config;
}

double LearningRate(int step) { return step < 20 ? 0.1 : 0.03; }  // The rate falls during the test.
// The gradient of the model. Its norm grows and shrinks from step to step, so that a wrong position
// of LARS's local rate in the formula changes the result.
std::vector<float> GradientAt(int step) {
  return RandomValues(kNumElements, 100 + step, 1 + step % 3);
}

// The model's weights after kNumSteps updates. Each update is made range by range; the ranges have
// these lengths.
std::vector<float> Train(Optimizer* optimizer, const std::vector<size_t>& range_lengths,
                         const kernels::TensorRates& rates, double rate_factor = 1) {
  std::vector<float> w = RandomValues(kNumElements, 1);
  for (int step = 0; step < kNumSteps; ++step) {
    const std::vector<float> g = GradientAt(step);
    size_t first = 0;
    for (const size_t n : range_lengths) {
      optimizer->Update(w.data() + first, g.data() + first, first, n,
                        {rate_factor * LearningRate(step), static_cast<uint64_t>(step) + 1}, rates);
      first += n;
    }
  }
  return w;
}

std::vector<float> Train(const pb::Optimizer& config, const kernels::TensorRates& rates,
                         double rate_factor = 1) {
  return Train(std::move(*MakeOptimizer(config, kNumElements)).get(),
               {std::begin(kSizes), std::end(kSizes)}, rates, rate_factor);
}

// A function that makes update t (from 1) of one tensor's weights w in double precision. It keeps
// state, such as momentum, between calls.
using UpdateRule = std::function<void(size_t tensor, std::vector<double>& w,
                                      const std::vector<double>& g, int t, double rate)>;

// The model's weights after the same updates as in Train, in double precision, tensor by tensor.
std::vector<double> TrainWithRule(const UpdateRule& rule) {
  const std::vector<float> initial_weights = RandomValues(kNumElements, 1);
  std::vector<double> model;
  size_t first = 0;
  for (size_t tensor = 0; tensor < std::size(kSizes); first += kSizes[tensor++]) {
    std::vector<double> w(initial_weights.begin() + first,
                          initial_weights.begin() + first + kSizes[tensor]);
    for (int step = 0; step < kNumSteps; ++step) {
      const std::vector<float> g = GradientAt(step);
      rule(tensor, w, {g.begin() + first, g.begin() + first + kSizes[tensor]}, step + 1,
           LearningRate(step));
    }
    model.insert(model.end(), w.begin(), w.end());
  }
  return model;
}

// One number per element, as [tensor][element].
using State = std::vector<std::vector<double>>;
State Zeros() {
  State zeros;
  for (const size_t n : kSizes) zeros.emplace_back(n);
  return zeros;
}

double NormOf(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

// With weight decay in g: v = m v + g, then w -= rate v.
UpdateRule MomentumRule(double m, double decay) {
  return [m, decay, v = Zeros()](size_t t, auto& w, const auto& g, int, double rate) mutable {
    for (size_t i = 0; i < w.size(); ++i) {
      v[t][i] = m * v[t][i] + g[i] + decay * w[i];
      w[i] -= rate * v[t][i];
    }
  };
}

TEST(Optimizer, SgdFollowsTheFormula) {
  EXPECT_LT(
      RelativeDistance(Train(MakeConfig("sgd"), {kDecay}), TrainWithRule(MomentumRule(0, kDecay))),
      kMaxRoundingDistance);
}

TEST(Optimizer, MomentumFollowsTheFormula) {
  const std::vector<float> w = Train(MakeConfig("momentum"), {kDecay});
  EXPECT_LT(RelativeDistance(w, TrainWithRule(MomentumRule(0.9, kDecay))), kMaxRoundingDistance);
  // If the rate is folded into the velocity (MXNet's form), a fall of the rate takes effect later.
  const UpdateRule folded_rule = [v = Zeros()](size_t t, auto& x, const auto& g, int,
                                               double rate) mutable {
    for (size_t i = 0; i < x.size(); ++i) {
      v[t][i] = 0.9 * v[t][i] - rate * (g[i] + kDecay * x[i]);
      x[i] += v[t][i];
    }
  };
  EXPECT_GT(RelativeDistance(w, TrainWithRule(folded_rule)), kMinFaultDistance);
}

TEST(Optimizer, NesterovFollowsPyTorchsForm) {
  const UpdateRule rule = [b = Zeros()](size_t t, auto& w, const auto& g, int,
                                        double rate) mutable {
    for (size_t i = 0; i < w.size(); ++i) {
      const double d = g[i] + kDecay * w[i];
      b[t][i] = 0.9 * b[t][i] + d;
      w[i] -= rate * (d + 0.9 * b[t][i]);
    }
  };
  const std::vector<float> w = Train(MakeConfig("nesterov"), {kDecay});
  EXPECT_LT(RelativeDistance(w, TrainWithRule(rule)), kMaxRoundingDistance);
  EXPECT_GT(RelativeDistance(w, TrainWithRule(MomentumRule(0.9, kDecay))), kMinFaultDistance);
}

// In Nesterov's own form the gradient is taken at x + m v, and x is updated. The weights of
// PyTorch's form are x + m v.
TEST(Optimizer, NesterovLooksAhead) {
  constexpr double kRate = 0.02, kM = 0.9;
  const std::vector<double> curvature = {0.5, 1, 3, 10};
  const auto optimizer = std::move(*MakeOptimizer(MakeConfig("nesterov", kM), 4));
  std::vector<float> w = {1, -2, 3, 0.5};
  std::vector<double> x = ToDouble(w), v(4);
  for (uint64_t step = 1; step <= 30; ++step) {
    std::vector<float> g(4);
    for (size_t i = 0; i < 4; ++i) {
      g[i] = static_cast<float>(curvature[i]) * w[i];
      v[i] = kM * v[i] - kRate * curvature[i] * (x[i] + kM * v[i]);
      x[i] += v[i];
    }
    optimizer->Update(w.data(), g.data(), 0, 4, {kRate, step}, {});
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], x[i] + kM * v[i], 1e-5);
}

// Algorithm 1 of Kingma and Ba. Each Fault is a mistake that the test must detect.
struct AdamRule {
  enum Fault { kNone, kNoCorrections, kEpsilonInside, kOneUpdateLate } fault = kNone;
  State m = Zeros(), v = Zeros();

  void operator()(size_t tensor, std::vector<double>& w, const std::vector<double>& gradient, int t,
                  double rate) {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-3;
    if (fault == kOneUpdateLate) t += 1;
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i] + kDecay * w[i];
      m[tensor][i] = kBeta1 * m[tensor][i] + (1 - kBeta1) * g;
      v[tensor][i] = kBeta2 * v[tensor][i] + (1 - kBeta2) * g * g;
      double m_hat = m[tensor][i] / (1 - std::pow(kBeta1, t));
      double v_hat = v[tensor][i] / (1 - std::pow(kBeta2, t));
      if (fault == kNoCorrections) m_hat = m[tensor][i], v_hat = v[tensor][i];
      w[i] -= rate * m_hat /
              (fault == kEpsilonInside ? std::sqrt(v_hat + kEpsilon) : std::sqrt(v_hat) + kEpsilon);
    }
  }
};

TEST(Optimizer, AdamFollowsItsAlgorithm) {
  pb::Optimizer config = MakeConfig("adam");
  config.set_beta2(0.99);
  config.set_epsilon(1e-3);
  const std::vector<float> w = Train(config, {kDecay});
  EXPECT_LT(RelativeDistance(w, TrainWithRule(AdamRule{})), kMaxRoundingDistance);
  for (const auto fault :
       {AdamRule::kNoCorrections, AdamRule::kEpsilonInside, AdamRule::kOneUpdateLate}) {
    EXPECT_GT(RelativeDistance(w, TrainWithRule(AdamRule{fault})), kMinFaultDistance) << fault;
  }
}

TEST(Optimizer, AdamDoesNotMoveWithoutGradientAndStaysFinite) {
  const auto optimizer = std::move(*MakeOptimizer(MakeConfig("adam"), 2));
  std::vector<float> w = {1, 2};
  const std::vector<float> zero_gradient = {0, 0}, g = {1, -1};
  optimizer->Update(w.data(), zero_gradient.data(), 0, 2, {0.1, 1}, {});
  EXPECT_EQ(w, (std::vector<float>{1, 2}));
  optimizer->Update(w.data(), g.data(), 0, 2, {0.1, uint64_t{1} << 62}, {});
  EXPECT_TRUE(std::isfinite(w[0]) && w[0] < 1 && w[1] > 2);
}

// RMSProp in TensorFlow's form. Each Fault is a mistake that the test must detect.
struct RmspropRule {
  enum Fault { kNone, kEpsilonOutside, kRateOutside, kSquareUpdatedLate } fault = kNone;
  State v = Zeros(), square = Zeros();

  void operator()(size_t tensor, std::vector<double>& w, const std::vector<double>& gradient, int,
                  double rate) {
    constexpr double kRho = 0.8, kEpsilon = 0.1, kM = 0.9;
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i] + kDecay * w[i];
      const double old_square = square[tensor][i];
      square[tensor][i] = kRho * old_square + (1 - kRho) * g * g;
      const double used = fault == kSquareUpdatedLate ? old_square : square[tensor][i];
      const double direction =
          g / (fault == kEpsilonOutside ? std::sqrt(used) + kEpsilon : std::sqrt(used + kEpsilon));
      v[tensor][i] = kM * v[tensor][i] + (fault == kRateOutside ? direction : rate * direction);
      w[i] -= fault == kRateOutside ? rate * v[tensor][i] : v[tensor][i];
    }
  }
};

TEST(Optimizer, RmspropFollowsTensorFlowsForm) {
  pb::Optimizer config = MakeConfig("rmsprop");
  config.set_rho(0.8);
  config.set_epsilon(0.1);
  const std::vector<float> w = Train(config, {kDecay});
  EXPECT_LT(RelativeDistance(w, TrainWithRule(RmspropRule{})), kMaxRoundingDistance);
  for (const auto fault :
       {RmspropRule::kEpsilonOutside, RmspropRule::kRateOutside, RmspropRule::kSquareUpdatedLate})
    EXPECT_GT(RelativeDistance(w, TrainWithRule(RmspropRule{fault})), kMinFaultDistance) << fault;
}

// LARS: the local rate lambda = eta |w| / (|g| + beta |w|) multiplies the gradient before momentum;
// beta is the weight decay, gamma the learning rate. Each Fault is a mistake that the test must
// detect.
struct LarsRule {
  enum Fault { kNone, kRateOnVelocity, kNoDecayInRate, kNormOfTheSum, kWholeModel } fault = kNone;
  State v = Zeros();

  void operator()(size_t tensor, std::vector<double>& w, const std::vector<double>& g, int,
                  double gamma) {
    constexpr double kEta = 0.02, kBeta = kDecay, kM = 0.9;
    std::vector<double> gradient_with_decay = g;
    for (size_t i = 0; i < g.size(); ++i) gradient_with_decay[i] += kBeta * w[i];
    double divisor = NormOf(g) + kBeta * NormOf(w);
    if (fault == kNoDecayInRate) divisor = NormOf(g);
    if (fault == kNormOfTheSum) divisor = NormOf(gradient_with_decay);
    double lambda = kEta * NormOf(w) / divisor;
    if (fault == kWholeModel) lambda = kEta * 0.5;
    for (size_t i = 0; i < w.size(); ++i) {
      if (fault == kRateOnVelocity) {
        v[tensor][i] = kM * v[tensor][i] + gradient_with_decay[i];
        w[i] -= gamma * lambda * v[tensor][i];
      } else {
        v[tensor][i] = kM * v[tensor][i] + lambda * gradient_with_decay[i];
        w[i] -= gamma * v[tensor][i];
      }
    }
  }
};

TEST(Optimizer, LarsFollowsTheEquations) {
  EXPECT_TRUE((*MakeOptimizer(MakeConfig("lars"), kNumElements))->needs_whole_tensors());
  const std::vector<float> w = Train(MakeConfig("lars"), {kDecay});
  EXPECT_LT(RelativeDistance(w, TrainWithRule(LarsRule{})), 1e-6);
  for (const auto fault : {LarsRule::kRateOnVelocity, LarsRule::kNoDecayInRate,
                           LarsRule::kNormOfTheSum, LarsRule::kWholeModel}) {
    EXPECT_GT(RelativeDistance(w, TrainWithRule(LarsRule{fault})), kMaxRoundingDistance) << fault;
  }
}

// 4 is a power of two, so that the products of both sides are rounded alike.
TEST(Optimizer, RateTimesMultipliesTheRate) {
  for (const std::string& name : OptimizerNames()) {
    const std::vector<float> plain = Train(MakeConfig(name), {kDecay});
    EXPECT_EQ(Train(MakeConfig(name), {.decay = kDecay, .rate_times = 4}, 0.25), plain) << name;
    EXPECT_NE(Train(MakeConfig(name), {.decay = kDecay, .rate_times = 4}), plain) << name;
  }
}

// A rule's until_step. The momentum of RMSProp has the rates of earlier steps.
TEST(Optimizer, ATensorWhoseRateHasEndedDoesNotMove) {
  for (const std::string& name : OptimizerNames()) {
    const auto optimizer = std::move(*MakeOptimizer(MakeConfig(name), 2));
    std::vector<float> w = {1, -3};
    const std::vector<float> g = {1, -2};
    optimizer->Update(w.data(), g.data(), 0, 2, {0.5, 1}, {.decay = kDecay});
    const std::vector<float> moved = w;
    EXPECT_NE(moved, (std::vector<float>{1, -3})) << name;
    optimizer->Update(w.data(), g.data(), 0, 2, {0.5, 2}, {.decay = kDecay, .rate_times = 0});
    EXPECT_EQ(w, moved) << name;
  }
}

TEST(Optimizer, LarsMovesATensorOfZeros) {
  const auto optimizer = std::move(*MakeOptimizer(MakeConfig("lars"), 2));
  std::vector<float> w = {0, 0};
  const std::vector<float> g = {1, -2}, zero_gradient = {0, 0};
  optimizer->Update(w.data(), zero_gradient.data(), 0, 2, {0.5, 1}, {});
  EXPECT_EQ(w, (std::vector<float>{0, 0}));
  optimizer->Update(w.data(), g.data(), 0, 2, {0.5, 2}, {});
  EXPECT_EQ(w, (std::vector<float>{-0.5, 1}));  // the local rate of zeros is 1
}

TEST(Optimizer, RangesGiveTheSameBitsAsTheWhole) {
  for (const std::string& name : OptimizerNames()) {
    const auto whole_optimizer = std::move(*MakeOptimizer(MakeConfig(name), kNumElements));
    if (whole_optimizer->needs_whole_tensors()) continue;
    const std::vector<float> whole_result = Train(whole_optimizer.get(), {kNumElements}, {kDecay});
    for (const std::vector<size_t>& ranges :
         {std::vector<size_t>(kNumElements, 1), {7, 16, 40, 14}, {40, 37}}) {
      const auto range_optimizer = std::move(*MakeOptimizer(MakeConfig(name), kNumElements));
      EXPECT_EQ(Train(range_optimizer.get(), ranges, {kDecay}), whole_result) << name;
    }
  }
}

TEST(Optimizer, NoMomentumIsSgd) {
  const std::vector<float> sgd_weights = Train(MakeConfig("sgd"), {});
  EXPECT_EQ(Train(MakeConfig("momentum", 0), {}), sgd_weights);
  EXPECT_EQ(Train(MakeConfig("nesterov", 0), {}), sgd_weights);
}

TEST(Optimizer, StateArraysContainTheWholeState) {
  const std::vector<std::vector<std::string>> expected_names = {
      {},           {"momentum"},
      {"momentum"}, {"first_moment", "second_moment"},
      {"momentum"}, {"momentum", "mean_square"}};
  for (size_t k = 0; k < OptimizerNames().size(); ++k) {
    const pb::Optimizer config = MakeConfig(OptimizerNames()[k]);
    const auto original = std::move(*MakeOptimizer(config, 9));
    std::vector<std::string> names_seen;
    for (const Optimizer::StateArray& slot : original->StateArrays()) {
      names_seen.push_back(slot.name);
      EXPECT_EQ(std::vector<float>(slot.values.begin(), slot.values.end()), std::vector<float>(9));
    }
    EXPECT_EQ(names_seen, expected_names[k]) << config.name();
    // A replica with copied weights, state arrays and update number continues identically.
    std::vector<float> w = RandomValues(9, 1);
    const std::vector<float> g = RandomValues(9, 2);
    for (uint64_t t = 1; t <= 3; ++t) original->Update(w.data(), g.data(), 0, 9, {0.1, t}, {});
    const auto copy = std::move(*MakeOptimizer(config, 9));
    const auto saved = original->StateArrays(), restored = copy->StateArrays();
    for (size_t s = 0; s < saved.size(); ++s) {
      EXPECT_NE(saved[s].values[0], 0);
      std::copy(saved[s].values.begin(), saved[s].values.end(), restored[s].values.begin());
    }
    std::vector<float> copied_weights = w;
    original->Update(w.data(), g.data(), 0, 9, {0.1, 4}, {});
    copy->Update(copied_weights.data(), g.data(), 0, 9, {0.1, 4}, {});
    EXPECT_EQ(w, copied_weights) << config.name();
  }
}

TEST(Optimizer, UnknownNamesListTheKnownOnes) {
  const auto optimizer = MakeOptimizer(MakeConfig("adamw"), 9);
  ASSERT_FALSE(optimizer.ok());
  EXPECT_EQ(optimizer.status().code(), Code::kBadJob);
  EXPECT_NE(optimizer.status().message().find("sgd, momentum, nesterov, adam, lars, rmsprop"),
            std::string::npos);
  EXPECT_EQ(OptimizerNames(),
            (std::vector<std::string>{"sgd", "momentum", "nesterov", "adam", "lars", "rmsprop"}));
}

pb::OuterOptimizer MakeOuterConfig(const std::string& name) {
  pb::OuterOptimizer config;
  config.set_name(name);
  return config;
}

// The momentum is the default one, 0.9, as in MakeConfig.
TEST(OuterOptimizer, IsTheOptimizerOfItsName) {
  for (const std::string& name : OuterOptimizerNames()) {
    const auto outer = MakeOuterOptimizer(MakeOuterConfig(name), kNumElements);
    ASSERT_TRUE(outer.ok()) << outer.status().message();
    EXPECT_EQ(Train(outer->get(), {kNumElements}, {}), Train(MakeConfig(name), {})) << name;
    EXPECT_EQ((*outer)->StateArrays().size(), name == "sgd" ? 0u : 1u);
  }
}

TEST(OuterOptimizer, IsOneOfThree) {
  EXPECT_EQ(OuterOptimizerNames(), (std::vector<std::string>{"sgd", "momentum", "nesterov"}));
  const auto outer = MakeOuterOptimizer(MakeOuterConfig("adam"), 9);
  ASSERT_EQ(outer.status().code(), Code::kBadJob);
  EXPECT_NE(outer.status().message().find(
                "the outer optimizer is 'adam', expected one of sgd, momentum, nesterov"),
            std::string::npos);
}

TEST(Optimizer, IsDescribedWithItsMomentum) {
  EXPECT_EQ(DescribeOptimizer(MakeConfig("sgd")), "sgd");
  EXPECT_EQ(DescribeOptimizer(MakeConfig("adam")), "adam");
  EXPECT_EQ(DescribeOptimizer(MakeConfig("momentum")), "momentum 0.9");
  EXPECT_EQ(DescribeOptimizer(MakeConfig("lars", 0.5)), "lars with momentum 0.5");
}

TEST(Optimizer, InvalidArgumentsAreNamed) {
  const auto refusal_message = [](const pb::Optimizer& config) {
    const auto optimizer = MakeOptimizer(config, 9);
    EXPECT_EQ(optimizer.status().code(), Code::kBadJob);
    return optimizer.status().message();
  };
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    for (const char* name : {"momentum", "nesterov", "lars", "rmsprop"})
      EXPECT_NE(refusal_message(MakeConfig(name, bad)).find("train.optimizer.momentum"),
                std::string::npos);
    pb::Optimizer config = MakeConfig("adam");
    config.set_beta1(bad);
    EXPECT_NE(refusal_message(config).find("train.optimizer.beta1"), std::string::npos);
  }
  pb::Optimizer config = MakeConfig("adam");
  config.set_beta2(1);
  EXPECT_NE(refusal_message(config).find("train.optimizer.beta2"), std::string::npos);
  for (const double bad : {0.0, 1e-60, -1.0, std::nan("")}) {
    for (const char* name : {"adam", "rmsprop"}) {
      config = MakeConfig(name);
      config.set_epsilon(bad);
      EXPECT_NE(refusal_message(config).find("train.optimizer.epsilon"), std::string::npos);
    }
  }
  config = MakeConfig("rmsprop");
  config.set_rho(1);
  EXPECT_NE(refusal_message(config).find("train.optimizer.rho"), std::string::npos);
  config = MakeConfig("lars");
  config.set_trust_coefficient(0);
  EXPECT_NE(refusal_message(config).find("train.optimizer.trust_coefficient"), std::string::npos);
}

}  // namespace
}  // namespace tern::update

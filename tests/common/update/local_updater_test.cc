#include "common/update/local_updater.h"

#include "common/update/optimizer.h"
#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

constexpr size_t kTotal = 10'000;  // several blocks of the updater's loop
constexpr uint32_t kWorkers = 4;
constexpr int kSteps = 30;

pb::LocalUpdater Def(const std::string& name, double momentum = 0) {
  pb::LocalUpdater def;
  def.set_name(name);
  def.set_momentum(momentum);
  return def;
}

float RateOf(int step) { return step < 15 ? 0.5f : 0.1f; }
std::vector<float> GlobalOf(int step) { return Random(kTotal, 200 + step, 0.3); }

// The local update of OD-SGD's paper, w' = W + U_local(g), in double precision. Its equations 4 to
// 6 give the compensation. Each Fault changes one thing, as the kernels released with the paper or
// a similar mistake would.
struct Reference {
  enum Fault {
    kNone,
    kNoCompensation,
    kLambdaIsDecay,           // released DCUpdate: swaps weight decay and lambda
    kLambdaIsDecayWdIsScale,  // released ADCUpdate: decay as lambda, grad_scale as decay
    kScaleAfterSquare,        // lambda g g from the gradient without grad_scale
    kNoScale,
    kRateFolded,   // the rate is part of the momentum, as in MXNet
    kAccumulates,  // starts from the last w' instead of W
    kDecayInside,  // the squared gradient includes the decay
  } fault = kNone;
  double lambda = 0, rho = 0, momentum = 0, scale = 1, decay = 0;
  bool adaptive = false;
  std::vector<double> v = std::vector<double>(kTotal), ms = v, last = {};

  std::vector<double> Next(const std::vector<double>& w, const std::vector<double>& gradient,
                           const std::vector<double>& reference, double rate) {
    double l = lambda, wd = decay, s = scale;
    if (fault == kLambdaIsDecay) l = decay, wd = lambda;
    if (fault == kLambdaIsDecayWdIsScale) l = decay, wd = scale, s = 1;
    if (fault == kNoScale) s = 1;
    std::vector<double> next = fault == kAccumulates && !last.empty() ? last : w;
    for (size_t i = 0; i < w.size(); ++i) {
      double g = s * gradient[i];
      if (fault == kDecayInside) g += wd * w[i];
      const double square = fault == kScaleAfterSquare ? gradient[i] * gradient[i] : g * g;
      ms[i] = rho * ms[i] + (1 - rho) * square;
      const double factor = adaptive ? l / std::sqrt(ms[i] + 1e-7) : l;
      if (fault != kNoCompensation) g += factor * square * (w[i] - reference[i]);
      if (fault != kDecayInside) g += wd * w[i];
      if (fault == kRateFolded) {
        v[i] = momentum * v[i] - rate * g;
        next[i] += v[i];
      } else {
        v[i] = momentum * v[i] + g;
        next[i] -= rate * v[i];
      }
    }
    last = next;
    return next;
  }
};

// The largest distance between w' and the reference's over kSteps, relative to the norm of the
// update. The compensation is relative to the last w'.
double WorstDistance(const pb::LocalUpdater& def, Reference reference) {
  auto updater = std::move(*MakeLocalUpdater(def, kTotal, kWorkers));
  std::vector<float> point = GlobalOf(-1);
  double worst = 0;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> w = GlobalOf(step), g = Random(kTotal, 100 + step);
    std::vector<double> expected = reference.Next(Wide(w), Wide(g), Wide(point), RateOf(step));
    updater->Next(w.data(), g.data(), point.data(), RateOf(step), point.data(), kTotal, 0,
                  static_cast<float>(reference.decay));
    std::vector<float> move(kTotal);
    for (size_t i = 0; i < kTotal; ++i) {
      move[i] = point[i] - w[i];
      expected[i] -= w[i];
    }
    worst = std::max(worst, Distance(move, expected));
  }
  return worst;
}

TEST(LocalUpdater, NoneIsPureDelay) {
  auto updater = std::move(*MakeLocalUpdater(Def("none", 0.9), kTotal, kWorkers));
  const std::vector<float> w = GlobalOf(1), g = Random(kTotal, 1);
  std::vector<float> next(kTotal);
  updater->Next(w.data(), g.data(), w.data(), 0.5f, next.data(), kTotal);
  EXPECT_EQ(next, w);
  EXPECT_TRUE(updater->StateArrays().empty());
  EXPECT_FALSE(updater->compensates());
}

TEST(LocalUpdater, SgdFollowsThePaperWithAndWithoutMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    EXPECT_LT(WorstDistance(Def("sgd", momentum), {.momentum = momentum, .decay = 0.01}), kClose);
    EXPECT_GT(WorstDistance(Def("sgd", momentum),
                            {.fault = Reference::kAccumulates, .momentum = momentum}),
              kMutant);
  }
  EXPECT_GT(WorstDistance(Def("sgd", 0.9), {.fault = Reference::kRateFolded, .momentum = 0.9}),
            kMutant);
}

TEST(LocalUpdater, CompensatesAsEquations4To6) {
  for (const bool adaptive : {false, true}) {
    pb::LocalUpdater def = Def(adaptive ? "dcasgd_a" : "dcasgd_c", 0.5);
    def.set_lambda(adaptive ? 2 : 0.5);
    def.set_rho(0.95);
    def.set_grad_scale(pb::LocalUpdater::global_mean);
    const auto reference = [&](Reference::Fault fault) {
      return Reference{.fault = fault,
                       .lambda = def.lambda(),
                       .rho = 0.95,
                       .momentum = 0.5,
                       .scale = 1.0 / kWorkers,
                       .decay = 0.01,
                       .adaptive = adaptive};
    };
    EXPECT_LT(WorstDistance(def, reference(Reference::kNone)), kClose);
    for (const auto fault :
         {Reference::kNoCompensation, Reference::kLambdaIsDecay, Reference::kLambdaIsDecayWdIsScale,
          Reference::kScaleAfterSquare, Reference::kNoScale, Reference::kRateFolded,
          Reference::kAccumulates}) {
      EXPECT_GT(WorstDistance(def, reference(fault)), kMutant) << adaptive << " " << fault;
    }
    EXPECT_GT(WorstDistance(def, reference(Reference::kDecayInside)), kMutant);
  }
}

TEST(LocalUpdater, OwnRateReplacesTheSchedules) {
  pb::LocalUpdater own = Def("sgd");
  own.set_learning_rate(0.25);
  const std::vector<float> w = GlobalOf(1), g = Random(kTotal, 1);
  std::vector<float> a(kTotal), b(kTotal);
  (*MakeLocalUpdater(own, kTotal, 1))->Next(w.data(), g.data(), w.data(), 7, a.data(), kTotal);
  (*MakeLocalUpdater(Def("sgd"), kTotal, 1))
      ->Next(w.data(), g.data(), w.data(), 0.25f, b.data(), kTotal);
  EXPECT_EQ(a, b);
}

// docs/ALGORITHMS.md, section 19: with one worker, OD-SGD is SSGD exactly.
TEST(LocalUpdater, EqualsTheOptimizersBitForBit) {
  for (const double momentum : {0.0, 0.9}) {
    pb::Optimizer def;
    def.set_name(momentum > 0 ? "momentum" : "sgd");
    def.set_momentum(momentum);
    auto global = std::move(*MakeOptimizer(def, kTotal));
    auto local = std::move(*MakeLocalUpdater(Def("sgd", momentum), kTotal, 1));
    std::vector<float> w = GlobalOf(1), next(kTotal);
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> g = Random(kTotal, 100 + step);
      local->Next(w.data(), g.data(), nullptr, RateOf(step), next.data(), kTotal, 0, 0.01f);
      global->Update(w.data(), g.data(), 0, kTotal, {RateOf(step), uint64_t(step) + 1}, 0.01f);
      EXPECT_EQ(next, w);
    }
  }
}

TEST(LocalUpdater, RangesGiveTheSameBitsAsTheWhole) {
  pb::LocalUpdater def = Def("dcasgd_a", 0.9);
  auto whole = std::move(*MakeLocalUpdater(def, kTotal, 2));
  auto ranges = std::move(*MakeLocalUpdater(def, kTotal, 2));
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> w = GlobalOf(step), g = Random(kTotal, step), old = GlobalOf(step - 1);
    std::vector<float> a(kTotal), b(kTotal);
    whole->Next(w.data(), g.data(), old.data(), 0.1f, a.data(), kTotal);
    size_t first = 0;
    for (const size_t n : {1, 4097, 900, 5002}) {
      ranges->Next(w.data() + first, g.data() + first, old.data() + first, 0.1f, b.data() + first,
                   n, first);
      first += n;
    }
    ASSERT_EQ(first, kTotal);
    EXPECT_EQ(a, b);
  }
}

TEST(LocalUpdater, StateArraysContainTheWholeState) {
  const std::vector<std::vector<std::string>> names = {
      {}, {"local_momentum"}, {"local_momentum"}, {"local_momentum", "local_mean_square"}};
  for (size_t k = 0; k < LocalUpdaterNames().size(); ++k) {
    const pb::LocalUpdater def = Def(LocalUpdaterNames()[k], 0.9);
    auto first = std::move(*MakeLocalUpdater(def, kTotal, 2));
    auto second = std::move(*MakeLocalUpdater(def, kTotal, 2));
    EXPECT_EQ(first->compensates(), k >= 2);
    const std::vector<float> w = GlobalOf(1), g = Random(kTotal, 1), old = GlobalOf(2);
    std::vector<float> a(kTotal), b(kTotal);
    first->Next(w.data(), g.data(), old.data(), 0.1f, a.data(), kTotal);
    std::vector<std::string> seen;
    const auto from = first->StateArrays(), to = second->StateArrays();
    for (size_t s = 0; s < from.size(); ++s) {
      seen.push_back(from[s].name);
      EXPECT_EQ(from[s].values.size(), kTotal);
      EXPECT_NE(from[s].values[0], 0);
      std::copy(from[s].values.begin(), from[s].values.end(), to[s].values.begin());
    }
    EXPECT_EQ(seen, names[k]);
    first->Next(w.data(), g.data(), old.data(), 0.1f, a.data(), kTotal);
    second->Next(w.data(), g.data(), old.data(), 0.1f, b.data(), kTotal);
    EXPECT_EQ(a, b);
  }
}

TEST(LocalUpdater, UnknownNamesListTheKnownOnes) {
  const auto made = MakeLocalUpdater(Def("dcasgd"), 9, 1);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kBadJob);
  EXPECT_NE(made.status().message().find("none, sgd, dcasgd_c, dcasgd_a"), std::string::npos);
}

}  // namespace
}  // namespace tern::update

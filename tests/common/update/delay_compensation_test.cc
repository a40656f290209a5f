#include "common/update/delay_compensation.h"

#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

constexpr size_t kTotal = 200;
constexpr int kSteps = 30;

// Gradients have magnitudes of 10^-4 to 10: below, near and above the root of epsilon.
std::vector<float> GradientOf(int step) {
  std::vector<float> g = Random(kTotal, 100 + step);
  for (size_t i = 0; i < g.size(); ++i)
    g[i] *= static_cast<float>(std::pow(10.0, static_cast<double>(i % 6) - 4));
  return g;
}
std::vector<float> NowOf(int step) { return Random(kTotal, 200 + step); }
std::vector<float> BackupOf(int step) { return Random(kTotal, 300 + step); }

// OD-SGD's equations 4 to 6 in double. Each fault is a mistake that the tests must detect.
struct Reference {
  enum Fault {
    kNone,
    kNoTerm,
    kWrongSign,       // w_bak - w
    kSquareMissing,   // lambda g (w - w_bak)
    kUseBeforeMean,   // uses the mean square before this step's update
    kEpsilonOutside,  // sqrt(MS) + epsilon
    kEpsilonInState,  // adds epsilon to the saved mean square, as the released code
    kNoEpsilon,
    kRhoSwapped,  // (1 - rho) MS + rho g g
  };
  bool adaptive;
  double lambda, rho = 0;
  Fault fault = kNone;
  std::vector<double> ms = std::vector<double>(kTotal);

  double Of(size_t i, double g, double w, double w_bak) {
    constexpr double kEpsilon = 1e-7;
    const double r = fault == kRhoSwapped ? 1 - rho : rho;
    const double before = ms[i];
    ms[i] = r * ms[i] + (1 - r) * g * g + (fault == kEpsilonInState ? kEpsilon : 0);
    const double used = fault == kUseBeforeMean ? before : ms[i];
    double root = std::sqrt(used + kEpsilon);
    if (fault == kEpsilonOutside) root = std::sqrt(used) + kEpsilon;
    if (fault == kEpsilonInState || fault == kNoEpsilon) root = std::sqrt(used);
    if (fault == kNoTerm) return g;
    const double factor = adaptive ? lambda / root : lambda;
    return g + factor * g * (fault == kSquareMissing ? 1 : g) *
                   (fault == kWrongSign ? w_bak - w : w - w_bak);
  }
};

// The largest relative error of an element over kSteps gradients. If the result nearly vanishes,
// the error is relative to its two terms.
double WorstError(DelayCompensation compensation, Reference reference, size_t piece = kTotal) {
  double worst = 0;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> g = GradientOf(step), w = NowOf(step), w_bak = BackupOf(step);
    std::vector<float> out(kTotal);
    for (size_t at = 0; at < kTotal; at += piece) {
      compensation.Apply(g.data() + at, w.data() + at, w_bak.data() + at, at,
                         std::min(piece, kTotal - at), out.data() + at);
    }
    for (size_t i = 0; i < kTotal; ++i) {
      const double expected = reference.Of(i, g[i], w[i], w_bak[i]);
      const double size = std::abs(g[i]) + std::abs(expected - g[i]);
      worst = std::max(worst, std::abs(out[i] - expected) / size);
    }
  }
  return worst;
}

TEST(DelayCompensation, ConstantFollowsEquation4) {
  const auto constant = [] { return DelayCompensation::Constant(0.04); };
  EXPECT_LT(WorstError(constant(), {false, 0.04}), 1e-6);
  for (const auto fault : {Reference::kNoTerm, Reference::kWrongSign, Reference::kSquareMissing})
    EXPECT_GT(WorstError(constant(), {false, 0.04, 0, fault}), 1e-3) << fault;
  EXPECT_GT(WorstError(constant(), {false, 1e-4}), 1e-3);  // mutant: the decay in place of lambda
  EXPECT_TRUE(constant().StateArrays().empty());
}

TEST(DelayCompensation, AdaptiveFollowsEquations5And6) {
  const auto adaptive = [] { return DelayCompensation::Adaptive(2, 0.95, kTotal); };
  EXPECT_LT(WorstError(adaptive(), {true, 2, 0.95}), 1e-6);
  for (const auto fault :
       {Reference::kNoTerm, Reference::kWrongSign, Reference::kSquareMissing,
        Reference::kUseBeforeMean, Reference::kEpsilonOutside, Reference::kEpsilonInState,
        Reference::kNoEpsilon, Reference::kRhoSwapped}) {
    EXPECT_GT(WorstError(adaptive(), {true, 2, 0.95, fault}), 1e-3) << fault;
  }
  EXPECT_GT(WorstError(adaptive(), {true, 0.95, 2}), 1e-3);  // mutant: lambda and rho swapped
}

// With rho 0 the mean square, updated before use, is g g: the term is lambda |g| (w - w_bak).
TEST(DelayCompensation, WithoutMemoryTheTermIsLinearInTheGradient) {
  auto compensation = DelayCompensation::Adaptive(2, 0, 2);
  const std::vector<float> g = {3, -5}, w = {1, 1}, w_bak = {0.5, 2};
  std::vector<float> out(2);
  compensation.Apply(g.data(), w.data(), w_bak.data(), 0, 2, out.data());
  EXPECT_NEAR(out[0], 3 + 2 * 3 * 0.5, 1e-6);
  EXPECT_NEAR(out[1], -5 + 2 * 5 * -1.0, 1e-6);
}

TEST(DelayCompensation, WithoutMoveOrLambdaItIsTheGradient) {
  const std::vector<float> g = GradientOf(1), w = NowOf(1), w_bak = BackupOf(1);
  std::vector<float> out(kTotal);
  for (const double lambda : {0.04, 0.0}) {
    for (auto compensation :
         {DelayCompensation::Constant(lambda), DelayCompensation::Adaptive(lambda, 0.95, kTotal)}) {
      compensation.Apply(g.data(), w.data(), lambda == 0 ? w_bak.data() : w.data(), 0, kTotal,
                         out.data());
      EXPECT_EQ(out, g);
    }
  }
}

TEST(DelayCompensation, WorksInPiecesAndInPlace) {
  for (const size_t piece : {1, 7, 64}) {
    EXPECT_LT(WorstError(DelayCompensation::Adaptive(2, 0.95, kTotal), {true, 2, 0.95}, piece),
              1e-6);
  }
  auto apart = DelayCompensation::Adaptive(2, 0.95, kTotal);
  auto in_place = DelayCompensation::Adaptive(2, 0.95, kTotal);
  const std::vector<float> g = GradientOf(1), w = NowOf(1);
  std::vector<float> out(kTotal), same = g, w_bak = BackupOf(1);
  apart.Apply(g.data(), w.data(), w_bak.data(), 0, kTotal, out.data());
  in_place.Apply(same.data(), w.data(), w_bak.data(), 0, kTotal, same.data());
  EXPECT_EQ(same, out);
}

TEST(DelayCompensation, StateArraysContainTheMeanSquare) {
  auto first = DelayCompensation::Adaptive(2, 0.95, kTotal);
  auto second = DelayCompensation::Adaptive(2, 0.95, kTotal);
  std::vector<float> a(kTotal), b(kTotal);
  first.Apply(GradientOf(1).data(), NowOf(1).data(), BackupOf(1).data(), 0, kTotal, a.data());
  const auto slots = first.StateArrays();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].name, "mean_square");
  std::copy(slots[0].values.begin(), slots[0].values.end(), second.StateArrays()[0].values.begin());
  const std::vector<float> g = GradientOf(2), w = NowOf(2), w_bak = BackupOf(2);
  first.Apply(g.data(), w.data(), w_bak.data(), 0, kTotal, a.data());
  second.Apply(g.data(), w.data(), w_bak.data(), 0, kTotal, b.data());
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace tern::update

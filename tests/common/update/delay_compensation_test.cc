// Tests of DelayCompensation (DC-ASGD). A gradient g was computed at the weights w_bak, but is
// applied to w. The compensated gradient is g + lambda g g (w - w_bak), or, if adaptive, has lambda
// / sqrt(MS + epsilon) in place of lambda, where MS is the moving mean of g g with the factor rho.
#include "common/update/delay_compensation.h"

#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

constexpr size_t kNumElements = 200;
constexpr int kNumSteps = 30;

// Gradients with magnitudes of 10^-4 to 10, that is, below, near and above the square root of
// epsilon.
std::vector<float> GradientAt(int step) {
  std::vector<float> g = RandomValues(kNumElements, 100 + step);
  for (size_t i = 0; i < g.size(); ++i)
    g[i] *= static_cast<float>(std::pow(10.0, static_cast<double>(i % 6) - 4));
  return g;
}
std::vector<float> WeightsAt(int step) { return RandomValues(kNumElements, 200 + step); }
std::vector<float> BackupWeightsAt(int step) { return RandomValues(kNumElements, 300 + step); }

// Equations 4 to 6 of the OD-SGD paper in double precision. Each Fault is a mistake that the tests
// must detect.
struct Reference {
  enum Fault {
    kNone,
    kNoTerm,          // The gradient is not compensated.
    kWrongSign,       // The term has w_bak - w.
    kSquareMissing,   // The term is lambda g (w - w_bak).
    kUseBeforeMean,   // The term uses the mean square before this step's update.
    kEpsilonOutside,  // The divisor is sqrt(MS) + epsilon.
    kEpsilonInState,  // Epsilon is added to the saved mean square, as in the paper's released code.
    kNoEpsilon,       // The divisor is sqrt(MS).
    kRhoSwapped,      // The mean square becomes (1 - rho) MS + rho g g.
  };
  bool is_adaptive;
  double lambda, rho = 0;
  Fault fault = kNone;
  std::vector<double> mean_square = std::vector<double>(kNumElements);

  double Compensate(size_t i, double g, double w, double w_bak) {
    constexpr double kEpsilon = 1e-7;
    const double used_rho = fault == kRhoSwapped ? 1 - rho : rho;
    const double square_before = mean_square[i];
    mean_square[i] = used_rho * mean_square[i] + (1 - used_rho) * g * g +
                     (fault == kEpsilonInState ? kEpsilon : 0);
    const double used_square = fault == kUseBeforeMean ? square_before : mean_square[i];
    double root = std::sqrt(used_square + kEpsilon);
    if (fault == kEpsilonOutside) root = std::sqrt(used_square) + kEpsilon;
    if (fault == kEpsilonInState || fault == kNoEpsilon) root = std::sqrt(used_square);
    if (fault == kNoTerm) return g;
    const double factor = is_adaptive ? lambda / root : lambda;
    return g + factor * g * (fault == kSquareMissing ? 1 : g) *
                   (fault == kWrongSign ? w_bak - w : w - w_bak);
  }
};

// The largest error of an element over kNumSteps gradients, relative to |g| + |compensation term|.
// It is not relative to g + compensation term, because that may nearly vanish.
double WorstError(DelayCompensation compensation, Reference reference,
                  size_t piece_elements = kNumElements) {
  double worst_error = 0;
  for (int step = 0; step < kNumSteps; ++step) {
    const std::vector<float> g = GradientAt(step), w = WeightsAt(step),
                             w_bak = BackupWeightsAt(step);
    std::vector<float> out(kNumElements);
    for (size_t first = 0; first < kNumElements; first += piece_elements) {
      compensation.CompensateGradient(g.data() + first, w.data() + first, w_bak.data() + first,
                                      first, std::min(piece_elements, kNumElements - first),
                                      out.data() + first);
    }
    for (size_t i = 0; i < kNumElements; ++i) {
      const double expected = reference.Compensate(i, g[i], w[i], w_bak[i]);
      const double magnitude = std::abs(g[i]) + std::abs(expected - g[i]);
      worst_error = std::max(worst_error, std::abs(out[i] - expected) / magnitude);
    }
  }
  return worst_error;
}

TEST(DelayCompensation, ConstantFollowsEquation4) {
  const auto make_constant = [] { return DelayCompensation::MakeConstant(0.04); };
  EXPECT_LT(WorstError(make_constant(), {false, 0.04}), 1e-6);
  for (const auto fault : {Reference::kNoTerm, Reference::kWrongSign, Reference::kSquareMissing})
    EXPECT_GT(WorstError(make_constant(), {false, 0.04, 0, fault}), 1e-3) << fault;
  // The fault: weight decay in place of lambda.
  EXPECT_GT(WorstError(make_constant(), {false, 1e-4}), 1e-3);
  EXPECT_TRUE(make_constant().StateArrays().empty());
}

TEST(DelayCompensation, AdaptiveFollowsEquations5And6) {
  const auto make_adaptive = [] { return DelayCompensation::MakeAdaptive(2, 0.95, kNumElements); };
  EXPECT_LT(WorstError(make_adaptive(), {true, 2, 0.95}), 1e-6);
  for (const auto fault :
       {Reference::kNoTerm, Reference::kWrongSign, Reference::kSquareMissing,
        Reference::kUseBeforeMean, Reference::kEpsilonOutside, Reference::kEpsilonInState,
        Reference::kNoEpsilon, Reference::kRhoSwapped}) {
    EXPECT_GT(WorstError(make_adaptive(), {true, 2, 0.95, fault}), 1e-3) << fault;
  }
  // The fault: lambda and rho are swapped.
  EXPECT_GT(WorstError(make_adaptive(), {true, 0.95, 2}), 1e-3);
}

// If rho is 0, the mean square is g g, because it is updated before it is used. The term is then
// lambda |g| (w - w_bak).
TEST(DelayCompensation, WithoutMemoryTheTermIsLinearInTheGradient) {
  auto compensation = DelayCompensation::MakeAdaptive(2, 0, 2);
  const std::vector<float> g = {3, -5}, w = {1, 1}, w_bak = {0.5, 2};
  std::vector<float> out(2);
  compensation.CompensateGradient(g.data(), w.data(), w_bak.data(), 0, 2, out.data());
  EXPECT_NEAR(out[0], 3 + 2 * 3 * 0.5, 1e-6);
  EXPECT_NEAR(out[1], -5 + 2 * 5 * -1.0, 1e-6);
}

TEST(DelayCompensation, WithoutMoveOrLambdaItIsTheGradient) {
  const std::vector<float> g = GradientAt(1), w = WeightsAt(1), w_bak = BackupWeightsAt(1);
  std::vector<float> out(kNumElements);
  for (const double lambda : {0.04, 0.0}) {
    for (auto compensation : {DelayCompensation::MakeConstant(lambda),
                              DelayCompensation::MakeAdaptive(lambda, 0.95, kNumElements)}) {
      compensation.CompensateGradient(g.data(), w.data(), lambda == 0 ? w_bak.data() : w.data(), 0,
                                      kNumElements, out.data());
      EXPECT_EQ(out, g);
    }
  }
}

TEST(DelayCompensation, WorksInPiecesAndInPlace) {
  for (const size_t piece_elements : {1, 7, 64}) {
    EXPECT_LT(WorstError(DelayCompensation::MakeAdaptive(2, 0.95, kNumElements), {true, 2, 0.95},
                         piece_elements),
              1e-6);
  }
  auto compensation_with_output = DelayCompensation::MakeAdaptive(2, 0.95, kNumElements);
  auto compensation_in_place = DelayCompensation::MakeAdaptive(2, 0.95, kNumElements);
  const std::vector<float> g = GradientAt(1), w = WeightsAt(1);
  std::vector<float> out(kNumElements), g_in_place = g, w_bak = BackupWeightsAt(1);
  compensation_with_output.CompensateGradient(g.data(), w.data(), w_bak.data(), 0, kNumElements,
                                              out.data());
  compensation_in_place.CompensateGradient(g_in_place.data(), w.data(), w_bak.data(), 0,
                                           kNumElements, g_in_place.data());
  EXPECT_EQ(g_in_place, out);
}

TEST(DelayCompensation, StateArraysContainTheMeanSquare) {
  auto original = DelayCompensation::MakeAdaptive(2, 0.95, kNumElements);
  auto restored = DelayCompensation::MakeAdaptive(2, 0.95, kNumElements);
  std::vector<float> a(kNumElements), b(kNumElements);
  original.CompensateGradient(GradientAt(1).data(), WeightsAt(1).data(), BackupWeightsAt(1).data(),
                              0, kNumElements, a.data());
  const auto state_arrays = original.StateArrays();
  ASSERT_EQ(state_arrays.size(), 1u);
  EXPECT_EQ(state_arrays[0].name, "mean_square");
  std::copy(state_arrays[0].values.begin(), state_arrays[0].values.end(),
            restored.StateArrays()[0].values.begin());
  const std::vector<float> g = GradientAt(2), w = WeightsAt(2), w_bak = BackupWeightsAt(2);
  original.CompensateGradient(g.data(), w.data(), w_bak.data(), 0, kNumElements, a.data());
  restored.CompensateGradient(g.data(), w.data(), w_bak.data(), 0, kNumElements, b.data());
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace tern::update

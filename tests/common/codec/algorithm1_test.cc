// Compares Tern's implementation of TernGrad's Algorithm 1 with a readable reference in double
// precision, step by step. The accuracy of a trained model does not distinguish a correct
// implementation from a faulty one. This comparison does: it detects every planted fault (mutant).
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>
#include <string>

#include "tests/common/codec/algorithm1_mutants.h"
#include "tests/common/codec/algorithm1_pipeline.h"
#include "tests/common/codec/algorithm1_reference.h"

namespace tern::codec {
namespace {

// An element's code is 0 or not, depending on whether a random number is below a probability. If
// these two differ by less than this margin, both codes are correct, because gradients in float and
// in double differ by rounding. The reference then takes over the pushed code.
constexpr double kUndecidedMargin = 2e-6;
constexpr double kScalerTolerance = 2e-6;  // largest allowed relative error of a scaler
// The largest allowed norm of the weights' error, relative to the weights' norm.
constexpr double kWeightsTolerance = 1e-5;

// What is compared in each step. kNone: no check has failed.
enum class Check { kNone, kScaler, kCode, kReplicas, kWeights };

struct TraceResult {
  Check failed_check = Check::kNone;  // the first failed check
  std::string failure;
  uint64_t num_codes = 0;            // codes that were compared
  uint64_t num_nonzero = 0;          // codes that are not 0
  uint64_t num_undecided = 0;        // codes within kUndecidedMargin: both values are correct
  uint64_t num_clipped = 0;          // elements beyond the clip limit
  uint64_t num_unequal_scalers = 0;  // how often a worker's own scaler was below the shared one
  double worst_weights_error = 0;    // the largest error, relative to the weights' norm
};

class Comparison {
 public:
  Comparison(const Problem& problem, Components components)
      : problem_(problem), reference_(problem), pipeline_(std::move(components)) {}

  TraceResult Run() {
    for (uint64_t step = 0; step < problem_.steps && result_.failed_check == Check::kNone; ++step) {
      step_ = step;
      auto expected = reference_.Ternarize(step);
      const auto pushed = pipeline_.TrainOneStep(step);
      for (int i = 0; i < problem_.workers; ++i) {
        for (size_t t = 0; t < problem_.sizes.size(); ++t) {
          if (!pushed[i][t].codes.empty()) ComparePushed(i, t, pushed[i][t], &expected[i][t]);
        }
      }
      reference_.Update(step, expected);
      CompareWeights();
    }
    return result_;
  }

 private:
  void Fail(Check check, const std::string& description) {
    if (result_.failed_check != Check::kNone) return;
    result_.failed_check = check;
    result_.failure = "step " + std::to_string(step_) + ": " + description;
  }

  void ComparePushed(int worker, size_t tensor, const PushedTensor& pushed,
                     TernarizedTensor* expected) {
    const std::string location =
        "worker " + std::to_string(worker) + " tensor " + std::to_string(tensor);
    if (!(std::abs(pushed.scaler - expected->scaler) <= kScalerTolerance * expected->scaler)) {
      Fail(Check::kScaler, location + " scaler " + std::to_string(pushed.scaler) + ", expected " +
                               std::to_string(expected->scaler));
    }
    if (expected->own_scaler < expected->scaler) ++result_.num_unequal_scalers;
    ASSERT_EQ(pushed.codes.size(), expected->codes.size());
    for (size_t k = 0; k < pushed.codes.size(); ++k) {
      ++result_.num_codes;
      result_.num_nonzero += expected->codes[k] != 0;
      result_.num_clipped += std::abs(expected->gradient[k]) > expected->clip;
      if (expected->margins[k] < kUndecidedMargin) {
        ++result_.num_undecided;
        expected->codes[k] = pushed.codes[k];
      } else if (pushed.codes[k] != expected->codes[k]) {
        Fail(Check::kCode, location + " element " + std::to_string(k) + " code " +
                               std::to_string(pushed.codes[k]) + ", expected " +
                               std::to_string(expected->codes[k]));
      }
    }
  }

  void CompareWeights() {
    double squared_distance = 0;
    double squared_norm = 0;
    for (size_t t = 0; t < problem_.sizes.size(); ++t) {
      for (size_t k = 0; k < problem_.sizes[t]; ++k) {
        const double expected = reference_.weights()[t][k];
        const double difference = pipeline_.weights(0)[t][k] - expected;
        squared_distance += difference * difference;
        squared_norm += expected * expected;
      }
    }
    const double relative_distance = std::sqrt(squared_distance / squared_norm);
    result_.worst_weights_error = std::max(result_.worst_weights_error, relative_distance);
    if (!(relative_distance <= kWeightsTolerance)) {
      Fail(Check::kWeights,
           "weights differ by " + std::to_string(relative_distance) + " of their norm");
    }
    for (int i = 1; i < problem_.workers; ++i) {
      if (pipeline_.weights(i) != pipeline_.weights(0)) Fail(Check::kReplicas, "replicas differ");
    }
  }

  Problem problem_;
  Reference reference_;
  Pipeline pipeline_;
  TraceResult result_;
  uint64_t step_ = 0;
};

struct TraceCase {
  std::string name;
  Options options;
  int workers;
};
Options MakeOptions(Clip clip, double sigma = 2.5, bool per_worker = false) {
  Options options;
  options.clip = clip;
  options.clip_sigma = sigma;
  options.scaler_per_worker = per_worker;
  return options;
}

void PrintTo(const TraceCase& c, std::ostream* os) { *os << c.name; }

class Algorithm1 : public testing::TestWithParam<TraceCase> {};

INSTANTIATE_TEST_SUITE_P(
    Traces, Algorithm1,
    testing::Values(TraceCase{"Paper1Worker", MakeOptions(Clip::kPaper), 1},
                    TraceCase{"Paper2Workers", MakeOptions(Clip::kPaper), 2},
                    TraceCase{"Paper4Workers", MakeOptions(Clip::kPaper), 4},
                    TraceCase{"Paper7Workers", MakeOptions(Clip::kPaper), 7},
                    TraceCase{"PaperTighterClip", MakeOptions(Clip::kPaper, 1.5, false), 3},
                    TraceCase{"Official", MakeOptions(Clip::kOfficial), 4},
                    TraceCase{"NoClip", MakeOptions(Clip::kNone), 4},
                    TraceCase{"GracePerWorker", MakeOptions(Clip::kGrace, 2.5, true), 4},
                    TraceCase{"PaperPerWorker", MakeOptions(Clip::kPaper, 2.5, true), 3}),
    [](const auto& info) { return info.param.name; });

TEST_P(Algorithm1, FollowsTheReferenceStepByStep) {
  Problem problem;
  problem.options = GetParam().options;
  problem.workers = GetParam().workers;
  const TraceResult result = Comparison(problem, CorrectComponents(problem)).Run();
  EXPECT_EQ(result.failed_check, Check::kNone) << result.failure;
  // All tensors together have 1529 elements.
  EXPECT_EQ(result.num_codes, problem.steps * problem.workers * 1529);
  EXPECT_LE(result.num_undecided, 5u) << "the reference took over too many codes";
  // Some codes were 0 and some were not. Gradients were clipped exactly if the options say so.
  EXPECT_GT(result.num_nonzero, result.num_codes / 50);
  EXPECT_LT(result.num_nonzero, result.num_codes / 2);
  const bool is_clipping =
      problem.options.clip == Clip::kPaper || problem.options.clip == Clip::kGrace;
  EXPECT_EQ(result.num_clipped > 0, is_clipping);
  EXPECT_EQ(result.num_unequal_scalers > 0,
            problem.workers > 1 && !problem.options.scaler_per_worker);
}

struct MutantCase {
  Mutant mutant;
  std::set<Check> expected_failed_checks;
};
void PrintTo(const MutantCase& c, std::ostream* os) { *os << NameOf(c.mutant); }

class Algorithm1Mutants : public testing::TestWithParam<MutantCase> {};

INSTANTIATE_TEST_SUITE_P(
    All, Algorithm1Mutants,
    testing::Values(MutantCase{Mutant::kServerIgnoresAWorker, {Check::kWeights}},
                    MutantCase{Mutant::kTruncatedNoise, {Check::kCode}},
                    MutantCase{Mutant::kNoClipping, {Check::kScaler}},
                    MutantCase{Mutant::kScalerNotShared, {Check::kScaler}},
                    MutantCase{Mutant::kSignSwapped, {Check::kCode}},
                    MutantCase{Mutant::kTensorLeftOut, {Check::kWeights}},
                    MutantCase{Mutant::kWeightDecayMissing, {Check::kScaler, Check::kCode}},
                    MutantCase{Mutant::kMomentumMissing, {Check::kWeights}},
                    MutantCase{Mutant::kNoiseOfOneRank, {Check::kCode}},
                    MutantCase{Mutant::kNoiseOfOneRound, {Check::kCode}},
                    MutantCase{Mutant::kNoiseOfOneSegment, {Check::kCode}},
                    MutantCase{Mutant::kSumNotDivided, {Check::kWeights}}),
    [](const auto& info) { return NameOf(info.param.mutant); });

TEST_P(Algorithm1Mutants, IsCaught) {
  const Problem problem;
  const TraceResult result =
      Comparison(problem, FaultyComponents(problem, GetParam().mutant)).Run();
  EXPECT_EQ(GetParam().expected_failed_checks.count(result.failed_check), 1u)
      << "caught by check " << static_cast<int>(result.failed_check) << " " << result.failure;
}

}  // namespace
}  // namespace tern::codec

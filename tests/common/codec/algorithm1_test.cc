// Traces of TernGrad's Algorithm 1: compares Tern's parts with a readable reference in double
// precision, step by step. Accuracy does not distinguish a correct implementation from a faulty
// one; these traces do, as the mutants prove.
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

// A draw this close to its threshold may fall on either side: gradients in float differ from those
// in double by rounding. The reference then follows the pushed code.
constexpr double kUndecided = 2e-6;
constexpr double kScalerTolerance = 2e-6;   // relative
constexpr double kWeightsTolerance = 1e-5;  // of the norm

enum class Check { kNone, kScaler, kCode, kReplicas, kWeights };

struct Verdict {
  Check failed = Check::kNone;  // the first failed check
  std::string where;
  uint64_t codes = 0;  // number of codes compared
  uint64_t nonzero = 0;
  uint64_t undecided = 0;
  uint64_t clipped = 0;
  uint64_t unequal_scalers = 0;  // workers whose own scaler was below the shared one
  double worst_weights = 0;      // relative to the norm
};

class Comparison {
 public:
  Comparison(const Problem& problem, Parts parts)
      : problem_(problem), reference_(problem), pipeline_(std::move(parts)) {}

  Verdict Run() {
    for (uint64_t step = 0; step < problem_.steps && verdict_.failed == Check::kNone; ++step) {
      step_ = step;
      auto expected = reference_.Ternarize(step);
      const auto pushed = pipeline_.Step(step);
      for (int i = 0; i < problem_.workers; ++i) {
        for (size_t t = 0; t < problem_.sizes.size(); ++t) {
          if (!pushed[i][t].codes.empty()) ComparePushed(i, t, pushed[i][t], &expected[i][t]);
        }
      }
      reference_.Update(step, expected);
      CompareWeights();
    }
    return verdict_;
  }

 private:
  void Fail(Check check, const std::string& what) {
    if (verdict_.failed != Check::kNone) return;
    verdict_.failed = check;
    verdict_.where = "step " + std::to_string(step_) + ": " + what;
  }

  void ComparePushed(int worker, size_t tensor, const Pushed& pushed, Ternarized* expected) {
    const std::string place =
        "worker " + std::to_string(worker) + " tensor " + std::to_string(tensor);
    if (!(std::abs(pushed.scaler - expected->scaler) <= kScalerTolerance * expected->scaler)) {
      Fail(Check::kScaler, place + " scaler " + std::to_string(pushed.scaler) + ", expected " +
                               std::to_string(expected->scaler));
    }
    if (expected->own_scaler < expected->scaler) ++verdict_.unequal_scalers;
    ASSERT_EQ(pushed.codes.size(), expected->codes.size());
    for (size_t k = 0; k < pushed.codes.size(); ++k) {
      ++verdict_.codes;
      verdict_.nonzero += expected->codes[k] != 0;
      verdict_.clipped += std::abs(expected->gradient[k]) > expected->clip;
      if (expected->margins[k] < kUndecided) {
        ++verdict_.undecided;
        expected->codes[k] = pushed.codes[k];
      } else if (pushed.codes[k] != expected->codes[k]) {
        Fail(Check::kCode, place + " element " + std::to_string(k) + " code " +
                               std::to_string(pushed.codes[k]) + ", expected " +
                               std::to_string(expected->codes[k]));
      }
    }
  }

  void CompareWeights() {
    double distance = 0;
    double norm = 0;
    for (size_t t = 0; t < problem_.sizes.size(); ++t) {
      for (size_t k = 0; k < problem_.sizes[t]; ++k) {
        const double expected = reference_.weights()[t][k];
        const double difference = pipeline_.weights(0)[t][k] - expected;
        distance += difference * difference;
        norm += expected * expected;
      }
    }
    const double relative = std::sqrt(distance / norm);
    verdict_.worst_weights = std::max(verdict_.worst_weights, relative);
    if (!(relative <= kWeightsTolerance)) {
      Fail(Check::kWeights, "weights differ by " + std::to_string(relative) + " of their norm");
    }
    for (int i = 1; i < problem_.workers; ++i) {
      if (pipeline_.weights(i) != pipeline_.weights(0)) Fail(Check::kReplicas, "replicas differ");
    }
  }

  Problem problem_;
  Reference reference_;
  Pipeline pipeline_;
  Verdict verdict_;
  uint64_t step_ = 0;
};

struct TraceCase {
  std::string name;
  Options options;
  int workers;
};
Options OptionsOf(Clip clip, double sigma = 2.5, bool per_worker = false) {
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
    testing::Values(TraceCase{"Paper1Worker", OptionsOf(Clip::kPaper), 1},
                    TraceCase{"Paper2Workers", OptionsOf(Clip::kPaper), 2},
                    TraceCase{"Paper4Workers", OptionsOf(Clip::kPaper), 4},
                    TraceCase{"Paper7Workers", OptionsOf(Clip::kPaper), 7},
                    TraceCase{"PaperTighterClip", OptionsOf(Clip::kPaper, 1.5, false), 3},
                    TraceCase{"Official", OptionsOf(Clip::kOfficial), 4},
                    TraceCase{"NoClip", OptionsOf(Clip::kNone), 4},
                    TraceCase{"GracePerWorker", OptionsOf(Clip::kGrace, 2.5, true), 4},
                    TraceCase{"PaperPerWorker", OptionsOf(Clip::kPaper, 2.5, true), 3}),
    [](const auto& info) { return info.param.name; });

TEST_P(Algorithm1, FollowsTheReferenceStepByStep) {
  Problem problem;
  problem.options = GetParam().options;
  problem.workers = GetParam().workers;
  const Verdict verdict = Comparison(problem, SoundParts(problem)).Run();
  EXPECT_EQ(verdict.failed, Check::kNone) << verdict.where;
  EXPECT_EQ(verdict.codes, problem.steps * problem.workers * 1529);
  EXPECT_LE(verdict.undecided, 5u) << "the reference followed too much";
  // Each part of the algorithm had an effect.
  EXPECT_GT(verdict.nonzero, verdict.codes / 50);
  EXPECT_LT(verdict.nonzero, verdict.codes / 2);
  const bool clips = problem.options.clip == Clip::kPaper || problem.options.clip == Clip::kGrace;
  EXPECT_EQ(verdict.clipped > 0, clips);
  EXPECT_EQ(verdict.unequal_scalers > 0, problem.workers > 1 && !problem.options.scaler_per_worker);
}

struct MutantCase {
  Mutant mutant;
  std::set<Check> caught_by;
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
  const Verdict verdict = Comparison(problem, BrokenParts(problem, GetParam().mutant)).Run();
  EXPECT_EQ(GetParam().caught_by.count(verdict.failed), 1u)
      << "caught by check " << static_cast<int>(verdict.failed) << " " << verdict.where;
}

}  // namespace
}  // namespace tern::codec

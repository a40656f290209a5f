// The learning-rate range test on synthetic curves.
#include "tools/find_lr/range_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern::tools {
namespace {

using client::CurveRow;
using testing::HasSubstr;
using testing::Not;

constexpr RateRange kRange = {.from = 1e-5, .to = 10, .steps = 200};

// A curve that falls from 2.5 to 0.5 around the rate `good`, and rises steeply beyond `bad`.
std::vector<CurveRow> CurveOf(double good, double bad, const RateRange& range = kRange) {
  std::vector<CurveRow> rows;
  for (uint64_t step = 1; step <= range.steps; ++step) {
    const double rate = range.RateOf(static_cast<double>(step));
    const double loss = 0.5 + 2 / (1 + std::pow(rate / good, 2)) + std::pow(rate / bad, 3);
    rows.push_back({.step = step, .train_loss = loss});
  }
  return rows;
}

TEST(RateRange, GrowsExponentially) {
  EXPECT_DOUBLE_EQ(kRange.RateOf(1), 1e-5);
  EXPECT_DOUBLE_EQ(kRange.RateOf(200), 10);
  EXPECT_NEAR(kRange.RateOf(100.5), 1e-2, 1e-12);
}

TEST(RateLosses, SmoothsWithBiasCorrection) {
  const std::vector<RatedLoss> losses =
      RateLosses(kRange, {{.step = 1, .train_loss = 4}, {.step = 2, .train_loss = 2}});
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_DOUBLE_EQ(losses[0].smoothed_loss, 4);
  EXPECT_NEAR(losses[1].smoothed_loss, (0.9 * 4 + 2) / 1.9, 1e-12);
  EXPECT_DOUBLE_EQ(losses[1].rate, kRange.RateOf(2));
}

// Algorithms that synchronize every p steps have a row every p steps.
TEST(RateLosses, ALossOverSeveralStepsHasTheRateOfTheirMiddle) {
  const std::vector<RatedLoss> losses =
      RateLosses(kRange, {{.step = 4, .train_loss = 4}, {.step = 8, .train_loss = 2}});
  EXPECT_DOUBLE_EQ(losses[0].rate, kRange.RateOf(2.5));
  EXPECT_DOUBLE_EQ(losses[1].rate, kRange.RateOf(6.5));
}

TEST(RateLosses, EndWhereTheLossIsTooHighOrNotFinite) {
  const std::vector<RatedLoss> losses = RateLosses(kRange, CurveOf(1e-3, 0.1));
  ASSERT_LT(losses.size(), 200u);
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i + 1 < losses.size(); ++i) {
    lowest = std::min(lowest, losses[i].smoothed_loss);
    EXPECT_LE(losses[i].smoothed_loss, kTooHigh * lowest);
  }
  EXPECT_GT(losses.back().smoothed_loss, kTooHigh * lowest);

  std::vector<CurveRow> rows = CurveOf(1e-3, 0.1);
  rows[50].train_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(RateLosses(kRange, rows).size(), 50u);
  EXPECT_TRUE(RateLosses(kRange, {{.step = 3, .test_loss = 1}}).empty());
}

TEST(SuggestRate, IsAQuarterOfTheRateWhereTheLossIsHalfwayBack) {
  // The smoothed losses are the losses: 4, then 2, then 2.9, 3.1, 4, with the minimum 2 and the
  // first loss 4, so halfway back is 3.
  std::vector<RatedLoss> losses;
  for (uint64_t step = 1; step <= 30; ++step) {
    const double loss = step <= 10 ? 4 : step <= 20 ? 2 : step == 21 ? 2.9 : step == 22 ? 3.1 : 4;
    losses.push_back({step, kRange.RateOf(static_cast<double>(step)), loss, loss});
  }
  const Result<Suggestion> suggestion = SuggestRate(kRange, losses);
  ASSERT_TRUE(suggestion.ok()) << suggestion.status().message();
  EXPECT_DOUBLE_EQ(suggestion->too_high_rate, kRange.RateOf(22));
  EXPECT_DOUBLE_EQ(suggestion->rate, kRange.RateOf(22) / 4);
  EXPECT_FALSE(suggestion->may_be_higher);
  EXPECT_TRUE(suggestion->has_risen);
}

TEST(SuggestRate, TakesTheLastRateOfATestThatDivergedBeforeItsLossRose) {
  std::vector<CurveRow> rows = CurveOf(1e-3, 1000);
  rows.resize(150);
  const Result<Suggestion> suggestion = SuggestRate(kRange, RateLosses(kRange, rows));
  ASSERT_TRUE(suggestion.ok());
  EXPECT_DOUBLE_EQ(suggestion->too_high_rate, kRange.RateOf(150));
  EXPECT_FALSE(suggestion->may_be_higher);
  EXPECT_FALSE(suggestion->has_risen);
}

TEST(SuggestRate, FollowsTheCurve) {
  double previous_rate = 0;
  for (const double good : {1e-4, 1e-3, 1e-2}) {
    const Result<Suggestion> suggestion =
        SuggestRate(kRange, RateLosses(kRange, CurveOf(good, 100 * good)));
    ASSERT_TRUE(suggestion.ok());
    if (previous_rate > 0) {
      EXPECT_NEAR(suggestion->rate / previous_rate, 10, 1);
    }
    previous_rate = suggestion->rate;
  }
}

TEST(SuggestRate, SaysIfHigherRatesMayBeGood) {
  const Result<Suggestion> suggestion = SuggestRate(kRange, RateLosses(kRange, CurveOf(1, 1000)));
  ASSERT_TRUE(suggestion.ok());
  EXPECT_TRUE(suggestion->may_be_higher);
  EXPECT_FALSE(suggestion->has_risen);
}

TEST(SuggestRate, RefusesCurvesThatSayNothing) {
  const Result<Suggestion> too_few = SuggestRate(
      kRange, RateLosses(kRange, {{.step = 1, .train_loss = 4}, {.step = 2, .train_loss = 2}}));
  EXPECT_EQ(too_few.status().code(), Code::kUsage);
  EXPECT_THAT(too_few.status().message(), HasSubstr("has 2 losses, expected at least 20"));
  const Result<Suggestion> flat = SuggestRate(kRange, RateLosses(kRange, CurveOf(1e6, 1e6)));
  EXPECT_EQ(flat.status().code(), Code::kUsage);
  EXPECT_THAT(flat.status().message(), HasSubstr("no rate is suggested"));
}

TEST(RangeTestFiles, HaveALineForEachLossAndTheSuggestion) {
  const std::vector<RatedLoss> losses = RateLosses(kRange, CurveOf(1e-3, 0.3));
  const std::string csv = RangeTestCsv(losses);
  EXPECT_THAT(csv, HasSubstr("step,learning_rate,training_loss,smoothed_loss\n1,1e-05,2.4998"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int64_t>(losses.size()) + 1);
  const std::string svg = RangeTestSvg("a < b", kRange, losses, SuggestRate(kRange, losses)->rate);
  for (const char* text : {">a &lt; b<", ">learning rate<", ">training loss<", ">1e-05<", ">0.01<",
                           ">10<", ">suggested: 0.", "stroke-dasharray"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace tern::tools

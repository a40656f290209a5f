// The trials of `tern find_lr`: which rates they have, and which one is best.
#include "tools/find_lr/trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tern::tools {
namespace {

using client::CurveRow;
using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Plays all trials around 0.1, where a training's loss is a function of its rate.
std::vector<Trial> Play(const std::function<std::optional<double>(double)>& loss_of) {
  std::vector<Trial> trials;
  while (const auto rate = NextTrialRate(0.1, trials)) trials.push_back({*rate, loss_of(*rate)});
  return trials;
}

std::vector<double> RatesOf(const std::vector<Trial>& trials) {
  std::vector<double> rates;
  for (const Trial& trial : trials) rates.push_back(trial.rate);
  return rates;
}

// A loss that is lowest at `best`, and diverges at ten times that rate.
auto LossWithBest(double best) {
  return [best](double rate) -> std::optional<double> {
    if (rate >= 10 * best) return std::nullopt;
    return 1 + std::abs(std::log(rate / best));
  };
}

TEST(Trials, EndAfterThreeWhereTheRangeTestWasRight) {
  const std::vector<Trial> trials = Play(LossWithBest(0.12));
  EXPECT_THAT(RatesOf(trials), ElementsAre(0.1, DoubleNear(0.1 / 3, 1e-9), DoubleNear(0.3, 1e-9)));
  EXPECT_DOUBLE_EQ(BestTrial(trials)->rate, 0.1);
}

TEST(Trials, GoOnWhereTheBestIsTheLowestOrTheHighest) {
  const std::vector<Trial> lower = Play(LossWithBest(0.03));
  EXPECT_EQ(lower.size(), 4u);
  EXPECT_NEAR(lower.back().rate, 0.1 / 9, 1e-9);
  EXPECT_NEAR(BestTrial(lower)->rate, 0.1 / 3, 1e-9);
  const std::vector<Trial> higher = Play(LossWithBest(1));
  EXPECT_EQ(higher.size(), 5u);
  EXPECT_NEAR(BestTrial(higher)->rate, 0.9, 1e-9);
}

TEST(Trials, EndAtTheirGreatestNumber) {
  const std::vector<Trial> diverged = Play([](double) { return std::nullopt; });
  EXPECT_EQ(diverged.size(), kMaxTrials);
  EXPECT_EQ(BestTrial(diverged), nullptr);
  EXPECT_NEAR(diverged.back().rate, 0.1 / 81, 1e-9);
  EXPECT_EQ(Play([](double rate) { return 1 / rate; }).size(), kMaxTrials);
}

TEST(TrialLoss, IsTheMeanOfTheLastQuarter) {
  const std::vector<CurveRow> rows = {{.step = 4, .train_loss = 9},
                                      {.step = 6, .train_loss = 8},
                                      {.step = 7, .train_loss = 3},
                                      {.step = 8, .train_loss = 1},
                                      {.step = 8, .accuracy = 0.5}};
  EXPECT_EQ(TrialLoss(8, rows), 2);
  EXPECT_EQ(TrialLoss(100, rows), std::nullopt);
  EXPECT_EQ(TrialLoss(8, {}), std::nullopt);
}

TEST(TrialLoss, OfATrainingWithALossThatIsNotFiniteIsNone) {
  EXPECT_EQ(TrialLoss(4, {{.step = 1, .train_loss = kNan}, {.step = 4, .train_loss = 1}}),
            std::nullopt);
}

TEST(TrialTable, IsByAscendingRateAndNamesWhatDiverged) {
  EXPECT_THAT(
      TrialTable({{0.1, 0.5}, {0.3, std::nullopt}, {0.03, 1.25}}),
      ElementsAre(ElementsAre("trial's learning rate", "loss"), ElementsAre("0.03", "1.2500"),
                  ElementsAre("0.1", "0.5000"), ElementsAre("0.3", "diverged")));
}

}  // namespace
}  // namespace tern::tools

#include "tools/sweep/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using testing::ElementsAre;

const std::vector<GridKey> kGrid = {{"train.rate", {"0.1", "0.2"}}};

SweepResult Finished(double accuracy) {
  SweepResult result;
  result.accuracy = accuracy;
  result.test_loss = 1 - accuracy;
  return result;
}
SweepResult Failed() {
  SweepResult result;
  result.code = 79;
  result.sentence = "not finite, lower the rate";
  return result;
}

TEST(SweepTable, HasTheBestFirstWithMeanAndStandardDeviation) {
  const std::vector<TableRow> rows = SweepTable(
      kGrid, RunsOf(kGrid, 2), {Finished(0.5), Finished(0.7), Finished(0.8), Finished(0.8)});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0],
              ElementsAre("rate", "accuracy %", "test loss", "train loss", "runs", "failed"));
  EXPECT_THAT(rows[1], ElementsAre("0.2", "80.00 +- 0.00", "0.2000 +- 0.0000", "-", "2", "0"));
  EXPECT_THAT(rows[2], ElementsAre("0.1", "60.00 +- 14.14", "0.4000 +- 0.1414", "-", "2", "0"));
}

TEST(SweepTable, CountsFailedRunsAndPutsThemLast) {
  const std::vector<TableRow> rows =
      SweepTable(kGrid, RunsOf(kGrid, 0), {Failed(), Finished(0.25)});
  EXPECT_THAT(rows[1], ElementsAre("0.2", "25.00", "0.7500", "-", "1", "0"));
  EXPECT_THAT(rows[2], ElementsAre("0.1", "-", "-", "-", "0", "1"));
}

TEST(SweepTable, WithoutATestSetTheTrainingLossDecides) {
  SweepResult worse, better;
  worse.train_loss = 2;
  better.train_loss = 1;
  const std::vector<TableRow> rows = SweepTable(kGrid, RunsOf(kGrid, 0), {worse, better});
  EXPECT_EQ(rows[1][0], "0.2");
}

TEST(SweepCsv, HasALineForEachRun) {
  EXPECT_EQ(SweepCsv(kGrid, RunsOf(kGrid, 0), {Failed(), Finished(0.25)}),
            "train.rate,seed,code,accuracy,test_loss,train_loss,wall_s,sentence\n"
            "0.1,,79,,,,0,\"not finite, lower the rate\"\n"
            "0.2,,0,0.25,0.75,,0,\n");
}

}  // namespace
}  // namespace tern::tools

#include "client/train/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace tern::client {
namespace {

using testing::HasSubstr;

pb::Figures Loss(double sum, uint64_t samples) {
  pb::Figures figures;
  figures.set_train_loss(sum);
  figures.set_train_samples(samples);
  return figures;
}

pb::Figures Scores(uint64_t correct, uint64_t samples) {
  pb::Figures figures;
  figures.set_test_loss(0.5 * static_cast<double>(samples));
  figures.set_test_correct(correct);
  figures.set_test_top5_correct(samples);
  figures.set_test_samples(samples);
  return figures;
}

class CurveTest : public testing::Test {
 protected:
  CurveTest() : folder_(testing::TempDir() + "tern_curve_" + std::to_string(std::rand())) {}
  ~CurveTest() override { std::filesystem::remove_all(folder_); }

  std::string CsvFile() const {
    std::ifstream file(folder_ + "/curve.csv");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_;
};

TEST_F(CurveTest, HasARowForEachStepThatWasMeasured) {
  Curve curve(folder_, "job");
  curve.Begin(0);
  curve.AddLoss(10, Loss(40, 20));
  curve.AddLoss(20, Loss(30, 20));
  curve.AddScores(20, Scores(30, 60));
  curve.AddLoss(30, Loss(0, 0));  // nothing was measured
  ASSERT_TRUE(curve.Write().ok());
  EXPECT_EQ(CsvFile(),
            "step,training_loss,test_loss,accuracy,top5_accuracy\n"
            "10,2,,,\n"
            "20,1.5,0.5,0.5,1\n");
}

TEST_F(CurveTest, ALossThatNobodySaidIsNoRow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool may_lack_loss : {false, true}) {
    Curve curve(folder_, "job", may_lack_loss);
    curve.Begin(0);
    curve.AddLoss(10, Loss(nan, 20));
    EXPECT_EQ(curve.rows().size(), may_lack_loss ? 0u : 1u);
    curve.AddLoss(20, Loss(40, 20));
    EXPECT_EQ(curve.rows().back().step, 20u);
  }
}

TEST_F(CurveTest, AResumedJobContinuesTheRowsBeforeItsStep) {
  Curve first(folder_, "job");
  first.Begin(0);
  for (const uint64_t step : {10, 20, 30}) first.AddScores(step, Scores(step, 60));
  ASSERT_TRUE(first.Write().ok());
  Curve resumed(folder_, "job");
  resumed.Begin(20);
  resumed.AddScores(20, Scores(20, 60));  // again
  resumed.AddScores(30, Scores(31, 60));
  ASSERT_TRUE(resumed.Write().ok());
  EXPECT_EQ(ParseCurve(CsvFile()).size(), 3u);
  EXPECT_THAT(CsvFile(), HasSubstr("30,,0.5,0.516666667,1\n"));
  resumed.Begin(10);  // the job goes back
  EXPECT_EQ(resumed.rows().size(), 1u);
  Curve anew(folder_, "job");
  anew.Begin(0);
  EXPECT_TRUE(anew.rows().empty());
}

TEST(CurveCsv, IsReadAsItWasWrittenUpToAFault) {
  const std::vector<CurveRow> rows = {
      {.step = 5, .train_loss = 2.25},
      {.step = 9, .train_loss = 1, .test_loss = 1.5, .accuracy = 0.25, .top5_accuracy = 1}};
  const std::string csv = CurveCsv(rows);
  const std::vector<CurveRow> parsed = ParseCurve(csv);
  ASSERT_EQ(parsed.size(), 2u);
  EXPECT_EQ(CurveCsv(parsed), csv);
  for (const char* fault : {"x,1,1,1,1", "9,1,1,1,1", ",1,1,1,1", "10,1,1,1,1,1", "10,1e,1,1,1"})
    EXPECT_EQ(ParseCurve(csv + fault + "\n99,1,1,1,1\n").size(), 2u) << fault;
  EXPECT_TRUE(ParseCurve("a,b\n5,1,1,1,1\n").empty());
  EXPECT_TRUE(ParseCurve("").empty());
}

TEST(CurveSvg, DrawsALineForEachFigureAndNamesTheAxes) {
  std::vector<CurveRow> rows;
  for (uint64_t step = 1; step <= 5000; ++step)
    rows.push_back({.step = step, .train_loss = 3.0 / static_cast<double>(step), .accuracy = 0.5});
  const std::string svg = CurveSvg("a < b & c", rows);
  EXPECT_THAT(svg, HasSubstr(">a &lt; b &amp; c</text>"));
  for (const char* text :
       {">steps<", ">loss<", ">accuracy<", ">training loss<", ">5000<", ">100 %<"})
    EXPECT_THAT(svg, HasSubstr(text));
  // Two lines of at most 1001 points; nothing was measured of the test loss.
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1))
    ++lines;
  EXPECT_EQ(lines, 2u);
  EXPECT_LE(std::count(svg.begin(), svg.end(), ','), 2 * 1001 + 1);
}

TEST(CurveSvg, LeavesOutWhatIsNotFinite) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const std::vector<CurveRow>& rows :
       {std::vector<CurveRow>{},
        {{.step = 1, .train_loss = infinite, .test_loss = -infinite, .accuracy = 0.25}},
        {{.step = 3, .train_loss = std::nan("")}, {.step = 4, .train_loss = 0}}}) {
    const std::string svg = CurveSvg("job", rows);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::client

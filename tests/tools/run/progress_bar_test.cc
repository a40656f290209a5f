#include "tools/run/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(BarText, ShowsProgressSpeedAndTimeLeft) {
  EXPECT_EQ(BarText("train", 0, 60000, "images", milliseconds(0)),
            "train  [------------------------------]  0 %  0 of 60,000 images, 0 a second");
  EXPECT_EQ(BarText("train", 30000, 60000, "images", seconds(2)),
            "train  [###############---------------]  50 %  30,000 of 60,000 images, 15,000 a "
            "second, 2.0 s left");
  EXPECT_EQ(BarText("train", 60000, 60000, "images", seconds(4)),
            "train  [##############################]  100 %  60,000 of 60,000 images, 15,000 a "
            "second");
}

TEST(ProgressBar, PrintsTheLastLineWithoutATerminal) {
  testing::internal::CaptureStdout();
  {
    ProgressBar bar("pack", "images");
    for (uint64_t done = 0; done <= 1000; ++done) bar.ShowProgress(done, 1000);
    bar.PrintLine("left out");
  }
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
  EXPECT_THAT(out, testing::HasSubstr("100 %  1,000 of 1,000 images"));
  EXPECT_THAT(out, testing::EndsWith("left out\n"));
}

}  // namespace
}  // namespace tern::tools

// Tests of what is due while shard 0 reports nothing, and of the lines that are shown then.
#include "tools/run/shard0_silence.h"

#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using std::chrono::seconds;

constexpr Shard0Silence::Limits kLimits{.notice_after = seconds(3), .end_after = seconds(6)};

TEST(Shard0Silence, IsShownOnceTheJobHasBegun) {
  Shard0Silence silence(kLimits);
  EXPECT_EQ(silence.NextDue(), std::nullopt);
  silence.OnReport(false, seconds(10));
  EXPECT_EQ(silence.NextDue(), std::nullopt);
  silence.OnReport(true, seconds(20));
  EXPECT_EQ(silence.NextDue(), Time(seconds(23)));
  EXPECT_FALSE(silence.IsNoticeDue(seconds(22)));
  EXPECT_TRUE(silence.IsNoticeDue(seconds(23)));
  EXPECT_FALSE(silence.IsEndDue(seconds(1000)));
  EXPECT_EQ(silence.Text(seconds(24)), "server 0 has reported nothing for 4 s");
  silence.Cease();
  EXPECT_EQ(silence.NextDue(), std::nullopt);
}

// A job that reports may take as long as it likes to stop.
TEST(Shard0Silence, EndsAllAfterAStopSignalUnlessThereAreReports) {
  Shard0Silence silence(kLimits);
  silence.OnStop(seconds(10));
  for (int second = 11; second < 30; ++second) {
    EXPECT_FALSE(silence.IsEndDue(seconds(second))) << second;
    silence.OnReport(false, seconds(second));
  }
  EXPECT_FALSE(silence.IsEndDue(seconds(34)));
  EXPECT_EQ(silence.NextDue(), Time(seconds(35)));
  EXPECT_TRUE(silence.IsEndDue(seconds(35)));
}

TEST(Shard0Silence, LinesOfWaitingAreThoseOfDaemonsThatAwaitOrHaveLostSomebody) {
  EXPECT_EQ(LinesOfWaiting({{"worker 0", "server shard 0 (a:1) is lost: silent for 2 s"},
                            {"worker 1", "server shard 0 (a:1) is lost: silent for 2 s"},
                            {"worker 2", "step 3 of 4"},
                            {"server 1", "still waiting for server shard 0"}}),
            "\n  worker 0: server shard 0 (a:1) is lost: silent for 2 s"
            "\n  server 1: still waiting for server shard 0");
}

}  // namespace
}  // namespace tern::tools

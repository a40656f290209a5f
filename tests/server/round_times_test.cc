// Tests of the histogram of the time from round to round.
#include "server/round_times.h"

#include <gtest/gtest.h>

#include <string>

namespace tern::server {
namespace {

using std::chrono::milliseconds;

double ValueOf(const Registry& registry, const std::string& name) {
  for (const MetricSample& sample : registry.Snapshot())
    if (sample.name == name) return sample.value;
  return -1;
}

TEST(RoundTimes, CountsTheTimeFromRoundToRound) {
  Registry registry;
  RoundTimes times(registry);
  times.Update(0, milliseconds(500));
  times.Update(1, milliseconds(1000));
  EXPECT_EQ(ValueOf(registry, "tern_server_round_seconds_count"), -1) << "one round has no length";
  times.Update(1, milliseconds(1100));
  times.Update(2, milliseconds(1250));
  EXPECT_EQ(ValueOf(registry, "tern_server_round_seconds_count"), 1);
  EXPECT_DOUBLE_EQ(ValueOf(registry, "tern_server_round_seconds_sum"), 0.25);
  times.Update(4, milliseconds(1350));
  EXPECT_EQ(ValueOf(registry, "tern_server_round_seconds_count"), 3);
  EXPECT_DOUBLE_EQ(ValueOf(registry, "tern_server_round_seconds_sum"), 0.35);
}

TEST(RoundTimes, BeginsAnewWhenTheJobGoesBackOrTheServerIsRestarted) {
  Registry registry;
  RoundTimes times(registry);
  times.Update(100, milliseconds(0));  // restarted in the middle of a job
  times.Update(101, milliseconds(10));
  times.Update(50, milliseconds(9000));  // gone back
  times.Update(51, milliseconds(9010));
  times.Update(1u << 30, milliseconds(9999));
  EXPECT_EQ(ValueOf(registry, "tern_server_round_seconds_count"), 2);
  EXPECT_DOUBLE_EQ(ValueOf(registry, "tern_server_round_seconds_sum"), 0.02);
}

}  // namespace
}  // namespace tern::server

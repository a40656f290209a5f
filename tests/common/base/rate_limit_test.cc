// Tests of the limit of log lines and answers per time.
#include "common/base/rate_limit.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RateLimiter, AllowsABurstAndThenOnePerInterval) {
  RateLimiter limiter(3, seconds(1));
  const Time begin = seconds(100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.Allow(begin));
  EXPECT_FALSE(limiter.Allow(begin));
  EXPECT_FALSE(limiter.Allow(begin + milliseconds(999)));
  EXPECT_TRUE(limiter.Allow(begin + seconds(1)));
  EXPECT_FALSE(limiter.Allow(begin + seconds(1)));
  EXPECT_TRUE(limiter.Allow(begin + seconds(2)));
}

TEST(RateLimiter, APauseGivesBackTheBurstAndNoMore) {
  RateLimiter limiter(2, seconds(1));
  int num_allowed = 0;
  for (int i = 0; i < 10; ++i) num_allowed += limiter.Allow(seconds(5)) ? 1 : 0;
  for (int i = 0; i < 10; ++i) num_allowed += limiter.Allow(seconds(500)) ? 1 : 0;
  EXPECT_EQ(num_allowed, 4);
}

TEST(RateLimiter, AFloodGetsNoMoreThanItsRate) {
  RateLimiter limiter(1, seconds(1));
  int num_allowed = 0;
  for (Time now{}; now < seconds(30); now += milliseconds(1)) num_allowed += limiter.Allow(now);
  EXPECT_EQ(num_allowed, 30);
}

TEST(RateLimiter, CountsWhatItHeldBack) {
  RateLimiter limiter(1, seconds(1));
  EXPECT_TRUE(limiter.Allow(seconds(1)));
  EXPECT_EQ(limiter.TakeAndMore(), "");
  for (int i = 0; i < 12; ++i) EXPECT_FALSE(limiter.Allow(seconds(1)));
  EXPECT_TRUE(limiter.Allow(seconds(2)));
  EXPECT_EQ(limiter.TakeAndMore(), " (and 12 more before)");
  EXPECT_EQ(limiter.TakeHeldBack(), 0u);
}

TEST(RateLimiter, IsUnusedOnceTheWholeBurstMayHappenAgain) {
  RateLimiter limiter(3, seconds(1));
  EXPECT_TRUE(limiter.IsUnused(seconds(10)));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(limiter.Allow(seconds(10)));
  EXPECT_FALSE(limiter.IsUnused(seconds(11)));
  EXPECT_TRUE(limiter.IsUnused(seconds(12)));
}

}  // namespace
}  // namespace tern

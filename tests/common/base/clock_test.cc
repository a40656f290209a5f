// Tests of LoopClock(longest): a call of Now() advances the clock by the time that has passed, but
// at most by `longest`.
#include "common/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace tern {
namespace {

using namespace std::chrono_literals;

TEST(LoopClock, AdvancesWhileItsLoopRuns) {
  LoopClock clock(1h);
  const Time begin = clock.Now();
  std::this_thread::sleep_for(2ms);
  EXPECT_GE(clock.Now() - begin, 2ms);
}

TEST(LoopClock, DoesNotAdvanceWhileItsLoopIsHeldUp) {
  LoopClock clock(1ms);
  const Time begin = clock.Now();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(clock.Now() - begin, 1ms);
  EXPECT_LE(clock.Now() - begin, 2ms);
}

}  // namespace
}  // namespace tern

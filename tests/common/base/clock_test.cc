// Tests of LoopClock(longest): a call of Now() advances the clock by the time that has passed, but
// at most by `longest`.
#include "common/base/clock.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "common/base/armed_failpoints.h"

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

// Moves the system's time by `seconds` at the next call of a LoopClock's Now().
void StepNextTime(const std::string& seconds) {
  const auto failpoint = ParseFailpoint("clock=step:" + seconds + "@1", "server");
  ASSERT_TRUE(failpoint.ok()) << failpoint.status().message();
  ArmFailpoints({*failpoint});
}

TEST(LoopClock, HardlyAdvancesWhenTheSystemsTimeJumpsByAnHour) {
  LoopClock clock(1ms);
  const Time begin = clock.Now();
  StepNextTime("+3600");
  EXPECT_EQ(clock.Now() - begin, 1ms);
  EXPECT_LE(clock.Now() - begin, 2ms);
  ArmFailpoints({});
}

TEST(LoopClock, NeverGoesBackAndGoesOnFromThere) {
  LoopClock clock(1h);
  const Time begin = clock.Now();
  StepNextTime("-5");
  EXPECT_EQ(clock.Now(), begin);
  std::this_thread::sleep_for(2ms);
  const Time advance = clock.Now() - begin;
  EXPECT_GE(advance, 2ms);
  EXPECT_LT(advance, 5s);
  ArmFailpoints({});
}

}  // namespace
}  // namespace tern

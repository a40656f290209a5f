// Tests of the watchdog of a daemon's main loop.
#include "common/base/loop_watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

namespace tern {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Turns for a while longer than the watchdog's patience, and then hangs.
void TurnAndHang() {
  LoopWatchdog watchdog("test loop", milliseconds(200));
  for (int turn = 0; turn < 60; ++turn) {
    watchdog.OnTurn();
    usleep(10'000);
  }
  while (true) pause();
}

TEST(LoopWatchdog, LogsTheStackOfALoopThatHangsAndThenEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(TurnAndHang(), testing::ExitedWithCode(75),
              "the test loop has not moved for 0\\.2[0-9]* s: its stack:\n(.|\n)*"
              "the test loop has not moved for 0\\.4[0-9]* s, so this process ends without it");
}

TEST(LoopWatchdog, StopsWithoutDelay) {
  const auto begin = std::chrono::steady_clock::now();
  for (int times = 0; times < 100; ++times) LoopWatchdog watchdog("test loop", hours(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "a sleep of the watchdog takes half a second";
}

}  // namespace
}  // namespace tern

// Tests of what notices a thread that hangs, and shows where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "common/base/channel.h"
#include "common/base/hang_watch.h"
#include "common/base/stack_trace.h"
#include "common/base/threads.h"

namespace tern {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(HangWatch, MeasuresHowLongACounterStandsStill) {
  HangWatch watch;
  EXPECT_EQ(watch.Observe(0, false, seconds(10)), seconds(0)) << "the first observation";
  EXPECT_EQ(watch.Observe(0, false, seconds(14)), seconds(4));
  EXPECT_EQ(watch.Observe(1, false, seconds(15)), seconds(0)) << "it has advanced";
  EXPECT_EQ(watch.Observe(1, false, seconds(18)), seconds(3));
  EXPECT_EQ(watch.Observe(1, true, seconds(19)), seconds(0)) << "it waits for others";
  EXPECT_EQ(watch.Observe(1, false, seconds(21)), seconds(2));
}

TEST(HangWatch, LogsAtTheTimeoutAndWheneverTheTimeHasDoubled) {
  HangWatch watch;
  std::vector<int> logged;
  for (int second = 0; second <= 100; ++second) {
    watch.Observe(0, false, seconds(second));
    if (watch.MustLog(seconds(10), seconds(second))) logged.push_back(second);
  }
  EXPECT_EQ(logged, (std::vector<int>{11, 22, 44, 88}));
  watch.Observe(1, false, seconds(101));
  watch.Observe(1, false, seconds(112));
  EXPECT_TRUE(watch.MustLog(seconds(10), seconds(112))) << "another hang";
}

TEST(StackOfThread, ShowsWhereAThreadIsBusyOrWaits) {
  std::atomic<bool> is_done{false}, has_begun{false};
  Thread busy("busy", [&] {
    has_begun = true;
    while (!is_done) {
    }
  });
  while (!has_begun) {
  }
  Channel<int> channel;
  Thread waiting("waiting", [&] { channel.Pop(); });
  for (int times = 0; times < 3; ++times) {
    EXPECT_THAT(StackOfThread(busy.handle()), HasSubstr("its stack:\n"));
    EXPECT_THAT(StackOfThread(waiting.handle()), HasSubstr("its stack:\n"));
  }
  EXPECT_TRUE(waiting.running());
  is_done = true;
  channel.Close();
}

TEST(StackOfThread, OfAThreadThatTakesNoSignalSaysSo) {
  Channel<int> channel;
  std::atomic<bool> is_blocked{false};
  Thread thread("deaf", [&] {
    sigset_t all_signals;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_BLOCK, &all_signals, nullptr);
    is_blocked = true;
    channel.Pop();
    pthread_sigmask(SIG_UNBLOCK, &all_signals, nullptr);  // The late signal does nothing.
  });
  while (!is_blocked) {
  }
  EXPECT_THAT(StackOfThread(thread.handle()), HasSubstr("its stack cannot be read"));
  channel.Close();
  thread.Join();
}

}  // namespace
}  // namespace tern

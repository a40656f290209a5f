// The simulation of events: what cores and links that are shared do to who uses them.
#include "tools/forecast/events.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tern::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Until nothing is left to happen.
void Finish(Simulation& simulation) {
  EXPECT_FALSE(simulation.RunUntil([] { return false; }));
}

TEST(Simulation, RunsInTheOrderOfTimeAndThenOfAsking) {
  Simulation simulation;
  std::string order;
  simulation.At(2, [&] { order += 'c'; });
  simulation.At(1, [&] {
    order += 'a';
    simulation.After(1, [&] { order += 'd'; });
  });
  simulation.At(1, [&] { order += 'b'; });
  Finish(simulation);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(simulation.now(), 2);
}

TEST(Simulation, StopsWhenItIsDone) {
  Simulation simulation;
  int count = 0;
  for (int i = 1; i <= 5; ++i) simulation.At(i, [&] { ++count; });
  EXPECT_TRUE(simulation.RunUntil([&] { return count == 3; }));
  EXPECT_EQ(simulation.now(), 3);
}

// 3 s and 1 s of work from the start on one core: both at half speed until 2 s, when the second is
// done; the first has 2 s left, alone.
TEST(Shared, ThreadsOnOneCoreGoOnEqually) {
  Simulation simulation;
  Shared core(simulation, 1, 1);
  double first = 0, second = 0;
  core.Begin(3, 1, [&] { first = simulation.now(); });
  core.Begin(1, 1, [&] { second = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(second, 2);
  EXPECT_DOUBLE_EQ(first, 4);
  EXPECT_FALSE(core.busy());
}

// Alone for 1 s (2 of 3 s left), then three share two cores: two thirds each. The one of 1 s is
// done 1.5 s later, at 2.5, when 1 s is left of the first and the third: alone on a core each.
TEST(Shared, WhoComesLaterSlowsTheOthersDown) {
  Simulation simulation;
  Shared cores(simulation, 2, 1);
  double first = 0, second = 0, third = 0;
  cores.Begin(3, 1, [&] { first = simulation.now(); });
  simulation.At(1, [&] {
    cores.Begin(1, 1, [&] { second = simulation.now(); });
    cores.Begin(2, 1, [&] { third = simulation.now(); });
  });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(second, 2.5);
  EXPECT_DOUBLE_EQ(first, 3.5);
  EXPECT_DOUBLE_EQ(third, 3.5);
}

TEST(Shared, OneWithTwoThreadsCountsTwice) {
  Simulation simulation;
  Shared cores(simulation, 2, 1);
  double wide = 0, narrow = 0;
  cores.Begin(2, 2, [&] { wide = simulation.now(); });  // alone it would have both cores
  cores.Begin(4, 1, [&] { narrow = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(wide, 3);    // 2 cores for 3 threads: two thirds each
  EXPECT_DOUBLE_EQ(narrow, 5);  // 2 s done by then, 2 s alone
}

TEST(Shared, ManyCoresSlowNobodyDown) {
  Simulation simulation;
  Shared cores(simulation, kInfinity, 1);
  double last = 0;
  for (int i = 1; i <= 10; ++i) cores.Begin(i, 1, [&] { last = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(last, 10);
}

TEST(Shared, ALinkWithoutLimitTakesNoTime) {
  Simulation simulation;
  Shared link(simulation, kInfinity, kInfinity);
  int count = 0;
  for (int i = 0; i < 3; ++i) link.Begin(1e9, 1, [&] { ++count; });
  Finish(simulation);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(simulation.now(), 0);
}

// 100 bytes a second, 50 at once: 150 bytes take 1 s. The bucket is empty then; half a second later
// it is full again, and a second later no fuller.
TEST(Shared, ATokenBucketCarriesItsBurstAtOnce) {
  Simulation simulation;
  Shared link(simulation, 100, 100, 50);
  std::vector<double> ends;
  const auto end = [&] { ends.push_back(simulation.now()); };
  link.Begin(150, 1, end);
  simulation.At(1.25, [&] { link.Begin(50, 1, end); });  // 25 in the bucket
  simulation.At(5, [&] { link.Begin(250, 1, end); });    // 50
  simulation.At(6, [&] { link.Begin(100, 1, end); });    // busy: none
  Finish(simulation);
  ASSERT_EQ(ends.size(), 4u);
  EXPECT_DOUBLE_EQ(ends[0], 1);
  EXPECT_DOUBLE_EQ(ends[1], 1.5);
  // 200 from 5 on; at 6 there are 100 left of each.
  EXPECT_DOUBLE_EQ(ends[2], 8);
  EXPECT_DOUBLE_EQ(ends[3], 8);
}

TEST(Queue, DoesOnePieceAfterTheOther) {
  Simulation simulation;
  Shared cores(simulation, 4, 1);
  Queue thread(cores);
  std::vector<double> begun, ended;
  for (int i = 1; i <= 3; ++i) {
    thread.Add(
        i, [&] { ended.push_back(simulation.now()); }, 1,
        [&] { begun.push_back(simulation.now()); });
  }
  EXPECT_FALSE(thread.idle());
  Finish(simulation);
  EXPECT_EQ(begun, (std::vector<double>{0, 1, 3}));
  EXPECT_EQ(ended, (std::vector<double>{1, 3, 6}));
  EXPECT_TRUE(thread.idle());
}

TEST(Queue, WhatIsNextGoesBeforeWhatWaits) {
  Simulation simulation;
  Shared cores(simulation, 4, 1);
  Queue thread(cores);
  std::string order;
  thread.Add(1, [&] {
    order += 'a';
    thread.AddNext(1, [&] { order += 'b'; });
    thread.AddNext(1, [&] { order += 'c'; });
  });
  thread.Add(1, [&] { order += 'd'; });
  Finish(simulation);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(simulation.now(), 4);
}

}  // namespace
}  // namespace tern::tools

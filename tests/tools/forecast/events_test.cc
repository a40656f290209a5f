// The event loop, and how shared cores and links slow their users down.
#include "tools/forecast/events.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tern::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Runs all events.
void Finish(EventLoop& simulation) {
  EXPECT_FALSE(simulation.RunUntil([] { return false; }));
}

TEST(EventLoop, RunsEventsByTimeThenInTheOrderOfScheduling) {
  EventLoop simulation;
  std::string order;
  simulation.ScheduleAt(2, [&] { order += 'c'; });
  simulation.ScheduleAt(1, [&] {
    order += 'a';
    simulation.ScheduleAfter(1, [&] { order += 'd'; });
  });
  simulation.ScheduleAt(1, [&] { order += 'b'; });
  Finish(simulation);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(simulation.now(), 2);
}

TEST(EventLoop, StopsWhenThePredicateIsTrue) {
  EventLoop simulation;
  int count = 0;
  for (int i = 1; i <= 5; ++i) simulation.ScheduleAt(i, [&] { ++count; });
  EXPECT_TRUE(simulation.RunUntil([&] { return count == 3; }));
  EXPECT_EQ(simulation.now(), 3);
}

// Tasks of 3 s and 1 s begin together on one core. Both run at half speed until 2 s, when the
// second ends; the first then has 2 s left and the core for itself.
TEST(SharedResource, ThreadsShareOneCoreEqually) {
  EventLoop simulation;
  SharedResource core(simulation, 1, 1);
  double first = 0, second = 0;
  core.Start(3, 1, [&] { first = simulation.now(); });
  core.Start(1, 1, [&] { second = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(second, 2);
  EXPECT_DOUBLE_EQ(first, 4);
  EXPECT_FALSE(core.busy());
}

// The first task of 3 s runs alone for 1 s. Then three tasks share two cores, two thirds of a core
// each. The task of 1 s ends 1.5 s later, at 2.5 s; the other two have 1 s left each, and a core
// each.
TEST(SharedResource, ALaterTaskSlowsTheOthersDown) {
  EventLoop simulation;
  SharedResource cores(simulation, 2, 1);
  double first = 0, second = 0, third = 0;
  cores.Start(3, 1, [&] { first = simulation.now(); });
  simulation.ScheduleAt(1, [&] {
    cores.Start(1, 1, [&] { second = simulation.now(); });
    cores.Start(2, 1, [&] { third = simulation.now(); });
  });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(second, 2.5);
  EXPECT_DOUBLE_EQ(first, 3.5);
  EXPECT_DOUBLE_EQ(third, 3.5);
}

TEST(SharedResource, ATaskOfTwoThreadsCountsTwice) {
  EventLoop simulation;
  SharedResource cores(simulation, 2, 1);
  double wide = 0, narrow = 0;
  cores.Start(2, 2, [&] { wide = simulation.now(); });  // alone this task would use both cores
  cores.Start(4, 1, [&] { narrow = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(wide, 3);    // 2 cores for 3 threads: two thirds each
  EXPECT_DOUBLE_EQ(narrow, 5);  // 2 s of work are done at time 3; the other 2 s run alone
}

TEST(SharedResource, EnoughCoresSlowNoTaskDown) {
  EventLoop simulation;
  SharedResource cores(simulation, kInfinity, 1);
  double last = 0;
  for (int i = 1; i <= 10; ++i) cores.Start(i, 1, [&] { last = simulation.now(); });
  Finish(simulation);
  EXPECT_DOUBLE_EQ(last, 10);
}

TEST(SharedResource, ALinkWithoutLimitTakesNoTime) {
  EventLoop simulation;
  SharedResource link(simulation, kInfinity, kInfinity);
  int count = 0;
  for (int i = 0; i < 3; ++i) link.Start(1e9, 1, [&] { ++count; });
  Finish(simulation);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(simulation.now(), 0);
}

// 100 bytes per second and a burst of 50 bytes: 150 bytes take 1 s. The bucket is then empty; it is
// full again half a second later.
TEST(SharedResource, ATokenBucketPassesItsBurstAtOnce) {
  EventLoop simulation;
  SharedResource link(simulation, 100, 100, 50);
  std::vector<double> ends;
  const auto end = [&] { ends.push_back(simulation.now()); };
  link.Start(150, 1, end);
  simulation.ScheduleAt(1.25, [&] { link.Start(50, 1, end); });  // 25 bytes are in the burst bucket
  simulation.ScheduleAt(5, [&] { link.Start(250, 1, end); });    // 50 bytes are in the bucket
  simulation.ScheduleAt(6, [&] { link.Start(100, 1, end); });    // the link is busy: no burst
  Finish(simulation);
  ASSERT_EQ(ends.size(), 4u);
  EXPECT_DOUBLE_EQ(ends[0], 1);
  EXPECT_DOUBLE_EQ(ends[1], 1.5);
  // Of the 250 bytes from 5 s, 50 travel at once. At 6 s both transfers have 100 bytes left.
  EXPECT_DOUBLE_EQ(ends[2], 8);
  EXPECT_DOUBLE_EQ(ends[3], 8);
}

TEST(WorkQueue, RunsOneTaskAfterTheOther) {
  EventLoop simulation;
  SharedResource cores(simulation, 4, 1);
  WorkQueue thread(cores);
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

TEST(WorkQueue, RunsUrgentTasksBeforeNormalOnes) {
  EventLoop simulation;
  SharedResource cores(simulation, 4, 1);
  WorkQueue thread(cores);
  std::string order;
  thread.Add(1, [&] {
    order += 'a';
    thread.AddUrgent(1, [&] { order += 'b'; });
    thread.AddUrgent(1, [&] { order += 'c'; });
  });
  thread.Add(1, [&] { order += 'd'; });
  Finish(simulation);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(simulation.now(), 4);
}

}  // namespace
}  // namespace tern::tools

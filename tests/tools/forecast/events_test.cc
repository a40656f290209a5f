// Tests of the simulator of `tern forecast`: its event loop, and how tasks that share cores or
// links slow each other down.
#include "tools/forecast/events.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tern::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Runs the loop until no event is left.
void RunAllEvents(EventLoop& loop) {
  EXPECT_FALSE(loop.RunUntil([] { return false; }));
}

TEST(EventLoop, RunsEventsByTimeThenInTheOrderOfScheduling) {
  EventLoop loop;
  std::string order;
  loop.ScheduleAt(2, [&] { order += 'c'; });
  loop.ScheduleAt(1, [&] {
    order += 'a';
    loop.ScheduleAfter(1, [&] { order += 'd'; });
  });
  loop.ScheduleAt(1, [&] { order += 'b'; });
  RunAllEvents(loop);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(loop.now(), 2);
}

TEST(EventLoop, StopsWhenThePredicateIsTrue) {
  EventLoop loop;
  int num_events_run = 0;
  for (int i = 1; i <= 5; ++i) loop.ScheduleAt(i, [&] { ++num_events_run; });
  EXPECT_TRUE(loop.RunUntil([&] { return num_events_run == 3; }));
  EXPECT_EQ(loop.now(), 3);
}

// Tasks of 3 s and 1 s begin together on one core. Both run at half speed until the second task
// ends at 2 s. The first task then has 2 s left and the core for itself.
TEST(SharedResource, ThreadsShareOneCoreEqually) {
  EventLoop loop;
  SharedResource core(loop, 1, 1);
  double first_end = 0, second_end = 0;
  core.StartTask(3, 1, [&] { first_end = loop.now(); });
  core.StartTask(1, 1, [&] { second_end = loop.now(); });
  RunAllEvents(loop);
  EXPECT_DOUBLE_EQ(second_end, 2);
  EXPECT_DOUBLE_EQ(first_end, 4);
  EXPECT_FALSE(core.busy());
}

// The first task of 3 s runs alone for 1 s. Then three tasks share two cores, two thirds of a core
// each. The task of 1 s ends 1.5 s later, at 2.5 s; the other two have 1 s left each, and a core
// each.
TEST(SharedResource, ALaterTaskSlowsTheOthersDown) {
  EventLoop loop;
  SharedResource cores(loop, 2, 1);
  double first_end = 0, second_end = 0, third_end = 0;
  cores.StartTask(3, 1, [&] { first_end = loop.now(); });
  loop.ScheduleAt(1, [&] {
    cores.StartTask(1, 1, [&] { second_end = loop.now(); });
    cores.StartTask(2, 1, [&] { third_end = loop.now(); });
  });
  RunAllEvents(loop);
  EXPECT_DOUBLE_EQ(second_end, 2.5);
  EXPECT_DOUBLE_EQ(first_end, 3.5);
  EXPECT_DOUBLE_EQ(third_end, 3.5);
}

TEST(SharedResource, ATaskOfTwoThreadsCountsTwice) {
  EventLoop loop;
  SharedResource cores(loop, 2, 1);
  double end_of_two_threads = 0, end_of_one_thread = 0;
  // Alone this task would use both cores.
  cores.StartTask(2, 2, [&] { end_of_two_threads = loop.now(); });
  cores.StartTask(4, 1, [&] { end_of_one_thread = loop.now(); });
  RunAllEvents(loop);
  EXPECT_DOUBLE_EQ(end_of_two_threads, 3);  // 2 cores for 3 threads: two thirds each
  EXPECT_DOUBLE_EQ(end_of_one_thread,
                   5);  // 2 s of work are done at time 3; the other 2 s run alone
}

TEST(SharedResource, EnoughCoresSlowNoTaskDown) {
  EventLoop loop;
  SharedResource cores(loop, kInfinity, 1);
  double last_end = 0;
  for (int i = 1; i <= 10; ++i) cores.StartTask(i, 1, [&] { last_end = loop.now(); });
  RunAllEvents(loop);
  EXPECT_DOUBLE_EQ(last_end, 10);
}

TEST(SharedResource, ALinkWithoutLimitTakesNoTime) {
  EventLoop loop;
  SharedResource link(loop, kInfinity, kInfinity);
  int num_transfers_done = 0;
  for (int i = 0; i < 3; ++i) link.StartTask(1e9, 1, [&] { ++num_transfers_done; });
  RunAllEvents(loop);
  EXPECT_EQ(num_transfers_done, 3);
  EXPECT_EQ(loop.now(), 0);
}

// A token bucket lets 100 bytes per second pass, and 50 more in a burst: 150 bytes take 1 s. The
// bucket is then empty; it is full again half a second later.
TEST(SharedResource, ATokenBucketPassesItsBurstAtOnce) {
  EventLoop loop;
  SharedResource link(loop, 100, 100, 50);
  std::vector<double> end_times;
  const auto record_end = [&] { end_times.push_back(loop.now()); };
  link.StartTask(150, 1, record_end);
  loop.ScheduleAt(1.25, [&] { link.StartTask(50, 1, record_end); });  // the bucket holds 25 bytes
  loop.ScheduleAt(5, [&] { link.StartTask(250, 1, record_end); });    // the bucket is full
  loop.ScheduleAt(6, [&] { link.StartTask(100, 1, record_end); });    // the link is busy: no burst
  RunAllEvents(loop);
  ASSERT_EQ(end_times.size(), 4u);
  EXPECT_DOUBLE_EQ(end_times[0], 1);
  EXPECT_DOUBLE_EQ(end_times[1], 1.5);
  // Of the 250 bytes from 5 s, 50 travel at once. At 6 s both transfers have 100 bytes left.
  EXPECT_DOUBLE_EQ(end_times[2], 8);
  EXPECT_DOUBLE_EQ(end_times[3], 8);
}

TEST(WorkQueue, RunsOneTaskAfterTheOther) {
  EventLoop loop;
  SharedResource cores(loop, 4, 1);
  WorkQueue thread(cores);
  std::vector<double> begin_times, end_times;
  for (int i = 1; i <= 3; ++i) {
    thread.AddTask(
        i, [&] { end_times.push_back(loop.now()); }, 1, [&] { begin_times.push_back(loop.now()); });
  }
  RunAllEvents(loop);
  EXPECT_EQ(begin_times, (std::vector<double>{0, 1, 3}));
  EXPECT_EQ(end_times, (std::vector<double>{1, 3, 6}));
}

TEST(WorkQueue, RunsUrgentTasksBeforeNormalOnes) {
  EventLoop loop;
  SharedResource cores(loop, 4, 1);
  WorkQueue thread(cores);
  std::string order;
  thread.AddTask(1, [&] {
    order += 'a';
    thread.AddUrgentTask(1, [&] { order += 'b'; });
    thread.AddUrgentTask(1, [&] { order += 'c'; });
  });
  thread.AddTask(1, [&] { order += 'd'; });
  RunAllEvents(loop);
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(loop.now(), 4);
}

}  // namespace
}  // namespace tern::tools

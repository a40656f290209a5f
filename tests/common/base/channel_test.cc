#include "common/base/channel.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/threads.h"

namespace tern {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool IsReadable(int fd) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, 0) == 1;
}

TEST(Channel, ReturnsItemsInOrder) {
  Channel<int> channel;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(channel.Push(i));
  EXPECT_EQ(channel.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(channel.TryPop(), i);
  EXPECT_EQ(channel.TryPop(), std::nullopt);
}

TEST(Channel, HoldsMoveOnlyItems) {
  Channel<std::unique_ptr<int>> channel;
  EXPECT_TRUE(channel.Push(std::make_unique<int>(7)));
  EXPECT_EQ(**channel.Pop(), 7);
}

TEST(Channel, TryPushOnAFullChannelLeavesTheItem) {
  Channel<std::unique_ptr<int>> channel(1);
  auto item1 = std::make_unique<int>(1);
  auto item2 = std::make_unique<int>(2);
  EXPECT_TRUE(channel.TryPush(item1));
  EXPECT_FALSE(channel.TryPush(item2));
  EXPECT_EQ(*item2, 2);
}

TEST(Channel, PushWaitsWhileTheChannelIsFull) {
  Channel<int> channel(1);
  ASSERT_TRUE(channel.Push(1));
  Thread pusher("pusher", [&] { EXPECT_TRUE(channel.Push(2)); });
  EXPECT_EQ(channel.Pop(), 1);
  EXPECT_EQ(channel.Pop(), 2);
}

TEST(Channel, PopTimesOutAtItsDeadline) {
  Channel<int> channel;
  const Time begin = Now();
  EXPECT_EQ(channel.Pop(begin + milliseconds(20)), std::nullopt);
  EXPECT_GE(Now() - begin, milliseconds(20));
  EXPECT_FALSE(channel.drained());
}

TEST(Channel, PopWithDeadlineReturnsAnItemThatArrivesInTime) {
  Channel<int> channel;
  Thread pusher("pusher", [&] { channel.Push(5); });
  EXPECT_EQ(channel.Pop(Now() + seconds(30)), 5);
}

TEST(Channel, CloseKeepsItemsAndRefusesNewOnes) {
  Channel<int> channel;
  ASSERT_TRUE(channel.Push(1));
  channel.Close();
  EXPECT_FALSE(channel.Push(2));
  int refused_item = 3;
  EXPECT_FALSE(channel.TryPush(refused_item));
  EXPECT_FALSE(channel.drained());
  EXPECT_EQ(channel.Pop(), 1);
  EXPECT_EQ(channel.Pop(), std::nullopt);
  EXPECT_TRUE(channel.drained());
}

TEST(Channel, CloseWakesWaitingThreads) {
  Channel<int> empty_channel, full_channel(1);
  ASSERT_TRUE(full_channel.Push(1));
  Thread popper("popper", [&] { EXPECT_EQ(empty_channel.Pop(), std::nullopt); });
  Thread pusher("pusher", [&] { EXPECT_FALSE(full_channel.Push(2)); });
  empty_channel.Close();
  full_channel.Close();
}

TEST(Channel, EventFdIsReadableWhileThereAreItems) {
  Channel<int> channel;
  ASSERT_TRUE(channel.Push(1));
  const int fd = channel.event_fd();
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(IsReadable(fd)) << "items that were pushed before the first call count, too";
  ASSERT_TRUE(channel.Push(2));
  channel.TryPop();
  EXPECT_TRUE(IsReadable(fd)) << "one item is still there";
  channel.TryPop();
  EXPECT_FALSE(IsReadable(fd));
  ASSERT_TRUE(channel.Push(3));
  EXPECT_TRUE(IsReadable(fd));
}

TEST(Channel, EventFdStaysReadableOnceClosed) {
  Channel<int> channel;
  const int fd = channel.event_fd();
  ASSERT_TRUE(channel.Push(1));
  channel.Close();
  channel.TryPop();
  EXPECT_TRUE(IsReadable(fd));
}

TEST(Channel, LosesNothingBetweenManyThreads) {
  constexpr int kPushers = 4;
  constexpr int64_t kItemsPerThread = 5000;
  Channel<int64_t> channel(16);
  channel.event_fd();
  int64_t sum = 0, num_items = 0;
  std::vector<int64_t> newest_of_pusher(kPushers, -1);
  bool is_in_order = true;
  {
    Thread popper("popper", [&] {
      while (const auto item = channel.Pop()) {
        const int64_t pusher = *item / kItemsPerThread, number = *item % kItemsPerThread;
        is_in_order = is_in_order && number > newest_of_pusher[pusher];
        newest_of_pusher[pusher] = number;
        sum += *item;
        ++num_items;
      }
    });
    std::vector<Thread> pushers;
    for (int p = 0; p < kPushers; ++p) {
      pushers.emplace_back("pusher", [&, p] {
        for (int64_t i = 0; i < kItemsPerThread; ++i) channel.Push(p * kItemsPerThread + i);
      });
    }
    for (Thread& pusher : pushers) pusher.Join();
    channel.Close();
  }
  const int64_t n = kPushers * kItemsPerThread;
  EXPECT_EQ(num_items, n);
  EXPECT_EQ(sum, n * (n - 1) / 2);
  EXPECT_TRUE(is_in_order) << "items of one thread keep their order";
}

}  // namespace
}  // namespace tern

#include "common/net/poller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using std::chrono::milliseconds;

TEST(Poller, WaitsOutItsTimeout) {
  Poller poller;
  const Time begin = Now();
  ASSERT_TRUE(poller.Wait(milliseconds(20)).ok());
  EXPECT_GE(Now() - begin, milliseconds(20));
}

TEST(Poller, RoundsTheTimeoutUp) {
  Channel<int> channel;
  Poller poller;
  poller.AddFd(channel.event_fd());
  const Time begin = Now();
  ASSERT_TRUE(poller.Wait(Time(1)).ok());
  EXPECT_GE(Now() - begin, std::chrono::microseconds(500));
}

TEST(Poller, WakesUpForAChannelAndASocket) {
  Context context;
  auto router = BindLoopback(context);
  auto dealer = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  Channel<int> channel;
  Poller poller;
  poller.Add(router.get());
  poller.AddFd(channel.event_fd());
  {
    Thread pusher("pusher", [&] { channel.Push(1); });
    const Time end = Now() + kPatience;
    while (!poller.WasFdReady(channel.event_fd()) && Now() < end)
      ASSERT_TRUE(poller.Wait(end - Now()).ok());
  }
  EXPECT_TRUE(poller.WasFdReady(channel.event_fd()));
  EXPECT_FALSE(poller.WasReady(router.get()));
  EXPECT_EQ(channel.TryPop(), 1);

  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1)).ok());
  const Time end = Now() + kPatience;
  while (!poller.WasReady(router.get()) && Now() < end) ASSERT_TRUE(poller.Wait(end - Now()).ok());
  EXPECT_TRUE(poller.WasReady(router.get()));
  EXPECT_FALSE(poller.WasFdReady(channel.event_fd()));
  EXPECT_FALSE(poller.WasReady(dealer.get())) << "the dealer was not added to this poller";
}

TEST(Poller, ForgetsRemovedSockets) {
  Channel<int> channel;
  ASSERT_TRUE(channel.Push(1));
  Poller poller;
  poller.AddFd(channel.event_fd());
  poller.AddFd(channel.event_fd());  // adding it twice has no effect
  ASSERT_TRUE(poller.Wait(milliseconds(0)).ok());
  EXPECT_TRUE(poller.WasFdReady(channel.event_fd()));
  poller.RemoveFd(channel.event_fd());
  ASSERT_TRUE(poller.Wait(milliseconds(0)).ok());
  EXPECT_FALSE(poller.WasFdReady(channel.event_fd()));
}

TEST(Poller, SkipsClosedAndLostSockets) {
  Context context;
  auto router = BindLoopback(context);
  auto dealer = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  Poller poller;
  poller.Add(router.get());
  poller.Add(dealer.get());
  router->CloseAfterFlush();
  const Time end = Now() + kPatience;
  while (!poller.WasReady(dealer.get()) && Now() < end) ASSERT_TRUE(poller.Wait(end - Now()).ok());
  EXPECT_EQ(dealer->link(), DealerSocket::Link::kLost);
  ASSERT_TRUE(poller.Wait(milliseconds(1)).ok());
  EXPECT_FALSE(poller.WasReady(dealer.get())) << "a lost connection is reported once";
  EXPECT_FALSE(poller.WasReady(router.get()));
}

TEST(Poller, RefusesAnInvalidDescriptor) {
  Poller poller;
  poller.AddFd(-1);
  EXPECT_EQ(poller.Wait(milliseconds(0)).code(), Code::kInternal);
}

}  // namespace
}  // namespace tern::net

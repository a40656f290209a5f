// Tests of the limit of what a connection sends. That connections over far links send evenly is
// measured by bench/latency.py: the round trip of loopback is always short.
#include "common/net/pacing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "tests/common/net/key_testing.h"

namespace tern::net {
namespace {

constexpr double kMbit = 80;
// The kernel sends the first 10 packets of a connection, up to 64 KiB each, at once. The other
// bytes take 0.36 s at kMbit.
constexpr size_t kNumMessages = 4, kMessageBytes = 1'000'000;
constexpr Time kShortest = std::chrono::milliseconds(250);

// Two ends of a TCP connection over loopback.
class Pacing : public ::testing::Test {
 protected:
  void SetUp() override {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener, generic, size), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, generic, &size), 0);
    ASSERT_EQ(connect(fd_, generic, size), 0);
    peer_ = accept(listener, nullptr, nullptr);
    close(listener);
  }
  void TearDown() override {
    close(fd_);
    close(peer_);
  }
  uint32_t LimitOf(int fd) {
    uint32_t limit = 0;
    socklen_t size = sizeof limit;
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, &size), 0);
    return limit;
  }

  int fd_ = socket(AF_INET, SOCK_STREAM, 0), peer_ = -1;
};

TEST_F(Pacing, LeavesNearConnectionsWithoutALimit) {
  Pace(fd_, {.is_even_if_far = true});
  EXPECT_EQ(LimitOf(fd_), UINT32_MAX);
}

// A full Ethernet frame takes 1538 bytes of the link, of which 1448 belong to the stream.
TEST_F(Pacing, LimitsTheBytesOfTheStream) {
  Pace(fd_, {.limit_mbit = 100});
  EXPECT_EQ(LimitOf(fd_), static_cast<uint32_t>(100e6 / 8 * 1448 / 1538));
  EXPECT_EQ(LimitOf(peer_), UINT32_MAX);
}

TEST_F(Pacing, HasAHighestLimit) {
  Pace(fd_, {.limit_mbit = 1e6});
  EXPECT_EQ(LimitOf(fd_), 4'000'000'000);
}

TEST_F(Pacing, IgnoresWhatIsNoSocket) { Pace(-1, {.limit_mbit = 100}); }

class PacedSockets : public ::testing::Test {
 protected:
  Registry registry_;
  Context context_;
  std::unique_ptr<ZapHandler> zap_handler_ =
      Value(ZapHandler::Start(context_, {.registry = &registry_, .pacing = {.limit_mbit = kMbit}}));
  std::unique_ptr<RouterSocket> router_ =
      BindLoopback(context_, {.zap_handler = zap_handler_.get()});
};

// How long it takes until all messages that `send_one` sends have come to `receiver`.
template <typename Receiver, typename SendOne>
Time TimeToSend(Receiver& receiver, const SendOne& send_one) {
  const Bytes payload = Text(std::string(kMessageBytes, 'x'));
  const Time begin = Now();
  for (size_t i = 0; i < kNumMessages; ++i)
    EXPECT_TRUE(send_one(NumberedEnvelope(i), payload).ok());
  for (size_t i = 0; i < kNumMessages; ++i) EXPECT_TRUE(AwaitMessage(receiver).has_value());
  return Now() - begin;
}

TEST_F(PacedSockets, DealersSendAtMostAtTheirRate) {
  const auto dealer = ConnectTo(context_, *router_, {.pacing = {.limit_mbit = kMbit}});
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  const auto send_one = [&](const pb::Envelope& envelope, const Bytes& payload) {
    return dealer->Send(envelope, payload);
  };
  EXPECT_GE(TimeToSend(*router_, send_one), kShortest);
}

TEST_F(PacedSockets, RoutersSendAtMostAtTheRateOfTheirHandler) {
  const auto dealer = ConnectTo(context_, *router_);
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1), {}).ok());
  const auto hello = AwaitMessage(*router_);
  ASSERT_TRUE(hello.has_value());
  const auto send_one = [&](const pb::Envelope& envelope, const Bytes& payload) {
    return router_->Send(hello->peer, envelope, payload);
  };
  EXPECT_GE(TimeToSend(*dealer, send_one), kShortest);
}

}  // namespace
}  // namespace tern::net

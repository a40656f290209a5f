// Tests of RouterSocket, to which many peers connect, and of DealerSocket, which connects to one
// RouterSocket. Both are made of ZeroMQ sockets.
#include "common/net/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "common/net/address.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Link = DealerSocket::Link;

void ExpectRoundTrip(const std::string& host) {
  Context context;
  auto router = Value(RouterSocket::Bind(context, host, 0, {}));
  ASSERT_NE(router->port(), 0);
  auto dealer = Value(DealerSocket::Connect(context, host, router->port(), {}));
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(3), Text("up")).ok());
  const auto message_at_router = AwaitMessage(*router);
  ASSERT_TRUE(message_at_router.has_value());
  ASSERT_FALSE(message_at_router->error.has_value());
  EXPECT_EQ(message_at_router->envelope.push().in_round().round(), 3u);
  EXPECT_EQ(message_at_router->payload.view(), "up");
  EXPECT_NE(message_at_router->peer, 0u);

  ASSERT_TRUE(router->Send(message_at_router->peer, NumberedEnvelope(4)).ok());
  const auto message_at_dealer = AwaitMessage(*dealer);
  ASSERT_TRUE(message_at_dealer.has_value());
  EXPECT_EQ(message_at_dealer->envelope.push().in_round().round(), 4u);
  EXPECT_TRUE(message_at_dealer->payload.empty());
}

// A folder that is removed with its files.
class ScopedFolder {
 public:
  ScopedFolder() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~ScopedFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = testing::TempDir() + "tern_socket_XXXXXX";
};

TEST(Socket, RoundTripOverAUnixSocket) {
  const ScopedFolder folder;
  Context context;
  auto router = Value(RouterSocket::BindLocal(context, folder.file("socket"), {}));
  EXPECT_EQ(router->port(), 0);
  auto dealer = Value(DealerSocket::ConnectLocal(context, folder.file("socket"), {}));
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(3), Text("up")).ok());
  const auto message = AwaitMessage(*router);
  ASSERT_TRUE(message.has_value() && !message->error.has_value());
  EXPECT_EQ(message->payload.view(), "up");
  ASSERT_TRUE(router->Send(message->peer, NumberedEnvelope(4)).ok());
  EXPECT_TRUE(AwaitMessage(*dealer).has_value());
  router.reset();
  EXPECT_TRUE(AwaitLink(*dealer, Link::kLost));
}

TEST(Socket, AUnixSocketTakesThePlaceOfOneThatIsLeft) {
  const ScopedFolder folder;
  std::ofstream(folder.file("socket")) << "left behind";
  Context context;
  auto router = Value(RouterSocket::BindLocal(context, folder.file("socket"), {}));
  auto dealer = Value(DealerSocket::ConnectLocal(context, folder.file("socket"), {}));
  EXPECT_TRUE(AwaitLink(*dealer, Link::kUp));
  const auto nowhere = RouterSocket::BindLocal(context, folder.file("nowhere/socket"), {});
  EXPECT_EQ(nowhere.status().code(), Code::kAddress);
  EXPECT_THAT(nowhere.status().message(), HasSubstr("nowhere/socket"));
}

TEST(Socket, RoundTripOverIpv4) { ExpectRoundTrip("127.0.0.1"); }
TEST(Socket, RoundTripOverIpv6) { ExpectRoundTrip("::1"); }
TEST(Socket, RoundTripOverIpv6InBrackets) { ExpectRoundTrip("[::1]"); }
TEST(Socket, RoundTripByName) { ExpectRoundTrip("localhost"); }

TEST(Socket, BoundToAllAddressesIsReachedOverIpv4AndIpv6) {
  Context context;
  auto router = Value(RouterSocket::Bind(context, "*", 0, {}));
  for (const char* host : {"127.0.0.1", "::1"}) {
    auto dealer = Value(DealerSocket::Connect(context, host, router->port(), {}));
    ASSERT_TRUE(AwaitLink(*dealer, Link::kUp)) << host;
  }
}

TEST(Socket, DistinguishesPeersAndKeepsTheirOrder) {
  Context context;
  auto router = BindLoopback(context);
  auto dealer1 = ConnectTo(context, *router), dealer2 = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer1, Link::kUp) && AwaitLink(*dealer2, Link::kUp));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(dealer1->Send(NumberedEnvelope(i)).ok());
    ASSERT_TRUE(dealer2->Send(NumberedEnvelope(1000 + i)).ok());
  }
  std::map<PeerId, std::vector<uint64_t>> numbers_by_peer;
  for (int i = 0; i < 100; ++i) {
    const auto received = AwaitMessage(*router);
    ASSERT_TRUE(received.has_value());
    numbers_by_peer[received->peer].push_back(received->envelope.push().in_round().round());
  }
  ASSERT_EQ(numbers_by_peer.size(), 2u);
  for (const auto& [peer, numbers] : numbers_by_peer) {
    ASSERT_EQ(numbers.size(), 50u);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(numbers[i], numbers[0] + i);
    ASSERT_TRUE(router->Send(peer, NumberedEnvelope(numbers[0])).ok());
  }
  EXPECT_EQ(AwaitMessage(*dealer1)->envelope.push().in_round().round(), 0u);
  EXPECT_EQ(AwaitMessage(*dealer2)->envelope.push().in_round().round(), 1000u);
}

// Sends a payload, destroys all sockets, and returns how often the payload's release function was
// called.
int SendAndCountReleases(size_t size) {
  const std::vector<uint8_t> data(size, 0x5a);
  std::atomic<int> num_releases{0};
  {
    Context context;
    auto router = BindLoopback(context, {.max_payload_bytes = 8 << 20});
    auto dealer = ConnectTo(context, *router, {.max_payload_bytes = 8 << 20});
    EXPECT_TRUE(AwaitLink(*dealer, Link::kUp));
    Bytes payload = Bytes::Share(data.data(), data.size(), [&] { ++num_releases; });
    EXPECT_TRUE(dealer->Send(NumberedEnvelope(1), payload).ok());
    EXPECT_EQ(num_releases, 0) << "the variable `payload` still refers to the data";
    payload = Bytes();
    if (size < kZeroCopyBytes) {
      EXPECT_EQ(num_releases, 1) << "small payloads are copied at once";
    }
    const auto received = AwaitMessage(*router);
    EXPECT_TRUE(received.has_value());
    if (received) {
      EXPECT_EQ(received->payload, Bytes::Own(data));
    }
  }
  return num_releases;
}

TEST(Socket, ReleasesASmallPayloadOnce) { EXPECT_EQ(SendAndCountReleases(kZeroCopyBytes - 1), 1); }
TEST(Socket, ReleasesALargePayloadOnce) {
  EXPECT_EQ(SendAndCountReleases(kZeroCopyBytes), 1);
  EXPECT_EQ(SendAndCountReleases(8 << 20), 1);
}

TEST(Socket, ReleasesAPayloadThatCouldNotBeSent) {
  const std::vector<uint8_t> data(kZeroCopyBytes);
  std::atomic<int> num_releases{0};
  Context context;
  auto router = BindLoopback(context);
  const auto send = [&] {
    return router->Send(1, NumberedEnvelope(1),
                        Bytes::Share(data.data(), data.size(), [&] { ++num_releases; }));
  };
  EXPECT_EQ(send().outcome, SendOutcome::kUnreachable);
  EXPECT_EQ(num_releases, 1);
}

TEST(Socket, AReceivedPayloadOutlivesItsSocketAndContext) {
  Bytes payload;
  {
    Context context;
    auto router = BindLoopback(context);
    auto dealer = ConnectTo(context, *router);
    ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
    ASSERT_TRUE(dealer->Send(NumberedEnvelope(1), Text(std::string(100000, 'p'))).ok());
    payload = AwaitMessage(*router)->payload.Slice(10, 20);
  }
  EXPECT_EQ(payload.view(), std::string(20, 'p'));
}

TEST(Socket, SendToAnUnknownPeerIsUnreachable) {
  Context context;
  auto router = BindLoopback(context);
  const SendResult result = router->Send(42, NumberedEnvelope(1));
  EXPECT_EQ(result.outcome, SendOutcome::kUnreachable);
  EXPECT_EQ(result.status.code(), Code::kPeerLost);
}

TEST(Socket, SendToAForgottenPeerIsUnreachableUntilItSpeaksAgain) {
  Context context;
  auto router = BindLoopback(context);
  auto dealer = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1)).ok());
  const PeerId first_peer = AwaitMessage(*router)->peer;
  router->Forget(first_peer);
  EXPECT_EQ(router->Send(first_peer, NumberedEnvelope(1)).outcome, SendOutcome::kUnreachable);
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(2)).ok());
  const PeerId second_peer = AwaitMessage(*router)->peer;
  EXPECT_NE(second_peer, first_peer);
  EXPECT_TRUE(router->Send(second_peer, NumberedEnvelope(3)).ok());
}

TEST(Socket, SendToAPeerThatLeftBecomesUnreachable) {
  Context context;
  auto router = BindLoopback(context);
  auto dealer = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1)).ok());
  const PeerId peer = AwaitMessage(*router)->peer;
  dealer.reset();
  Poller poller;  // used only to wait
  const Time end = Now() + kPatience;
  SendOutcome send_outcome = SendOutcome::kOk;
  while (send_outcome == SendOutcome::kOk && Now() < end) {
    ASSERT_TRUE(poller.Wait(std::chrono::milliseconds(1)).ok());
    send_outcome = router->Send(peer, NumberedEnvelope(2)).outcome;
  }
  EXPECT_EQ(send_outcome, SendOutcome::kUnreachable);
}

TEST(Socket, ReportsAFullQueueAndDeliversWhatItAccepted) {
  Context context;
  const SocketOptions options{.max_payload_bytes = 1 << 20, .high_water_mark = 2};
  auto router = BindLoopback(context, options);
  auto dealer = ConnectTo(context, *router, options);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(0)).ok());
  const PeerId peer = AwaitMessage(*router)->peer;
  const Bytes payload = Text(std::string(1 << 20, 'p'));
  uint64_t num_accepted = 0;
  SendResult result;
  while ((result = router->Send(peer, NumberedEnvelope(num_accepted), payload)).ok() &&
         num_accepted < 1000)
    ++num_accepted;
  EXPECT_EQ(result.outcome, SendOutcome::kFull);
  EXPECT_GE(num_accepted, 2u);
  for (uint64_t i = 0; i < num_accepted; ++i) {
    const auto received = AwaitMessage(*dealer);
    ASSERT_TRUE(received.has_value()) << "message " << i << " of " << num_accepted;
    EXPECT_EQ(received->envelope.push().in_round().round(), i);
  }
}

TEST(Socket, RefusesToSendInvalidMessages) {
  Context context;
  auto router = BindLoopback(context, {.max_payload_bytes = 100});
  auto dealer = ConnectTo(context, *router, {.max_payload_bytes = 100});
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  EXPECT_EQ(dealer->Send(pb::Envelope()).outcome, SendOutcome::kRefused);
  const SendResult result = dealer->Send(NumberedEnvelope(1), Text(std::string(101, 'p')));
  EXPECT_EQ(result.outcome, SendOutcome::kRefused);
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_TRUE(dealer->Send(NumberedEnvelope(2), Text(std::string(100, 'p'))).ok());
  EXPECT_EQ(AwaitMessage(*router)->envelope.push().in_round().round(), 2u)
      << "the refused messages were not sent";
}

TEST(Socket, DealerConnectsWhenItsServerStartsLater) {
  uint16_t port = 0;
  {
    Context short_lived_context;  // its destructor frees the port
    port = BindLoopback(short_lived_context)->port();
  }
  Context context;
  auto dealer = Value(DealerSocket::Connect(context, "127.0.0.1", port, {}));
  Poller poller;
  poller.Add(dealer.get());
  // Waits long enough for some attempts to fail.
  for (const Time end = Now() + std::chrono::milliseconds(400); Now() < end;) {
    EXPECT_EQ(dealer->Send(NumberedEnvelope(1)).outcome, SendOutcome::kUnreachable);
    ASSERT_TRUE(poller.Wait(end - Now()).ok());
  }
  EXPECT_EQ(dealer->link(), Link::kConnecting);
  auto router = Value(RouterSocket::Bind(context, "127.0.0.1", port, {}));
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(2)).ok());
  EXPECT_EQ(AwaitMessage(*router)->envelope.push().in_round().round(), 2u)
      << "the refused messages are never sent";
}

TEST(Socket, DealerReadsMessagesThatArrivedBeforeTheLoss) {
  Context context;
  auto server_context = std::make_unique<Context>();
  auto router = BindLoopback(*server_context);
  auto dealer = ConnectTo(context, *router);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1)).ok());
  const PeerId peer = AwaitMessage(*router)->peer;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(router->Send(peer, NumberedEnvelope(i)).ok());
  router->CloseAfterFlush();
  server_context.reset();
  ASSERT_TRUE(AwaitLink(*dealer, Link::kLost));
  for (uint64_t i = 0; i < 3; ++i) {
    const auto received = AwaitMessage(*dealer);
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->envelope.push().in_round().round(), i);
  }
  EXPECT_EQ(dealer->Send(NumberedEnvelope(2)).outcome, SendOutcome::kUnreachable);
}

TEST(Socket, AfterALossNoMessageReachesARestartedServer) {
  Context context;
  auto server_context = std::make_unique<Context>();
  auto old_router = BindLoopback(*server_context);
  const uint16_t port = old_router->port();
  auto dealer = ConnectTo(context, *old_router);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  old_router.reset();
  server_context.reset();
  ASSERT_TRUE(AwaitLink(*dealer, Link::kLost));
  auto new_router = Value(RouterSocket::Bind(context, "127.0.0.1", port, {}));
  EXPECT_EQ(dealer->Send(NumberedEnvelope(1)).outcome, SendOutcome::kUnreachable);
  auto new_dealer = ConnectTo(context, *new_router);
  ASSERT_TRUE(AwaitLink(*new_dealer, Link::kUp));
  EXPECT_EQ(dealer->link(), Link::kLost);
  EXPECT_EQ(dealer->Send(NumberedEnvelope(1)).outcome, SendOutcome::kUnreachable);
  ASSERT_TRUE(new_dealer->Send(NumberedEnvelope(2)).ok());
  EXPECT_EQ(AwaitMessage(*new_router)->envelope.push().in_round().round(), 2u);
}

TEST(Socket, MessagesQueuedBeforeALossNeverReachARestartedServer) {
  Context context;
  auto server_context = std::make_unique<Context>();
  // The router's queue is small, so that most messages stay in the dealer's queue.
  auto old_router = BindLoopback(*server_context, {.high_water_mark = 1});
  const uint16_t port = old_router->port();
  auto dealer = ConnectTo(context, *old_router);
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  const Bytes payload = Text(std::string(1 << 20, 'p'));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(dealer->Send(NumberedEnvelope(i), payload).ok());
  old_router.reset();
  server_context.reset();
  ASSERT_TRUE(AwaitLink(*dealer, Link::kLost));
  auto new_router = Value(RouterSocket::Bind(context, "127.0.0.1", port, {}));
  // If the dealer's ZeroMQ socket were still open, libzmq would connect again after 100 ms.
  EXPECT_FALSE(AwaitMessage(*new_router, std::chrono::milliseconds(500)).has_value());
}

TEST(Socket, CloseAfterFlushDeliversAllMessages) {
  Context context;
  auto router = BindLoopback(context);
  {
    Context worker_context;
    auto dealer = ConnectTo(worker_context, *router);
    ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(dealer->Send(NumberedEnvelope(i), Text(std::string(1 << 20, 'p'))).ok());
    }
    dealer->CloseAfterFlush();
    EXPECT_EQ(dealer->Send(NumberedEnvelope(99)).outcome, SendOutcome::kRefused);
    EXPECT_FALSE(dealer->Receive().has_value());
  }
  for (uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(AwaitMessage(*router)->envelope.push().in_round().round(), i);
}

TEST(Socket, ReportsAPortInUse) {
  Context context;
  auto router = BindLoopback(context);
  const auto second_router = RouterSocket::Bind(context, "127.0.0.1", router->port(), {});
  ASSERT_FALSE(second_router.ok());
  EXPECT_EQ(second_router.status().code(), Code::kAddress);
  EXPECT_THAT(second_router.status().message(),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(router->port())), HasSubstr("in use")));
}

TEST(Socket, ReportsAHostOfAnotherMachine) {
  Context context;
  // 192.0.2.0/24 is reserved for documentation, so no machine has such an address.
  const auto router = RouterSocket::Bind(context, "192.0.2.1", 0, {});
  ASSERT_FALSE(router.ok());
  EXPECT_EQ(router.status().code(), Code::kAddress);
  EXPECT_THAT(
      router.status().message(),
      HasSubstr("192.0.2.1 is not an address of this machine; give one of its addresses, or "
                "0.0.0.0 for all"));
}

TEST(Socket, ReportsAHostThatDoesNotResolve) {
  Context context;
  const std::string host = std::string(70, 'x') + ".invalid";
  const Status status = RouterSocket::Bind(context, host, 0, {}).status();
  EXPECT_EQ(status.code(), Code::kAddress);
  EXPECT_THAT(status.message(), HasSubstr("does not resolve"));
  EXPECT_EQ(DealerSocket::Connect(context, "127.0.0.1", 0, {}).status().code(), Code::kAddress);
}

}  // namespace
}  // namespace tern::net

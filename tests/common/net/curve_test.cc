// Tests of sockets with keys: who is let in, whose messages they are, and what revocation does.
#include <gmock/gmock.h>

#include "tests/common/net/key_testing.h"
#include "tests/common/net/recording_relay.h"

namespace tern::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(KeyedServer, TellsWhoseKeyTheSenderOfAMessageHas) {
  auto dealer0 = Connect(*worker0_);
  auto dealer1 = Connect(*worker1_);
  ASSERT_TRUE(AwaitLink(*dealer0, DealerSocket::Link::kUp));
  ASSERT_TRUE(AwaitLink(*dealer1, DealerSocket::Link::kUp));
  ASSERT_TRUE(dealer1->Send(NumberedEnvelope(5), Text("payload")).ok());
  const auto from_worker1 = AwaitMessage(*router_);
  ASSERT_TRUE(from_worker1.has_value());
  EXPECT_EQ(from_worker1->principal, Worker(1));
  EXPECT_EQ(from_worker1->payload.size(), 7u);
  ASSERT_TRUE(dealer0->Send(NumberedEnvelope(6)).ok());
  const auto from_worker0 = AwaitMessage(*router_);
  ASSERT_TRUE(from_worker0.has_value());
  EXPECT_EQ(from_worker0->principal, Worker(0));
  EXPECT_NE(from_worker0->peer, from_worker1->peer);
  ASSERT_TRUE(router_->Send(from_worker0->peer, NumberedEnvelope(7)).ok());
  EXPECT_EQ(AwaitMessage(*dealer0)->envelope.push().in_round().round(), 7u);
  AwaitHandshakes("ok", 2);
}

TEST_F(KeyedServer, RefusesAKeyThatItDoesNotKnow) {
  const auto stranger = NewSecurity(Worker(0));
  auto dealer = Connect(*stranger);
  ExpectRefused(*dealer);
  EXPECT_THAT(dealer->refusal(), HasSubstr("does not know the key of this daemon"));
  AwaitHandshakes("denied", 1);
  EXPECT_EQ(NumHandshakes("ok"), 0u);
}

TEST_F(KeyedServer, RefusesAClientWithoutKeys) {
  // The second text: the client has closed the connection before the server looks at it.
  const LogLines lines(
      {"the handshake of a connection from 127.0.0.1 failed: it has no keys",
       "the handshake of a connection that is closed already failed: it has no keys"});
  auto dealer = ConnectTo(context_, *router_);
  ExpectRefused(*dealer);
  AwaitRefusal(*dealer, "lets in only daemons with keys");
  EXPECT_TRUE(lines.AwaitOne());
  EXPECT_EQ(NumHandshakes("ok"), 0u);
}

TEST_F(KeyedServer, IsRefusedByAClientThatTrustsAnotherKey) {
  worker0_->servers = {{MakeKeyPair().public_key}};
  auto dealer = Connect(*worker0_);
  ExpectRefused(*dealer);
  EXPECT_EQ(dealer->refusal(), "") << "the server may be ending";
  AwaitRefusal(*dealer, "does not hold the pinned key");
  EXPECT_EQ(NumHandshakes("ok"), 0u);
}

TEST_F(KeyedServer, IsFoundByAClientThatTrustsAnOldAndANewKey) {
  worker0_->servers = {{MakeKeyPair().public_key, server_keys_.public_key}};
  auto dealer = Connect(*worker0_);
  EXPECT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  EXPECT_FALSE(dealer->handshake_failed());
  EXPECT_EQ(dealer->refusal(), "");
}

TEST_F(KeyedServer, DropsWhatARevokedPeerSendsAndTellsItOnlyThat) {
  auto dealer0 = Connect(*worker0_);
  auto dealer1 = Connect(*worker1_);
  ASSERT_TRUE(AwaitLink(*dealer0, DealerSocket::Link::kUp));
  ASSERT_TRUE(dealer0->Send(NumberedEnvelope(1)).ok());
  const auto received = AwaitMessage(*router_);
  ASSERT_TRUE(received.has_value());
  EXPECT_THAT(router_->RevokedPeers(), IsEmpty());

  zap_handler_->SetAllowed({{worker1_->own_public, Worker(1)}});
  EXPECT_THAT(router_->RevokedPeers(), ElementsAre(received->peer));
  ASSERT_TRUE(dealer0->Send(NumberedEnvelope(2)).ok());
  EXPECT_EQ(router_->Send(received->peer, NumberedEnvelope(3), Text("weights")).outcome,
            SendOutcome::kUnreachable);
  pb::Envelope refuse;
  refuse.mutable_refuse()->set_sentence("its key was revoked");
  ASSERT_TRUE(router_->Send(received->peer, refuse).ok());
  EXPECT_EQ(AwaitMessage(*dealer0)->envelope.refuse().sentence(), "its key was revoked");
  // A message that is sent afterwards by a peer that is still allowed is received.
  ASSERT_TRUE(AwaitLink(*dealer1, DealerSocket::Link::kUp));
  ASSERT_TRUE(dealer1->Send(NumberedEnvelope(4)).ok());
  const auto next = AwaitMessage(*router_);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->principal, Worker(1));
  EXPECT_EQ(next->envelope.push().in_round().round(), 4u);

  dealer0 = Connect(*worker0_);
  ExpectRefused(*dealer0);
}

TEST_F(KeyedServer, DropsMessagesOfAKeyThatBelongsToSomebodyElseNow) {
  auto dealer = Connect(*worker0_);
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  zap_handler_->SetAllowed({{worker0_->own_public, Worker(1)}});
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(1)).ok());
  dealer = Connect(*worker0_);
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  ASSERT_TRUE(dealer->Send(NumberedEnvelope(2)).ok());
  const auto received = AwaitMessage(*router_);
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->principal, Worker(1));
  EXPECT_EQ(received->envelope.push().in_round().round(), 2u);
}

TEST_F(KeyedServer, IsNotBoundWithoutAZapHandler) {
  auto socket = RouterSocket::Bind(context_, "127.0.0.1", 0, {.security = security_.get()});
  ASSERT_FALSE(socket.ok());
  EXPECT_EQ(socket.status().code(), Code::kInternal);
}

TEST_F(KeyedServer, LetsNobodyInWhileNoZapHandlerRuns) {
  // In this context nothing is bound to libzmq's address of the handler.
  Context other_context;
  auto router = BindLoopback(other_context, ServerOptions());
  auto dealer = ConnectTo(context_, *router, {.security = worker0_.get()});
  ExpectRefused(*dealer);
  router.reset();
  router_.reset();
  zap_handler_.reset();  // It follows the router, and so has a socket of the other context.
}

TEST_F(KeyedServer, RefusesAKeyThatCannotBeUsed) {
  Security moved_from = std::move(*NewSecurity(Worker(0)));
  const SecretKey taken = std::move(moved_from.own_secret);
  const auto dealer =
      DealerSocket::Connect(context_, "127.0.0.1", router_->port(), {.security = &moved_from});
  ASSERT_FALSE(dealer.ok());
  EXPECT_EQ(dealer.status().code(), Code::kBadJob);
  const auto to_unknown_shard = DealerSocket::Connect(context_, "127.0.0.1", router_->port(),
                                                      {.security = worker0_.get(), .shard = 1});
  ASSERT_FALSE(to_unknown_shard.ok());
  EXPECT_THAT(to_unknown_shard.status().message(), ::testing::HasSubstr("server shard 1"));
}

// Sends a hello with a payload to `router` and an answer back. Returns what went over the wire.
std::string RecordHello(Context& context, RouterSocket& router, const SocketOptions& options) {
  RecordingRelay relay(router.port());
  auto dealer = Value(DealerSocket::Connect(context, "127.0.0.1", relay.port(), options));
  EXPECT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  pb::Envelope hello;
  hello.mutable_hello()->set_job("the name of the job");
  EXPECT_TRUE(dealer->Send(hello, Text("the weights of the job")).ok());
  const auto received = AwaitMessage(router);
  EXPECT_TRUE(received.has_value());
  pb::Envelope refuse;
  refuse.mutable_refuse()->set_sentence("the reason of the server");
  EXPECT_TRUE(received.has_value() && router.Send(received->peer, refuse).ok());
  EXPECT_TRUE(AwaitMessage(*dealer).has_value());
  return relay.Stop();
}

TEST_F(KeyedServer, NothingThatIsSentIsReadableOnTheWire) {
  const auto router_without_keys = BindLoopback(context_);
  const std::string plain = RecordHello(context_, *router_without_keys, {});
  const std::string encrypted = RecordHello(context_, *router_, {.security = worker0_.get()});
  EXPECT_GT(encrypted.size(), plain.size());
  const std::string own_key(worker0_->own_public.begin(), worker0_->own_public.end());
  for (const char* text :
       {"the name of the job", "the weights of the job", "the reason of the server", "TERN"}) {
    EXPECT_NE(plain.find(text), std::string::npos) << "the relay would have seen it: " << text;
    EXPECT_EQ(encrypted.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(encrypted.find(security_->domain), std::string::npos);
  EXPECT_EQ(encrypted.find(own_key), std::string::npos) << "nor whose key it is";
}

TEST_F(KeyedServer, IsAskedSeldomByAClientThatItRefuses) {
  const auto stranger = NewSecurity(Worker(0));
  auto dealer = Connect(*stranger);
  ExpectRefused(*dealer);
  // A session replaces a connection on which nothing comes; the new one waits, too.
  for (int i = 0; i < 20; ++i) {
    dealer = Value(DealerSocket::Connect(context_, "127.0.0.1", router_->port(),
                                         {.security = stranger.get()}, 0, dealer.get()));
    EXPECT_TRUE(dealer->handshake_failed());
    EXPECT_THAT(dealer->refusal(), HasSubstr("does not know the key"));
    dealer->link();
  }
  auto allowed = Connect(*worker0_);
  ASSERT_TRUE(AwaitLink(*allowed, DealerSocket::Link::kUp));
  AwaitHandshakes("denied", 1);
}

TEST_F(KeyedServer, HasRefusedAClientStillWhenItIsGone) {
  const uint16_t port = router_->port();
  const auto stranger = NewSecurity(Worker(0));
  auto dealer = Connect(*stranger);
  ExpectRefused(*dealer);
  router_.reset();
  // The port refuses the next try.
  Poller poller;
  poller.Add(dealer.get());
  for (const Time end = Now() + kPatience; dealer->handshake_failed() && Now() < end;)
    ASSERT_TRUE(poller.Wait(std::chrono::milliseconds(10)).ok());
  ASSERT_FALSE(dealer->handshake_failed());
  EXPECT_THAT(dealer->refusal(), HasSubstr("does not know the key"));
  poller.Remove(dealer.get());
  dealer = Value(DealerSocket::Connect(context_, "127.0.0.1", port, {.security = stranger.get()}, 0,
                                       dealer.get()));
  EXPECT_EQ(dealer->obstacle().code(), Code::kNotAllowed);
  // A server that lets it in takes that back.
  zap_handler_->SetAllowed({{stranger->own_public, Worker(0)}});
  router_ = Value(RouterSocket::Bind(context_, "127.0.0.1", port, ServerOptions()));
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  EXPECT_TRUE(dealer->obstacle().ok());
}

TEST_F(KeyedServer, ThatSaysNothingCountsAsAFailedHandshake) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t address_bytes = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 100), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &address_bytes), 0);
  std::unique_ptr<DealerSocket> dealer;
  const Time end = Now() + kPatience;
  while ((dealer == nullptr || !dealer->handshake_failed()) && Now() < end) {
    dealer = Value(DealerSocket::Connect(context_, "127.0.0.1", ntohs(address.sin_port),
                                         {.security = worker0_.get()}, 0, dealer.get()));
    Poller poller;
    poller.Add(dealer.get());
    ASSERT_TRUE(poller.Wait(std::chrono::milliseconds(100)).ok());
  }
  EXPECT_TRUE(dealer->handshake_failed());
  EXPECT_EQ(dealer->link(), DealerSocket::Link::kConnecting);
  close(listener);
}

}  // namespace
}  // namespace tern::net

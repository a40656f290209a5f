// Keys for the tests of sockets with CURVE. All sockets are on loopback.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/net/keys.h"
#include "common/net/zap_handler.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {

inline constexpr Principal kShard0{Principal::Role::kShard, 0};
inline Principal Worker(uint32_t rank) { return {Principal::Role::kWorker, rank}; }

// What a daemon with these keys knows, which trusts the shard with the key `server`.
inline std::unique_ptr<Security> SecurityOf(Principal self, const KeyPair& keys,
                                            const PublicKey& server) {
  auto security = std::make_unique<Security>();
  security->mechanism = Security::Mechanism::kCurve;
  security->self = self;
  security->own_public = keys.public_key;
  std::copy_n(keys.secret_key.data(), SecretKey::kSize, security->own_secret.data());
  security->servers = {{server}};
  security->domain = "test/0123456789abcdef";
  return security;
}

// Shard 0 with keys, which allows the keys of workers 0 and 1.
class KeyedServer : public ::testing::Test {
 protected:
  KeyedServer() {
    security_->allowed = {{worker0_->own_public, Worker(0)}, {worker1_->own_public, Worker(1)}};
    zap_handler_ =
        Value(ZapHandler::Start(context_, {.security = security_.get(), .registry = &registry_}));
    router_ = BindLoopback(context_, ServerOptions());
  }

  SocketOptions ServerOptions() {
    return {.security = security_.get(), .zap_handler = zap_handler_.get()};
  }
  // Keys of no principal that the server knows.
  std::unique_ptr<Security> NewSecurity(Principal self) const {
    return SecurityOf(self, MakeKeyPair(), server_keys_.public_key);
  }
  std::unique_ptr<DealerSocket> Connect(const Security& security) {
    return ConnectTo(context_, *router_, {.security = &security});
  }
  // Waits until a handshake of the dealer has failed, and expects that none succeeds.
  void ExpectRefused(DealerSocket& dealer) {
    Poller poller;
    poller.Add(&dealer);
    const Time end = Now() + kPatience;
    while (!dealer.handshake_failed() && Now() < end) {
      EXPECT_EQ(dealer.link(), DealerSocket::Link::kConnecting);
      EXPECT_TRUE(poller.Wait(std::chrono::milliseconds(10)).ok());
    }
    EXPECT_TRUE(dealer.handshake_failed());
    EXPECT_EQ(dealer.link(), DealerSocket::Link::kConnecting);
    EXPECT_FALSE(dealer.Send(NumberedEnvelope(1)).ok());
    EXPECT_FALSE(router_->Receive().has_value());
  }
  // Waits until the dealer says this of its refusal.
  void AwaitRefusal(DealerSocket& dealer, const std::string& text) {
    Poller poller;
    poller.Add(&dealer);
    for (const Time end = Now() + kPatience; Now() < end && dealer.refusal().empty();)
      EXPECT_TRUE(poller.Wait(std::chrono::milliseconds(10)).ok());
    EXPECT_NE(dealer.refusal().find(text), std::string::npos) << dealer.refusal();
  }
  // Waits until this many handshakes had this result; the ZapHandler counts them on its thread.
  void AwaitHandshakes(const std::string& result, uint64_t number) {
    const Time end = Now() + kPatience;
    while (NumHandshakes(result) < number && Now() < end) std::this_thread::yield();
    EXPECT_EQ(NumHandshakes(result), number);
  }
  uint64_t NumHandshakes(const std::string& result) {
    return registry_.GetCounter("tern_net_handshakes_total", "", {{"result", result}}).value();
  }

  const KeyPair server_keys_ = MakeKeyPair();
  std::unique_ptr<Security> security_ = SecurityOf(kShard0, server_keys_, server_keys_.public_key);
  std::unique_ptr<Security> worker0_ = NewSecurity(Worker(0));
  std::unique_ptr<Security> worker1_ = NewSecurity(Worker(1));
  Registry registry_;
  Context context_;
  std::unique_ptr<ZapHandler> zap_handler_;
  std::unique_ptr<RouterSocket> router_;
};

}  // namespace tern::net

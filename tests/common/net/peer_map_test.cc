// Tests of PeerMap, which numbers the senders of messages. It recognizes a sender by the ZeroMQ
// routing id ("a", "b", ...).
#include "common/net/peer_map.h"

#include <gtest/gtest.h>

namespace tern::net {
namespace {

TEST(PeerMap, RecognizesAPeer) {
  PeerMap peers(10);
  const uint64_t a = peers.IdOfSender("a"), b = peers.IdOfSender("b");
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(peers.IdOfSender("a"), a);
  EXPECT_EQ(*peers.RoutingId(a), "a");
  EXPECT_EQ(peers.RoutingId(b + 1), nullptr);
}

TEST(PeerMap, GivesAnotherKeyBehindTheSameRoutingIdAnotherId) {
  const Credentials worker0{Principal{Principal::Role::kWorker, 0}, PublicKey{1}};
  const Credentials worker1{Principal{Principal::Role::kWorker, 1}, PublicKey{1}};
  const Credentials second_key{worker0.principal, PublicKey{2}};
  PeerMap peers(10);
  const uint64_t first = peers.IdOfSender("a", worker0);
  EXPECT_EQ(peers.IdOfSender("a", worker0), first);
  const uint64_t second = peers.IdOfSender("a", worker1);
  EXPECT_NE(second, first);
  EXPECT_EQ(peers.RoutingId(first), nullptr);
  const uint64_t third = peers.IdOfSender("a", second_key);
  EXPECT_NE(third, second);
  EXPECT_EQ(peers.size(), 1u);
}

TEST(PeerMap, FindsThePeersWhoseKeysAreNotAllowed) {
  const Credentials worker0{Principal{Principal::Role::kWorker, 0}, PublicKey{1}};
  const Credentials worker1{Principal{Principal::Role::kWorker, 1}, PublicKey{2}};
  PeerMap peers(10);
  peers.IdOfSender("without keys");
  peers.IdOfSender("a", worker0);
  const uint64_t revoked = peers.IdOfSender("b", worker1);
  EXPECT_EQ(peers.PeersUnless([&](const Credentials& c) { return c == worker0; }),
            std::vector<uint64_t>{revoked});
}

TEST(PeerMap, ForgetsThePeerWhoseLastMessageIsOldest) {
  PeerMap peers(2);
  const uint64_t a = peers.IdOfSender("a"), b = peers.IdOfSender("b");
  peers.IdOfSender("a");
  const uint64_t c = peers.IdOfSender("c");
  EXPECT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers.RoutingId(b), nullptr);
  EXPECT_EQ(*peers.RoutingId(a), "a");
  EXPECT_EQ(*peers.RoutingId(c), "c");
}

TEST(PeerMap, NeverReusesAnId) {
  PeerMap peers(2);
  const uint64_t a = peers.IdOfSender("a");
  peers.Forget(a);
  peers.Forget(a);
  EXPECT_EQ(peers.size(), 0u);
  EXPECT_EQ(peers.RoutingId(a), nullptr);
  EXPECT_GT(peers.IdOfSender("a"), a);
}

TEST(PeerMap, StaysBoundedWithManyPeers) {
  PeerMap peers(100);
  for (int i = 0; i < 10000; ++i) peers.IdOfSender(std::to_string(i));
  EXPECT_EQ(peers.size(), 100u);
}

}  // namespace
}  // namespace tern::net

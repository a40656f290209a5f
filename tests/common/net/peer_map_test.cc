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

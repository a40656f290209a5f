#include "common/net/peer_map.h"

#include <gtest/gtest.h>

namespace tern::net {
namespace {

TEST(PeerMap, KnowsAPeerAgain) {
  PeerMap peers(10);
  const uint64_t a = peers.Heard("a"), b = peers.Heard("b");
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(peers.Heard("a"), a);
  EXPECT_EQ(*peers.RoutingId(a), "a");
  EXPECT_EQ(peers.RoutingId(b + 1), nullptr);
}

TEST(PeerMap, ForgetsThePeerHeardLeastRecently) {
  PeerMap peers(2);
  const uint64_t a = peers.Heard("a"), b = peers.Heard("b");
  peers.Heard("a");
  const uint64_t c = peers.Heard("c");
  EXPECT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers.RoutingId(b), nullptr);
  EXPECT_EQ(*peers.RoutingId(a), "a");
  EXPECT_EQ(*peers.RoutingId(c), "c");
}

TEST(PeerMap, NeverUsesANumberTwice) {
  PeerMap peers(2);
  const uint64_t a = peers.Heard("a");
  peers.Forget(a);
  peers.Forget(a);
  EXPECT_EQ(peers.size(), 0u);
  EXPECT_EQ(peers.RoutingId(a), nullptr);
  EXPECT_GT(peers.Heard("a"), a);
}

TEST(PeerMap, StaysBoundedWhoeverSpeaks) {
  PeerMap peers(100);
  for (int i = 0; i < 10000; ++i) peers.Heard(std::to_string(i));
  EXPECT_EQ(peers.size(), 100u);
}

}  // namespace
}  // namespace tern::net

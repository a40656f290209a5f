// Tests of Traffic, which counts messages and bytes by type and direction.
#include "common/net/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Traffic, CountsByTypeAndDirection) {
  Registry registry;
  Traffic traffic(registry);
  traffic.Count(Direction::kOut, pb::Envelope::kPush, 100);
  traffic.Count(Direction::kOut, pb::Envelope::kPush, 50);
  traffic.Count(Direction::kIn, pb::Envelope::kSum, 7);
  traffic.CountRefused(Fault::kNotOurs, 30);
  EXPECT_EQ(traffic.Bytes(Direction::kOut), 150u);
  EXPECT_EQ(traffic.Bytes(Direction::kIn), 37u);
  EXPECT_EQ(traffic.Bytes(Direction::kOut, pb::Envelope::kPush), 150u);
  EXPECT_EQ(traffic.NumMessages(Direction::kOut, pb::Envelope::kPush), 2u);
  EXPECT_EQ(traffic.NumMessages(Direction::kIn, pb::Envelope::kPush), 0u);
  EXPECT_EQ(traffic.NumRefusedMessages(), 1u);

  const auto rows = traffic.Snapshot();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].type, "push");
  EXPECT_EQ(rows[0].direction, Direction::kOut);
  EXPECT_EQ(rows[0].num_messages, 2u);
  EXPECT_EQ(rows[0].bytes, 150u);
  EXPECT_EQ(rows[1].type, "sum");
  EXPECT_EQ(rows[1].direction, Direction::kIn);
  EXPECT_EQ(rows[2].type, "refused");
  EXPECT_EQ(rows[2].bytes, 30u);

  const std::string page = registry.PrometheusText();
  EXPECT_THAT(page, HasSubstr("tern_net_bytes_total{direction=\"out\",type=\"push\"} 150\n"));
  EXPECT_THAT(page, HasSubstr("tern_net_messages_total{direction=\"in\",type=\"sum\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("tern_net_refused_total{fault=\"not_ours\"} 1\n"));
  EXPECT_THAT(page, Not(HasSubstr("type=\"scale\""))) << "no message of this type so far";
}

TEST(Traffic, BothEndsCountTheSameBytes) {
  Registry dealer_registry, router_registry;
  Traffic dealer_traffic(dealer_registry), router_traffic(router_registry);
  Context context;
  auto router = BindLoopback(context, {.traffic = &router_traffic});
  auto dealer = ConnectTo(context, *router, {.traffic = &dealer_traffic});
  ASSERT_TRUE(AwaitLink(*dealer, DealerSocket::Link::kUp));
  uint64_t expected_bytes = 0;
  for (const size_t size : {0, 1, 255, 256, 100000}) {
    ASSERT_TRUE(dealer->Send(NumberedEnvelope(1), Text(std::string(size, 'p'))).ok());
    const uint64_t message_bytes = WireBytes(Value(EncodeHeader(NumberedEnvelope(1))).size()) +
                                   (size == 0 ? 0 : WireBytes(size));
    EXPECT_EQ(AwaitMessage(*router)->wire_bytes, message_bytes);
    expected_bytes += message_bytes;
  }
  EXPECT_EQ(dealer_traffic.Bytes(Direction::kOut, pb::Envelope::kPush), expected_bytes);
  EXPECT_EQ(router_traffic.Bytes(Direction::kIn, pb::Envelope::kPush), expected_bytes);
  EXPECT_EQ(dealer_traffic.Bytes(Direction::kIn), 0u);
  EXPECT_EQ(router_traffic.NumMessages(Direction::kIn, pb::Envelope::kPush), 5u);
}

TEST(Traffic, DoesNotCountMessagesThatWereNotSent) {
  Registry registry;
  Traffic traffic(registry);
  Context context;
  auto router = BindLoopback(context, {.traffic = &traffic});
  EXPECT_FALSE(router->Send(1, NumberedEnvelope(1)).ok());
  EXPECT_EQ(traffic.Bytes(Direction::kOut), 0u);
  EXPECT_TRUE(traffic.Snapshot().empty());
}

}  // namespace
}  // namespace tern::net

#include "common/protocol/exchange.h"

#include <gmock/gmock.h>

#include "tests/protocol/words.h"

namespace tern::protocol::test {
namespace {

constexpr LaneRef kLane{0, 1}, kControl{0, 0};
constexpr Time kStart = milliseconds(1000);

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() : exchange_({3, 33, 20, milliseconds(300)}) {}

  using Out = std::vector<Exchange::Outgoing>;
  Out Up(uint64_t incarnation, LaneRef lane = kLane, Time now = kStart) {
    Out out;
    exchange_.OnLaneUp(lane, incarnation, now, &out);
    return out;
  }
  Out Push(uint32_t bucket, const std::string& payload, uint64_t round = 1) {
    Out out;
    exchange_.Contribute({Kind::kPush, bucket, 0}, round, kLane, 9, Text(payload), kStart, &out);
    return out;
  }
  std::vector<Exchange::Delivery> Sum(uint32_t bucket, uint64_t round, uint64_t floor, Out* out) {
    pb::Outcome outcome;
    outcome.set_round(round);
    outcome.set_bucket(bucket);
    outcome.set_floor(floor);
    return exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart, out);
  }
  Out Timer(Time now) {
    Out out;
    exchange_.OnTimer(now, &out);
    return out;
  }

  Exchange exchange_;
};

TEST_F(ExchangeTest, SendsWhenTheLaneComesUp) {
  EXPECT_TRUE(Push(0, "abc").empty());
  const Out out = Up(7);
  ASSERT_EQ(out.size(), 1u);
  const pb::Contribution& push = out[0].message.head.push();
  EXPECT_EQ(push.round(), 1u);
  EXPECT_EQ(push.rank(), 3u);
  EXPECT_EQ(push.incarnation(), 33u);
  EXPECT_EQ(push.digest(), 9u);
  EXPECT_EQ(View(out[0].message.payload), "abc");
}

TEST_F(ExchangeTest, HoldsBackPushesBeyondTheCredit) {
  Up(7);
  EXPECT_EQ(Push(0, std::string(15, 'a')).size(), 1u);
  EXPECT_TRUE(Push(1, std::string(15, 'b')).empty());
  EXPECT_TRUE(Push(2, "c").empty());  // not before the one that waits
  Out out;
  EXPECT_EQ(Sum(0, 1, 0, &out).size(), 1u);
  EXPECT_EQ(out.size(), 2u);
}

TEST_F(ExchangeTest, SendsOnePushHoweverLarge) {
  Up(7);
  EXPECT_EQ(Push(0, std::string(1000, 'a')).size(), 1u);
}

TEST_F(ExchangeTest, LetsAPushGoThatComesBeforeAllThatAreNotAnswered) {
  Up(7);
  EXPECT_EQ(Push(1, std::string(20, 'b')).size(), 1u);
  EXPECT_EQ(Push(0, std::string(20, 'a')).size(), 1u);  // others may wait for it
  EXPECT_TRUE(Push(2, "c").empty());
}

TEST_F(ExchangeTest, DoesNotChargeControlForCredit) {
  Up(7, kControl);
  for (uint32_t bucket = 0; bucket < 5; ++bucket) {
    Out out;
    exchange_.Contribute({Kind::kScale, bucket, 0}, 1, kControl, 0, Text(std::string(30, 's')),
                         kStart, &out);
    EXPECT_EQ(out.size(), 1u);
  }
}

TEST_F(ExchangeTest, RepeatsWhatIsNotAnswered) {
  Up(7);
  Push(0, "abc");
  EXPECT_TRUE(Timer(kStart + milliseconds(299)).empty());
  EXPECT_EQ(Timer(kStart + milliseconds(300)).size(), 1u);
  EXPECT_TRUE(Timer(kStart + milliseconds(301)).empty());
  EXPECT_EQ(exchange_.resent(), 1u);
  exchange_.OnLaneDown(kLane);
  EXPECT_TRUE(Timer(kStart + milliseconds(900)).empty());
  EXPECT_EQ(Up(7).size(), 1u);
  EXPECT_EQ(exchange_.resent(), 1u);
}

TEST_F(ExchangeTest, DeliversAnAnswerOnceAndOnlyFromItsLane) {
  Up(7);
  Push(0, "abc");
  Out out;
  pb::Outcome outcome;
  outcome.set_round(1);
  EXPECT_TRUE(exchange_.OnOutcome({0, 2}, Kind::kPush, outcome, {}, kStart, &out).empty());
  EXPECT_TRUE(Sum(5, 1, 0, &out).empty());
  const auto deliveries = Sum(0, 1, 0, &out);
  ASSERT_EQ(deliveries.size(), 1u);
  EXPECT_EQ(View(deliveries[0].payload), "sum");
  EXPECT_TRUE(Sum(0, 1, 0, &out).empty());
  EXPECT_TRUE(exchange_.idle());
}

TEST_F(ExchangeTest, HoldsAnAnswerUntilTheFloorReachesIt) {
  Up(7);
  Push(0, "abc");
  Out out;
  Sum(0, 1, 0, &out);
  EXPECT_EQ(exchange_.held(), 1u);
  exchange_.OnFloor(1);
  EXPECT_EQ(exchange_.held(), 0u);
  EXPECT_EQ(exchange_.floor(), 1u);
  exchange_.OnFloor(0);
  EXPECT_EQ(exchange_.floor(), 1u);
}

TEST_F(ExchangeTest, GivesWhatItHoldsToABlankServerUntilThatHasIt) {
  Up(7);
  Push(0, "abc");
  Out out;
  Sum(0, 1, 0, &out);
  EXPECT_TRUE(Up(7).empty());  // the same server needs nothing
  const Out given = Up(8);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].message.head.held_sum().round(), 1u);
  EXPECT_EQ(View(given[0].message.payload), "sum");
  EXPECT_EQ(Timer(kStart + milliseconds(300)).size(), 1u);
  exchange_.OnHeldTaken(kLane, Kind::kPush, given[0].message.head.held_sum());
  EXPECT_TRUE(Timer(kStart + milliseconds(900)).empty());
  EXPECT_EQ(Up(9).size(), 1u);  // yet another life
}

TEST_F(ExchangeTest, ForgetsOlderRoundsWhenItGetsState) {
  Up(7);
  Push(0, std::string(20, 'a'));
  exchange_.Restart(4);
  EXPECT_TRUE(exchange_.idle());
  EXPECT_EQ(exchange_.applied(), 4u);
  EXPECT_EQ(Push(0, std::string(20, 'a'), 5).size(), 1u);  // its credit is back
}

}  // namespace
}  // namespace tern::protocol::test

// Tests of Exchange: a worker's contributions that have no answer, and the outcomes (answers) that
// it holds for a restarted server. Credit is how many bytes may be unanswered on a lane (server
// socket); the floor is the newest round that every worker has applied; a clock is a worker's own
// count of pushes in a job without rounds.
#include "common/protocol/rounds/exchange.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

constexpr LaneRef kLane{0, 1}, kControl{0, 0};
constexpr Time kStart = milliseconds(1000);

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() : exchange_({3, 33, 20, milliseconds(300)}) {}

  using Messages = std::vector<Exchange::Outgoing>;
  Messages BringLaneUp(uint64_t incarnation, LaneRef lane = kLane, Time now = kStart) {
    Messages out;
    exchange_.OnLaneUp(lane, incarnation, now, &out);
    return out;
  }
  Messages Push(uint32_t bucket, const std::string& payload, uint64_t round = 1) {
    Messages out;
    exchange_.Contribute({Kind::kPush, bucket, 0}, kLane, InRound{round, Text(payload), 9}, kStart,
                         &out);
    return out;
  }
  std::vector<Exchange::Delivery> DeliverSum(uint32_t bucket, uint64_t round, uint64_t floor,
                                             Messages* out) {
    pb::Outcome outcome;
    outcome.set_bucket(bucket);
    outcome.mutable_of_round()->set_round(round);
    outcome.mutable_of_round()->set_floor(floor);
    return exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart, out);
  }
  Messages FireTimer(Time now) {
    Messages out;
    exchange_.OnTimer(now, &out);
    return out;
  }

  std::vector<LaneRef> SilentLanes(Time after_start) {
    return exchange_.TakeSilentLanes(kStart + after_start);
  }

  Exchange exchange_;
};

TEST_F(ExchangeTest, SendsWhenTheLaneComesUp) {
  EXPECT_TRUE(Push(0, "abc").empty());
  const Messages out = BringLaneUp(7);
  ASSERT_EQ(out.size(), 1u);
  const pb::Contribution& push = out[0].message.head.push();
  EXPECT_EQ(push.in_round().round(), 1u);
  EXPECT_EQ(push.rank(), 3u);
  EXPECT_EQ(push.incarnation(), 33u);
  EXPECT_EQ(push.in_round().digest(), 9u);
  EXPECT_EQ(View(out[0].message.payload), "abc");
}

TEST_F(ExchangeTest, HoldsBackPushesBeyondTheCredit) {
  BringLaneUp(7);
  EXPECT_EQ(Push(0, std::string(15, 'a')).size(), 1u);
  EXPECT_TRUE(Push(2, std::string(15, 'b')).empty());
  EXPECT_TRUE(Push(1, "c").empty());  // The push waits behind that of bucket 2.
  Messages out;
  EXPECT_EQ(DeliverSum(0, 1, 0, &out).size(), 1u);
  EXPECT_EQ(out.size(), 2u);
}

// The last bucket has the first layers, whose parameters the next forward pass needs first.
TEST_F(ExchangeTest, SendsTheLastBucketOfARoundFirst) {
  BringLaneUp(7);
  EXPECT_EQ(Push(0, std::string(20, 'a')).size(), 1u);
  for (const uint32_t bucket : {1, 2, 4, 3}) EXPECT_TRUE(Push(bucket, "bbbb").empty());
  EXPECT_TRUE(Push(5, "c", 2).empty());
  Messages out;
  DeliverSum(0, 1, 0, &out);
  std::vector<uint32_t> buckets;
  for (const Exchange::Outgoing& sent : out) buckets.push_back(sent.message.head.push().bucket());
  // Of the remaining buckets, bucket 1 is the first in plan order: it goes at once, whatever its
  // priority. Bucket 5 is last because it belongs to the next round.
  EXPECT_THAT(buckets, testing::ElementsAre(1, 4, 3, 2, 5));
}

TEST_F(ExchangeTest, SendsOnePushHoweverLarge) {
  BringLaneUp(7);
  EXPECT_EQ(Push(0, std::string(1000, 'a')).size(), 1u);
}

TEST_F(ExchangeTest, SendsAPushThatPrecedesAllUnansweredOnes) {
  BringLaneUp(7);
  EXPECT_EQ(Push(1, std::string(20, 'b')).size(), 1u);
  EXPECT_EQ(Push(0, std::string(20, 'a')).size(), 1u);  // Other workers may wait for this push.
  EXPECT_TRUE(Push(2, "c").empty());
}

TEST_F(ExchangeTest, CreditDoesNotLimitTheControlLane) {
  BringLaneUp(7, kControl);
  for (uint32_t bucket = 0; bucket < 5; ++bucket) {
    Messages out;
    exchange_.Contribute({Kind::kScale, bucket, 0}, kControl,
                         InRound{1, Text(std::string(30, 's'))}, kStart, &out);
    EXPECT_EQ(out.size(), 1u);
  }
}

TEST_F(ExchangeTest, RepeatsWhatIsNotAnsweredOnAControlLane) {
  BringLaneUp(7, kControl);
  Messages out;
  exchange_.Contribute({Kind::kScale, 0, 0}, kControl, InRound{1, Text("s")}, kStart, &out);
  EXPECT_TRUE(FireTimer(kStart + milliseconds(299)).empty());
  EXPECT_EQ(FireTimer(kStart + milliseconds(300)).size(), 1u);
  EXPECT_TRUE(FireTimer(kStart + milliseconds(301)).empty());
  EXPECT_EQ(exchange_.counts().resent, 1u);
  exchange_.OnLaneDown(kControl);
  EXPECT_TRUE(FireTimer(kStart + milliseconds(900)).empty());
  EXPECT_EQ(BringLaneUp(7, kControl).size(), 1u);
  EXPECT_EQ(exchange_.counts().resent, 1u);
}

TEST_F(ExchangeTest, AsksAboutASilentDataLaneInsteadOfRepeating) {
  BringLaneUp(7);
  EXPECT_TRUE(SilentLanes(milliseconds(900)).empty());  // nothing waits for an answer
  Push(0, "abc");
  EXPECT_TRUE(SilentLanes(milliseconds(299)).empty());
  EXPECT_EQ(SilentLanes(milliseconds(300)), std::vector{kLane});
  EXPECT_TRUE(SilentLanes(milliseconds(599)).empty());  // it has asked
  EXPECT_EQ(SilentLanes(milliseconds(600)), std::vector{kLane});
  EXPECT_TRUE(FireTimer(kStart + milliseconds(900)).empty());
  exchange_.OnLaneDown(kLane);
  EXPECT_TRUE(SilentLanes(milliseconds(1200)).empty());
  EXPECT_EQ(BringLaneUp(7).size(), 1u);
}

TEST_F(ExchangeTest, IsNotSilentWhileItsLaneGoesOnAnswering) {
  BringLaneUp(7);
  Push(0, "a");
  Push(1, "b");
  pb::Outcome outcome;
  outcome.mutable_of_round()->set_round(1);
  Messages out;
  exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart + milliseconds(200), &out);
  EXPECT_TRUE(SilentLanes(milliseconds(450)).empty());
  EXPECT_EQ(SilentLanes(milliseconds(500)), std::vector{kLane});
}

TEST_F(ExchangeTest, RepeatsWhatWasSentBeforeTheQuestionAndIsNotCounted) {
  BringLaneUp(7);
  for (uint32_t bucket = 0; bucket < 4; ++bucket) Push(bucket, "abc");
  EXPECT_EQ(exchange_.queue().SentBytes(kLane), 12u);
  Messages late;
  exchange_.Contribute({Kind::kPush, 4, 0}, kLane, InRound{1, Text("d")},
                       kStart + milliseconds(300), &late);
  EXPECT_EQ(late.size(), 1u);
  Messages out;
  exchange_.OnProbeAnswered(kLane, kStart + milliseconds(300),
                            {{1, {Kind::kPush, 0, 0}}, {1, {Kind::kPush, 2, 0}}},
                            kStart + milliseconds(500), &out);
  std::vector<uint32_t> buckets;
  for (const Exchange::Outgoing& sent : out) buckets.push_back(sent.message.head.push().bucket());
  EXPECT_THAT(buckets, testing::ElementsAre(3, 1));
  EXPECT_EQ(exchange_.counts().resent, 2u);
  EXPECT_EQ(exchange_.queue().SentBytes(kLane), 13u);
}

TEST_F(ExchangeTest, DeliversAnAnswerOnceAndOnlyFromItsLane) {
  BringLaneUp(7);
  Push(0, "abc");
  Messages out;
  pb::Outcome outcome;
  outcome.mutable_of_round()->set_round(1);
  EXPECT_TRUE(exchange_.OnOutcome({0, 2}, Kind::kPush, outcome, {}, kStart, &out).empty());
  EXPECT_TRUE(DeliverSum(5, 1, 0, &out).empty());
  const auto deliveries = DeliverSum(0, 1, 0, &out);
  ASSERT_EQ(deliveries.size(), 1u);
  EXPECT_EQ(View(deliveries[0].payload), "sum");
  EXPECT_TRUE(DeliverSum(0, 1, 0, &out).empty());
  EXPECT_TRUE(exchange_.queue().empty());
}

TEST_F(ExchangeTest, HoldsAnAnswerUntilTheFloorReachesIt) {
  BringLaneUp(7);
  Push(0, "abc");
  Messages out;
  DeliverSum(0, 1, 0, &out);
  EXPECT_EQ(exchange_.held().size(), 1u);
  exchange_.OnFloor(1);
  EXPECT_EQ(exchange_.held().size(), 0u);
  EXPECT_EQ(exchange_.held().floor(), 1u);
  exchange_.OnFloor(0);
  EXPECT_EQ(exchange_.held().floor(), 1u);
}

TEST_F(ExchangeTest, ReturnsHeldOutcomesToARestartedServerUntilConfirmed) {
  BringLaneUp(7);
  Push(0, "abc");
  Messages out;
  DeliverSum(0, 1, 0, &out);
  EXPECT_TRUE(BringLaneUp(7).empty());  // the same server needs nothing back
  const Messages sent = BringLaneUp(8);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.head.held_sum().of_round().round(), 1u);
  EXPECT_EQ(View(sent[0].message.payload), "sum");
  EXPECT_EQ(FireTimer(kStart + milliseconds(300)).size(), 1u);
  exchange_.OnHeldConfirmed({kLane.shard + 1, 1}, Kind::kPush, sent[0].message.head.held_sum());
  EXPECT_EQ(FireTimer(kStart + milliseconds(600)).size(), 1u) << "another lane confirmed it";
  exchange_.OnHeldConfirmed(kLane, Kind::kPush, sent[0].message.head.held_sum());
  EXPECT_TRUE(FireTimer(kStart + milliseconds(900)).empty());
  EXPECT_EQ(BringLaneUp(9).size(), 1u);  // This is a third process of the server.
}

TEST_F(ExchangeTest, ForgetsOlderRoundsWhenItGetsState) {
  BringLaneUp(7);
  Push(0, std::string(20, 'a'));
  exchange_.Restart(4);
  EXPECT_TRUE(exchange_.queue().empty());
  EXPECT_EQ(exchange_.applied(), 4u);
  EXPECT_EQ(Push(0, std::string(20, 'a'), 5).size(), 1u);  // The credit was returned.
}

// All go back to round 4, although all had applied round 9.
TEST_F(ExchangeTest, HoldsAnswersOfRoundsThatAreDoneAgain) {
  BringLaneUp(7);
  exchange_.OnFloor(9);
  exchange_.Restart(4);
  Push(0, "abc", 5);
  Messages out;
  DeliverSum(0, 5, 4, &out);
  EXPECT_EQ(exchange_.held().size(), 1u);
}

// The exchange of a worker in a job without rounds.
class ClockExchangeTest : public ExchangeTest {
 protected:
  Messages Contribute(protocol::Contribution contribution) {
    Messages out;
    exchange_.Contribute(kCell, kLane, std::move(contribution), kStart, &out);
    return out;
  }
  Messages PushAt(uint64_t clock) { return Contribute(AtClock{clock, Text("push")}); }
  pb::Contribution::Pull Pull(bool average = false) {
    return Contribute(protocol::Pull{average}).at(0).message.head.push().pull();
  }
  std::vector<Exchange::Delivery> DeliverOutcome(const pb::Outcome& outcome) {
    Messages out;
    return exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("weights"), kStart, &out);
  }
  static pb::Outcome ClockOutcome(uint64_t clock, uint64_t version) {
    pb::Outcome outcome;
    outcome.mutable_at_clock()->set_clock(clock);
    outcome.mutable_at_clock()->mutable_weights()->set_version(version);
    return outcome;
  }
  static pb::Outcome PulledOutcome(uint64_t pull, uint64_t version) {
    pb::Outcome outcome;
    outcome.mutable_pulled()->set_number(pull);
    outcome.mutable_pulled()->set_clock(7);
    outcome.mutable_pulled()->mutable_weights()->set_version(version);
    return outcome;
  }
  static constexpr Cell kCell{Kind::kPush, 0, 0};
};

TEST_F(ClockExchangeTest, TakesNoAnswerToAnOlderPull) {
  BringLaneUp(7);
  EXPECT_EQ(Pull().number(), 1u);
  EXPECT_EQ(DeliverOutcome(PulledOutcome(1, 3)).size(), 1u);
  EXPECT_TRUE(DeliverOutcome(PulledOutcome(1, 3)).empty());
  const pb::Contribution::Pull second_pull = Pull(true);
  EXPECT_EQ(second_pull.number(), 2u);
  EXPECT_TRUE(second_pull.has_average());
  // A second answer to pull 1, as if that pull had been sent twice. Pull 2 is the newest.
  EXPECT_TRUE(DeliverOutcome(PulledOutcome(1, 4)).empty());
  EXPECT_TRUE(DeliverOutcome(ClockOutcome(0, 4)).empty());
  pb::Outcome average_outcome;
  average_outcome.mutable_pulled()->set_number(2);
  average_outcome.mutable_pulled()->mutable_average();
  EXPECT_EQ(DeliverOutcome(average_outcome).size(), 1u);
  // The weights held are still version 3. The average that pull 2 returned has no version.
  EXPECT_EQ(Pull().weights().holds(), 3u);
  EXPECT_EQ(Pull().number(), 4u);
  // The answer to pull 3 is dropped, because pull 4 is newer.
  EXPECT_TRUE(DeliverOutcome(PulledOutcome(3, 5)).empty());
  EXPECT_EQ(DeliverOutcome(PulledOutcome(4, 5)).size(), 1u);
}

TEST_F(ClockExchangeTest, ForgetsVersionsOfAServerThatIsGone) {
  BringLaneUp(7);
  Pull();
  DeliverOutcome(PulledOutcome(1, 3));
  EXPECT_EQ(PushAt(8).at(0).message.head.push().at_clock().holds(), 3u);
  // A new process of the server: its version 3 of the weights may differ.
  const Messages repeated_push = BringLaneUp(8);
  ASSERT_EQ(repeated_push.size(), 1u);
  EXPECT_EQ(repeated_push[0].message.head.push().at_clock().clock(), 8u);
  EXPECT_FALSE(repeated_push[0].message.head.push().at_clock().has_holds());
}

TEST_F(ClockExchangeTest, HoldsItsNewestAnsweredClockForARestartedServer) {
  BringLaneUp(7);
  for (uint64_t clock : {1, 2}) {
    PushAt(clock);
    EXPECT_EQ(DeliverOutcome(ClockOutcome(clock, clock)).size(), 1u);
    EXPECT_TRUE(DeliverOutcome(ClockOutcome(clock, clock)).empty());
  }
  EXPECT_EQ(exchange_.held().size(), 1u);
  const Messages sent = BringLaneUp(8);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.head.held_sum().at_clock().clock(), 2u);
  EXPECT_TRUE(sent[0].message.payload.empty());
  exchange_.OnHeldConfirmed(kLane, Kind::kPush, sent[0].message.head.held_sum());
  EXPECT_EQ(Contribute(Parting{3}).at(0).message.head.push().parting().clock(), 3u);
  pb::Outcome parted_outcome;
  parted_outcome.mutable_parted()->set_clock(3);
  EXPECT_EQ(DeliverOutcome(parted_outcome).size(), 1u);
  EXPECT_EQ(BringLaneUp(9).at(0).message.head.held_sum().parted().clock(), 3u);
}

TEST_F(ClockExchangeTest, TellsItsClocksAgainAsANewIncarnation) {
  BringLaneUp(7);
  PushAt(1);
  DeliverOutcome(ClockOutcome(1, 1));
  EXPECT_TRUE(BringLaneUp(7).empty());
  exchange_.SetIncarnation(34);
  EXPECT_EQ(BringLaneUp(7).at(0).message.head.held_sum().at_clock().clock(), 1u);
  EXPECT_TRUE(BringLaneUp(7).empty());
}

TEST_F(ClockExchangeTest, SaysWhetherAPushWantsWeightsAndWhichMembershipItsSenderKnows) {
  exchange_.RaiseEpoch(4);
  exchange_.RaiseEpoch(3);
  BringLaneUp(7);
  const pb::Contribution push = PushAt(1).at(0).message.head.push();
  EXPECT_TRUE(push.at_clock().wants_weights());
  EXPECT_EQ(push.epoch(), 4u);
  const Messages out = Contribute(AtClock{2, Text("push"), false});
  EXPECT_FALSE(out.at(0).message.head.push().at_clock().wants_weights());
}

TEST_F(ClockExchangeTest, TakesNoAnswerOfAnotherForm) {
  BringLaneUp(7);
  PushAt(1);
  pb::Outcome outcome;
  EXPECT_TRUE(DeliverOutcome(outcome).empty());  // The outcome is of neither a round nor a clock.
  outcome.mutable_of_round()->set_round(1);
  EXPECT_TRUE(DeliverOutcome(outcome).empty());
  outcome.mutable_parted()->set_clock(1);
  EXPECT_TRUE(DeliverOutcome(outcome).empty());
  EXPECT_EQ(DeliverOutcome(ClockOutcome(1, 1)).size(), 1u);
}

// The exchange of a worker in a job whose rounds may close without that worker's contribution.
class UnsolicitedTest : public ClockExchangeTest {
 protected:
  UnsolicitedTest() {
    Exchange::Options options{3, 33, 20, milliseconds(300), true};
    options.in_plan = [](const Cell& cell, LaneRef) { return cell.bucket < 2; };
    exchange_ = Exchange(options);
    BringLaneUp(7);
  }
  static pb::Outcome RoundOutcome(uint64_t round, const std::string& contributor_bits) {
    pb::Outcome outcome;
    outcome.mutable_of_round()->set_round(round);
    outcome.mutable_of_round()->set_contributor_bits(contributor_bits);
    return outcome;
  }
};

TEST_F(UnsolicitedTest, DeliversWhatItHasNotContributedToOnce) {
  EXPECT_EQ(DeliverOutcome(RoundOutcome(1, "\x01")).size(), 1u);
  EXPECT_TRUE(DeliverOutcome(RoundOutcome(1, "\x01")).empty());
  pb::Outcome outcome = RoundOutcome(1, "\x01");
  outcome.set_bucket(2);
  EXPECT_TRUE(DeliverOutcome(outcome).empty());  // Bucket 2 is not in the plan.
  outcome.set_bucket(1);
  outcome.mutable_of_round()->set_round(1'000);
  EXPECT_TRUE(DeliverOutcome(outcome).empty());  // no server can be so far ahead
  EXPECT_EQ(exchange_.held().size(), 1u);
}

TEST_F(UnsolicitedTest, CountsARoundOnceInWhichItIsLateAndTellsTheServer) {
  DeliverOutcome(RoundOutcome(1, "\x01"));
  const Messages out = Push(0, "abc");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.head.push().late().round(), 1u);
  EXPECT_TRUE(out[0].message.payload.empty());
  EXPECT_EQ(exchange_.counts().late_rounds, 1u);
  EXPECT_TRUE(exchange_.queue().empty());
  Push(1, "abc");
  Messages more_messages;
  pb::Outcome outcome = RoundOutcome(1, "\x07");  // These are the bits of ranks 0 to 2.
  outcome.set_bucket(1);
  EXPECT_EQ(
      exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart, &more_messages).size(),
      1u);
  EXPECT_EQ(exchange_.counts().late_rounds, 1u);
  Push(0, "abc", 2);
  DeliverOutcome(RoundOutcome(2, "\x08"));  // Bit 3 is this worker's, which was in time.
  EXPECT_EQ(exchange_.counts().late_rounds, 1u);
}

TEST_F(UnsolicitedTest, DeliversFiguresOnlyAfterContributingSome) {
  Messages out;
  BringLaneUp(7, kControl);
  const pb::Outcome outcome = RoundOutcome(1, "\x01");
  EXPECT_TRUE(
      exchange_.OnOutcome(kControl, Kind::kFigures, outcome, Text("f"), kStart, &out).empty());
  exchange_.Contribute({Kind::kFigures, 0, 0}, kControl, InRound{1, Text("mine")}, kStart, &out);
  EXPECT_EQ(out.size(), 1u);  // The figures are sent, although the round has closed.
  EXPECT_EQ(exchange_.OnOutcome(kControl, Kind::kFigures, outcome, Text("f"), kStart, &out).size(),
            1u);
}

TEST_F(UnsolicitedTest, DropsContributionsToRoundsThatItHasApplied) {
  Push(0, std::string(20, 'a'));
  EXPECT_TRUE(Push(1, "b").empty());  // This push exceeds the credit.
  exchange_.SetApplied(1);
  EXPECT_TRUE(exchange_.queue().empty());
  EXPECT_EQ(Push(0, std::string(20, 'a'), 2).size(), 1u);  // The credit was returned.
  EXPECT_TRUE(Push(0, "late", 1).at(0).message.head.push().has_late());
}

TEST_F(UnsolicitedTest, PullsAndPushesWithoutRoundsAreNeverLate) {
  EXPECT_TRUE(Pull().has_weights());
  exchange_.SetApplied(0);
  EXPECT_EQ(DeliverOutcome(PulledOutcome(1, 3)).size(), 1u);
  PushAt(1);
  EXPECT_EQ(DeliverOutcome(ClockOutcome(1, 4)).size(), 1u);
  EXPECT_TRUE(DeliverOutcome(ClockOutcome(1, 4)).empty());  // the same answer again
  EXPECT_EQ(exchange_.counts().late_rounds, 0u);
}

}  // namespace
}  // namespace tern::protocol::test

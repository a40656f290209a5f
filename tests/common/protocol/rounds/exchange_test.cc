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

  using Out = std::vector<Exchange::Outgoing>;
  Out Up(uint64_t incarnation, LaneRef lane = kLane, Time now = kStart) {
    Out out;
    exchange_.OnLaneUp(lane, incarnation, now, &out);
    return out;
  }
  Out Push(uint32_t bucket, const std::string& payload, uint64_t round = 1) {
    Out out;
    exchange_.Contribute({Kind::kPush, bucket, 0}, kLane, InRound{round, Text(payload), 9}, kStart,
                         &out);
    return out;
  }
  std::vector<Exchange::Delivery> Sum(uint32_t bucket, uint64_t round, uint64_t floor, Out* out) {
    pb::Outcome outcome;
    outcome.set_bucket(bucket);
    outcome.mutable_of_round()->set_round(round);
    outcome.mutable_of_round()->set_floor(floor);
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
  EXPECT_EQ(push.in_round().round(), 1u);
  EXPECT_EQ(push.rank(), 3u);
  EXPECT_EQ(push.incarnation(), 33u);
  EXPECT_EQ(push.in_round().digest(), 9u);
  EXPECT_EQ(View(out[0].message.payload), "abc");
}

TEST_F(ExchangeTest, HoldsBackPushesBeyondTheCredit) {
  Up(7);
  EXPECT_EQ(Push(0, std::string(15, 'a')).size(), 1u);
  EXPECT_TRUE(Push(2, std::string(15, 'b')).empty());
  EXPECT_TRUE(Push(1, "c").empty());  // waits behind bucket 2's push
  Out out;
  EXPECT_EQ(Sum(0, 1, 0, &out).size(), 1u);
  EXPECT_EQ(out.size(), 2u);
}

// The last bucket has the first layers, whose parameters the next forward pass needs first.
TEST_F(ExchangeTest, SendsOfARoundTheLastBucketFirst) {
  Up(7);
  EXPECT_EQ(Push(0, std::string(20, 'a')).size(), 1u);
  for (const uint32_t bucket : {1, 2, 4, 3}) EXPECT_TRUE(Push(bucket, "bbbb").empty());
  EXPECT_TRUE(Push(5, "c", 2).empty());
  Out out;
  Sum(0, 1, 0, &out);
  std::vector<uint32_t> buckets;
  for (const Exchange::Outgoing& sent : out) buckets.push_back(sent.message.head.push().bucket());
  // Bucket 1 is the first in plan order: it goes at once, whatever its priority. Bucket 5 is last
  // because it belongs to the next round.
  EXPECT_THAT(buckets, testing::ElementsAre(1, 4, 3, 2, 5));
}

TEST_F(ExchangeTest, SendsOnePushHoweverLarge) {
  Up(7);
  EXPECT_EQ(Push(0, std::string(1000, 'a')).size(), 1u);
}

TEST_F(ExchangeTest, LetsAPushGoThatComesBeforeAllThatAreNotAnswered) {
  Up(7);
  EXPECT_EQ(Push(1, std::string(20, 'b')).size(), 1u);
  EXPECT_EQ(Push(0, std::string(20, 'a')).size(), 1u);  // other workers may wait for it
  EXPECT_TRUE(Push(2, "c").empty());
}

TEST_F(ExchangeTest, DoesNotChargeControlForCredit) {
  Up(7, kControl);
  for (uint32_t bucket = 0; bucket < 5; ++bucket) {
    Out out;
    exchange_.Contribute({Kind::kScale, bucket, 0}, kControl,
                         InRound{1, Text(std::string(30, 's'))}, kStart, &out);
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

// While a slow link still brings answers, unanswered pushes are not lost and must not be repeated.
TEST_F(ExchangeTest, RepeatsNothingWhileItsLaneGoesOnAnswering) {
  Up(7);
  Push(0, "a");
  Push(1, "b");
  pb::Outcome outcome;
  outcome.mutable_of_round()->set_round(1);
  Out out;
  exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart + milliseconds(200), &out);
  EXPECT_TRUE(Timer(kStart + milliseconds(450)).empty());
  EXPECT_EQ(Timer(kStart + milliseconds(500)).size(), 1u);
}

TEST_F(ExchangeTest, DeliversAnAnswerOnceAndOnlyFromItsLane) {
  Up(7);
  Push(0, "abc");
  Out out;
  pb::Outcome outcome;
  outcome.mutable_of_round()->set_round(1);
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
  EXPECT_TRUE(Up(7).empty());  // the same server has it
  const Out given = Up(8);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].message.head.held_sum().of_round().round(), 1u);
  EXPECT_EQ(View(given[0].message.payload), "sum");
  EXPECT_EQ(Timer(kStart + milliseconds(300)).size(), 1u);
  exchange_.OnHeldConfirmed(kLane, Kind::kPush, given[0].message.head.held_sum());
  EXPECT_TRUE(Timer(kStart + milliseconds(900)).empty());
  EXPECT_EQ(Up(9).size(), 1u);  // a third process
}

TEST_F(ExchangeTest, ForgetsOlderRoundsWhenItGetsState) {
  Up(7);
  Push(0, std::string(20, 'a'));
  exchange_.Restart(4);
  EXPECT_TRUE(exchange_.idle());
  EXPECT_EQ(exchange_.applied(), 4u);
  EXPECT_EQ(Push(0, std::string(20, 'a'), 5).size(), 1u);  // credit was returned
}

// The exchange of a worker in a job without rounds.
class ClockExchangeTest : public ExchangeTest {
 protected:
  Out Say(protocol::Contribution contribution) {
    Out out;
    exchange_.Contribute(kCell, kLane, std::move(contribution), kStart, &out);
    return out;
  }
  Out PushAt(uint64_t clock) { return Say(AtClock{clock, Text("push")}); }
  pb::Contribution::Pull Pull(bool average = false) {
    return Say(protocol::Pull{average}).at(0).message.head.push().pull();
  }
  std::vector<Exchange::Delivery> Answer(const pb::Outcome& outcome) {
    Out out;
    return exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("weights"), kStart, &out);
  }
  static pb::Outcome Clock(uint64_t clock, uint64_t version) {
    pb::Outcome outcome;
    outcome.mutable_at_clock()->set_clock(clock);
    outcome.mutable_at_clock()->mutable_weights()->set_version(version);
    return outcome;
  }
  static pb::Outcome Pulled(uint64_t pull, uint64_t version) {
    pb::Outcome outcome;
    outcome.mutable_pulled()->set_number(pull);
    outcome.mutable_pulled()->set_clock(7);
    outcome.mutable_pulled()->mutable_weights()->set_version(version);
    return outcome;
  }
  static constexpr Cell kCell{Kind::kPush, 0, 0};
};

TEST_F(ClockExchangeTest, TakesNoAnswerToAnOlderPull) {
  Up(7);
  EXPECT_EQ(Pull().number(), 1u);
  EXPECT_EQ(Answer(Pulled(1, 3)).size(), 1u);
  EXPECT_TRUE(Answer(Pulled(1, 3)).empty());
  const pb::Contribution::Pull second = Pull(true);
  EXPECT_EQ(second.number(), 2u);
  EXPECT_TRUE(second.has_average());
  EXPECT_TRUE(Answer(Pulled(1, 4)).empty());  // an answer twice: the pull was repeated
  EXPECT_TRUE(Answer(Clock(0, 4)).empty());
  pb::Outcome average;
  average.mutable_pulled()->set_number(2);
  average.mutable_pulled()->mutable_average();
  EXPECT_EQ(Answer(average).size(), 1u);
  EXPECT_EQ(Pull().weights().holds(), 3u);  // it does not hold the average
  EXPECT_EQ(Pull().number(), 4u);           // only the newest pull is answered
  EXPECT_TRUE(Answer(Pulled(3, 5)).empty());
  EXPECT_EQ(Answer(Pulled(4, 5)).size(), 1u);
}

TEST_F(ClockExchangeTest, ForgetsVersionsOfAServerThatIsGone) {
  Up(7);
  Pull();
  Answer(Pulled(1, 3));
  EXPECT_EQ(PushAt(8).at(0).message.head.push().at_clock().holds(), 3u);
  const Out again = Up(8);  // a new process: its version 3 may differ
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].message.head.push().at_clock().clock(), 8u);
  EXPECT_FALSE(again[0].message.head.push().at_clock().has_holds());
}

TEST_F(ClockExchangeTest, HoldsTheClockOfItsNewestAnswerForAnotherLifeOfTheServer) {
  Up(7);
  for (uint64_t clock : {1, 2}) {
    PushAt(clock);
    EXPECT_EQ(Answer(Clock(clock, clock)).size(), 1u);
    EXPECT_TRUE(Answer(Clock(clock, clock)).empty());
  }
  EXPECT_EQ(exchange_.held(), 1u);
  const Out given = Up(8);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].message.head.held_sum().at_clock().clock(), 2u);
  EXPECT_TRUE(given[0].message.payload.empty());
  exchange_.OnHeldConfirmed(kLane, Kind::kPush, given[0].message.head.held_sum());
  EXPECT_EQ(Say(Parting{3}).at(0).message.head.push().parting().clock(), 3u);
  pb::Outcome parted;
  parted.mutable_parted()->set_clock(3);
  EXPECT_EQ(Answer(parted).size(), 1u);
  EXPECT_EQ(Up(9).at(0).message.head.held_sum().parted().clock(), 3u);
}

TEST_F(ClockExchangeTest, TellsItsClocksAgainAsANewIncarnation) {
  Up(7);
  PushAt(1);
  Answer(Clock(1, 1));
  EXPECT_TRUE(Up(7).empty());
  exchange_.SetIncarnation(34);
  EXPECT_EQ(Up(7).at(0).message.head.held_sum().at_clock().clock(), 1u);
  EXPECT_TRUE(Up(7).empty());
}

TEST_F(ClockExchangeTest, SaysWhetherAPushWantsWeightsAndWhichMembershipItsSenderKnows) {
  exchange_.SetEpoch(4);
  Up(7);
  const pb::Contribution with = PushAt(1).at(0).message.head.push();
  EXPECT_TRUE(with.at_clock().wants_weights());
  EXPECT_EQ(with.epoch(), 4u);
  const Out out = Say(AtClock{2, Text("push"), false});
  EXPECT_FALSE(out.at(0).message.head.push().at_clock().wants_weights());
}

TEST_F(ClockExchangeTest, TakesNoAnswerOfAnotherForm) {
  Up(7);
  PushAt(1);
  pb::Outcome outcome;
  EXPECT_TRUE(Answer(outcome).empty());  // has no form
  outcome.mutable_of_round()->set_round(1);
  EXPECT_TRUE(Answer(outcome).empty());
  outcome.mutable_parted()->set_clock(1);
  EXPECT_TRUE(Answer(outcome).empty());
  EXPECT_EQ(Answer(Clock(1, 1)).size(), 1u);
}

// The exchange of a worker whose rounds may close without it.
class UnsolicitedTest : public ClockExchangeTest {
 protected:
  UnsolicitedTest() {
    Exchange::Options options{3, 33, 20, milliseconds(300), true};
    options.in_plan = [](const Cell& cell, LaneRef) { return cell.bucket < 2; };
    exchange_ = Exchange(options);
    Up(7);
  }
  static pb::Outcome OutcomeOf(uint64_t round, const std::string& who) {
    pb::Outcome outcome;
    outcome.mutable_of_round()->set_round(round);
    outcome.mutable_of_round()->set_contributor_bits(who);
    return outcome;
  }
};

TEST_F(UnsolicitedTest, DeliversWhatItHasNotContributedToOnce) {
  EXPECT_EQ(Answer(OutcomeOf(1, "\x01")).size(), 1u);
  EXPECT_TRUE(Answer(OutcomeOf(1, "\x01")).empty());
  pb::Outcome outcome = OutcomeOf(1, "\x01");
  outcome.set_bucket(2);
  EXPECT_TRUE(Answer(outcome).empty());  // not in the plan
  outcome.set_bucket(1);
  outcome.mutable_of_round()->set_round(1'000);
  EXPECT_TRUE(Answer(outcome).empty());  // no server is so far ahead
  EXPECT_EQ(exchange_.held(), 1u);
}

TEST_F(UnsolicitedTest, CountsARoundOnceInWhichItIsLateAndTellsTheServer) {
  Answer(OutcomeOf(1, "\x01"));
  const Out out = Push(0, "abc");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.head.push().late().round(), 1u);
  EXPECT_TRUE(out[0].message.payload.empty());
  EXPECT_EQ(exchange_.late(), 1u);
  EXPECT_TRUE(exchange_.idle());
  Push(1, "abc");
  Out more;
  pb::Outcome outcome = OutcomeOf(1, "\x07");  // bits of ranks 0 to 2
  outcome.set_bucket(1);
  EXPECT_EQ(exchange_.OnOutcome(kLane, Kind::kPush, outcome, Text("sum"), kStart, &more).size(),
            1u);
  EXPECT_EQ(exchange_.late(), 1u);
  Push(0, "abc", 2);
  Answer(OutcomeOf(2, "\x08"));  // bit of rank 3, this worker: in time
  EXPECT_EQ(exchange_.late(), 1u);
}

TEST_F(UnsolicitedTest, GivesFiguresToThoseWhoGaveSome) {
  Out out;
  Up(7, kControl);
  const pb::Outcome outcome = OutcomeOf(1, "\x01");
  EXPECT_TRUE(
      exchange_.OnOutcome(kControl, Kind::kFigures, outcome, Text("f"), kStart, &out).empty());
  exchange_.Contribute({Kind::kFigures, 0, 0}, kControl, InRound{1, Text("mine")}, kStart, &out);
  EXPECT_EQ(out.size(), 1u);  // sent, though the round closed
  EXPECT_EQ(exchange_.OnOutcome(kControl, Kind::kFigures, outcome, Text("f"), kStart, &out).size(),
            1u);
}

TEST_F(UnsolicitedTest, DropsWhatIsWaitingForRoundsThatItHasApplied) {
  Push(0, std::string(20, 'a'));
  EXPECT_TRUE(Push(1, "b").empty());  // over the credit (unanswered bytes)
  exchange_.SetApplied(1);
  EXPECT_TRUE(exchange_.idle());
  EXPECT_EQ(Push(0, std::string(20, 'a'), 2).size(), 1u);  // credit was returned
  EXPECT_TRUE(Push(0, "late", 1).at(0).message.head.push().has_late());
}

TEST_F(UnsolicitedTest, PullsAndPushesWithoutRoundsAreNeverLate) {
  EXPECT_TRUE(Pull().has_weights());
  exchange_.SetApplied(0);
  EXPECT_EQ(Answer(Pulled(1, 3)).size(), 1u);
  PushAt(1);
  EXPECT_EQ(Answer(Clock(1, 4)).size(), 1u);
  EXPECT_TRUE(Answer(Clock(1, 4)).empty());  // a second time
  EXPECT_EQ(exchange_.late(), 0u);
}

}  // namespace
}  // namespace tern::protocol::test

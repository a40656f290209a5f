// Tests of RoundLane: a server socket with rounds. A cell is what is added up over the workers in
// each round; a slot is a cell in one round. `applied` is the newest round whose result a worker
// has; the floor is the newest round that every member has applied; an outcome is the answer to a
// round.
#include "common/protocol/rounds/round_lane.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;

constexpr Cell kFirstCell{Kind::kPush, 0, 0}, kSecondCell{Kind::kPush, 0, 1};

// Two members: ranks 0 and 1, with incarnations (numbers of their processes) 10 and 11 and peers
// (connections) 100 and 101.
class RoundLaneTest : public testing::Test {
 protected:
  void MakeLane(RoundLane::Options options) {
    options.workers = 2;
    options.incarnation = 7;
    lane_ = std::make_unique<RoundLane>(
        std::move(options), std::vector{LetterCell(kFirstCell), LetterCell(kSecondCell)});
  }
  // Makes ranks 0 and 1 members. They say hello, which opens the lane.
  void Join(bool fresh = false, uint64_t applied0 = 0, uint64_t applied1 = 0) {
    lane_->OnMembers(MembersOf(1, {10, 11}), &out_);
    SendHello(0, 10, 100, fresh, applied0);
    SendHello(1, 11, 101, fresh, applied1);
  }
  void SendHello(uint32_t rank, uint64_t incarnation, Peer peer, bool fresh, uint64_t applied) {
    pb::Hello hello = HelloWithState(rank, incarnation, applied, 1);
    hello.set_fresh(fresh);
    hello.set_newest_held(newest_held_);
    hello.set_stop_after(stop_after_);
    lane_->OnHello(peer, hello, &out_);
  }
  // Sends a push of `rank`, and returns the lane's messages.
  Sends Push(uint32_t rank, uint64_t round, uint64_t applied, const Cell& cell = kFirstCell,
             uint64_t digest = 0, const std::string& payload = "x", uint64_t epoch = 1) {
    return SendMessage(
        rank, ContributionOf({cell, round, rank, 10 + rank, applied, digest, payload, epoch}));
  }
  Sends SendMessage(uint32_t rank, const Message& message) {
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  // A contribution to round 1 of the first cell, without a form (late, in a round, ...).
  static Message FormlessContribution(uint32_t rank, const std::string& payload = "") {
    Message message = ContributionOf({kFirstCell, 1, rank, 10 + rank, 0, 0, payload});
    message.head.mutable_push()->clear_form();
    return message;
  }
  // The rank says that it takes no part in round 1 of the first cell.
  Sends SendSkip(uint32_t rank, const std::string& payload = "") {
    Message message = FormlessContribution(rank, payload);
    message.head.mutable_push()->mutable_skip()->set_round(1);
    return SendMessage(rank, message);
  }
  static pb::Refuse RefuseTo(uint32_t rank, const Sends& out) {
    return FirstMessageTo(100 + rank, pb::Envelope::kRefuse, out).head.refuse();
  }
  // A worker gives a restarted server the outcome of a round, which the worker has held.
  Sends SendHeldOutcome(Peer from, uint64_t round, const std::string& payload,
                        uint64_t stop_after = 0) {
    Message message;
    pb::Outcome::OfRound* outcome = message.head.mutable_held_sum()->mutable_of_round();
    outcome->set_round(round);
    outcome->set_contributors(2);
    outcome->set_contributor_bits("\x03");
    if (stop_after != 0) outcome->set_stop_after(stop_after);
    message.payload = Text(payload);
    Sends out;
    lane_->OnMessage(from, message, &out);
    return out;
  }

  std::unique_ptr<RoundLane> lane_;
  uint64_t newest_held_ = 0;  // the newest round of which the members say that they hold an outcome
  uint64_t stop_after_ = 0;   // the last round, as far as the members know
  Sends out_;
};

TEST_F(RoundLaneTest, OpensWhenEveryMemberHasSaidHello) {
  MakeLane({});
  lane_->OnMembers(MembersOf(1, {10, 11}), &out_);
  SendHello(0, 10, 100, true, 0);
  EXPECT_FALSE(lane_->open());
  EXPECT_TRUE(out_.empty());
  EXPECT_TRUE(Push(0, 1, 0).empty());  // ignored: the worker has no welcome yet, and will repeat it
  EXPECT_EQ(lane_->counters().counted, 0u);
  SendHello(1, 11, 101, true, 0);
  EXPECT_TRUE(lane_->open());
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kWelcome, out_).head.welcome().incarnation(), 7u);
  EXPECT_EQ(FirstMessageTo(101, pb::Envelope::kWelcome, out_).head.welcome().epoch(), 1u);
}

TEST_F(RoundLaneTest, ACellOfMembersLeavesOutARemovedMember) {
  for (bool is_for_members_only : {false, true}) {
    RoundLane::Options options;
    options.workers = 2;
    options.shrink = true;
    CellSpec spec = LetterCell(kFirstCell);
    spec.is_for_members_only = is_for_members_only;
    lane_ = std::make_unique<RoundLane>(std::move(options), std::vector{spec});
    Join();
    Push(1, 1, 0);
    lane_->OnMembers(MembersOf(2, {10, 0}), &out_);
    const pb::Outcome sum = FirstMessageTo(100, pb::Envelope::kSum, Push(0, 1, 0)).head.sum();
    EXPECT_EQ(sum.of_round().contributors(), is_for_members_only ? 1u : 2u);
    EXPECT_EQ(sum.of_round().contributor_bits(), is_for_members_only ? "\x01" : "\x03");
  }
}

// The simulator found this case (tests/sim/recorded/497589.events). The hash of the weights that
// rank 1 had says nothing about the weights of the process that replaces it.
TEST_F(RoundLaneTest, ACellOfMembersLeavesOutAReplacedMemberWhereAQuorumIsEnough) {
  RoundLane::Options options;
  options.workers = 3;
  options.quorum = 2;
  CellSpec spec = LetterCell(kFirstCell);
  spec.is_for_members_only = spec.waits_for_all = true;
  lane_ = std::make_unique<RoundLane>(std::move(options), std::vector{spec});
  lane_->OnMembers(MembersOf(1, {10, 11, 12}), &out_);
  for (uint32_t rank = 0; rank < 3; ++rank) SendHello(rank, 10 + rank, 100 + rank, false, 0);
  Push(0, 1, 0);
  Push(1, 1, 0);
  pb::Members members = MembersOf(2, {10, 21, 12});
  members.add_joining(1);
  Sends out;
  lane_->OnMembers(members, &out);
  EXPECT_EQ(lane_->LargestNumSlots(), 0u);
  EXPECT_EQ(RefuseTo(0, out).then(), pb::Refuse::again) << "it need not wait for resend_after";
  EXPECT_TRUE(MessagesTo(102, out).empty());
  SendHello(1, 21, 101, false, 0);
  Push(0, 1, 0);
  EXPECT_TRUE(MessagesTo(100, Push(2, 1, 0)).empty()) << "closed with the hash of another process";
  const Message sum = FirstMessageTo(
      100, pb::Envelope::kSum, SendMessage(1, ContributionOf({kFirstCell, 1, 1, 21, 0, 0, "x"})));
  EXPECT_EQ(sum.head.sum().of_round().contributors(), 3u);
}

TEST_F(RoundLaneTest, AsksNonMembersToRetry) {
  MakeLane({});
  SendHello(0, 10, 100, true, 0);
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kRefuse, out_).head.refuse().then(),
            pb::Refuse::retry);
  lane_->OnMembers(MembersOf(1, {10, 11}), &out_);
  out_.clear();
  lane_->OnHello(100, TestHello(5, 10), &out_);  // The job has no rank 5.
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kRefuse, out_).head.refuse().then(),
            pb::Refuse::retry);
}

TEST_F(RoundLaneTest, CountsEachRankOnceAndTellsAll) {
  MakeLane({});
  Join();
  EXPECT_TRUE(Push(0, 1, 0).empty());
  EXPECT_TRUE(Push(0, 1, 0).empty());
  EXPECT_EQ(lane_->counters().repeated, 1u);
  const Sends out = Push(1, 1, 0);
  for (Peer peer : {100, 101}) {
    const Message sum = FirstMessageTo(peer, pb::Envelope::kSum, out);
    EXPECT_EQ(View(sum.payload), "xx");
    EXPECT_EQ(sum.head.sum().of_round().contributors(), 2u);
    EXPECT_EQ(sum.head.sum().of_round().round(), 1u);
  }
  EXPECT_EQ(lane_->counters().counted, 2u);
  EXPECT_EQ(lane_->counters().closed, 1u);
}

TEST_F(RoundLaneTest, RepeatsTheOutcomeForARepeatedContribution) {
  MakeLane({});
  Join();
  Push(0, 1, 0);
  Push(1, 1, 0);
  const Sends out = Push(0, 1, 0);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(View(FirstMessageTo(100, pb::Envelope::kSum, out).payload), "xx");
}

TEST_F(RoundLaneTest, DropsARoundThatAllHaveAppliedAndRefusesItAsStale) {
  MakeLane({});
  Join();
  Push(0, 1, 0);
  Push(1, 1, 0);
  EXPECT_EQ(lane_->LargestNumSlots(), 1u);
  lane_->OnApplied(0, 10, 1);
  EXPECT_EQ(lane_->floor(), 0u);
  Push(1, 2, 1);  // The push says that rank 1 has applied round 1.
  EXPECT_EQ(lane_->floor(), 1u);
  const Sends out = Push(0, 1, 0);
  const pb::Refuse refuse = FirstMessageTo(100, pb::Envelope::kRefuse, out).head.refuse();
  EXPECT_EQ(refuse.then(), pb::Refuse::ignore);
  EXPECT_THAT(refuse.sentence(), HasSubstr("stale"));
  EXPECT_EQ(lane_->counters().stale, 1u);
  EXPECT_EQ(lane_->LargestNumSlots(), 1u);
}

TEST_F(RoundLaneTest, KeepsNoMoreThanItsBoundOfRounds) {
  MakeLane({});
  Join();
  for (uint64_t round = 1; round <= 4; ++round) EXPECT_TRUE(Push(0, round, round - 1).empty());
  const Sends out = Push(0, 5, 4);
  EXPECT_THAT(FirstMessageTo(100, pb::Envelope::kRefuse, out).head.refuse().sentence(),
              HasSubstr("early"));
  EXPECT_EQ(lane_->LargestNumSlots(), 4u);
  EXPECT_EQ(lane_->counters().early, 1u);
}

TEST_F(RoundLaneTest, RefusesContributionsBeyondTheWindowOrThePlan) {
  MakeLane({});
  Join();
  const auto refusal_action = [](const Sends& out) {
    return FirstMessageTo(100, pb::Envelope::kRefuse, out).head.refuse().then();
  };
  EXPECT_EQ(refusal_action(Push(0, 2, 0)), pb::Refuse::leave);
  EXPECT_EQ(refusal_action(Push(0, 1, 1)), pb::Refuse::leave);
  EXPECT_EQ(refusal_action(Push(0, 1, 0, {Kind::kPush, 9, 0})), pb::Refuse::leave);
  EXPECT_EQ(lane_->counters().bad, 3u);
}

TEST_F(RoundLaneTest, HasAWindowOfTwoWhereTheAlgorithmRunsAhead) {
  RoundLane::Options options;
  options.window = 2;
  MakeLane(options);
  Join();
  EXPECT_TRUE(Push(0, 2, 0).empty());
  EXPECT_EQ(lane_->counters().counted, 1u);
  EXPECT_EQ(Push(0, 3, 0).size(), 1u);
}

TEST_F(RoundLaneTest, FencesAnIncarnationThatIsNotAMember) {
  MakeLane({});
  Join();
  Sends out;
  lane_->OnMessage(100, ContributionOf({kFirstCell, 1, 0, 99, 0, 0, "x"}), &out);
  EXPECT_EQ(lane_->counters().fenced, 1u);
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kRefuse, out).head.refuse().then(),
            pb::Refuse::ignore);
  out.clear();
  lane_->OnMessage(100, ContributionOf({kFirstCell, 1, 7, 10, 0, 0, "x"}), &out);
  EXPECT_EQ(lane_->counters().fenced, 2u);
  lane_->OnApplied(0, 99, 1);
  lane_->OnApplied(1, 11, 1);
  EXPECT_EQ(lane_->floor(), 0u);
}

// With two workers nobody knows which one used the wrong scalers.
TEST_F(RoundLaneTest, RefusesBothOfTwoWhoUsedDifferentScalers) {
  MakeLane({});
  Join();
  Push(0, 1, 0, kFirstCell, 0xaaaa);
  const Sends out = Push(1, 1, 0, kFirstCell, 0xbbbb);
  for (const uint32_t rank : {0, 1}) {
    const pb::Refuse refuse = RefuseTo(rank, out);
    EXPECT_EQ(refuse.code(), 76u);
    EXPECT_EQ(refuse.then(), pb::Refuse::leave);
    EXPECT_EQ(refuse.sentence(),
              "the workers coded push of bucket 0, chunk 0, round 1 with different scalers: rank 0 "
              "000000000000aaaa, rank 1 000000000000bbbb");
  }
  EXPECT_EQ(lane_->counters().closed, 0u);
}

// The simulator found this case (tests/sim/recorded/1075292.events). This lane still has the push
// of a dead worker, coded with scalers that shard 0 lost. The other workers code with other
// scalers, those of shard 0's next process.
// The same may happen where a quorum is enough, because a repeated round may have other
// contributors.
TEST_F(RoundLaneTest, DelaysOtherScalersOfANewerMembership) {
  for (const bool shrink : {true, false}) {
    RoundLane::Options options;
    options.shrink = shrink;
    options.quorum = shrink ? 0 : 2;
    MakeLane(options);
    Join();
    Push(0, 1, 0, kFirstCell, 0xaaaa);
    EXPECT_TRUE(Push(1, 1, 0, kFirstCell, 0xbbbb, "x", /*epoch=*/2).empty());
    EXPECT_EQ(lane_->counters().early, 1u);
    pb::Members members = MembersOf(2, {20, 11});
    members.add_joining(0);
    Sends out;
    lane_->OnMembers(members, &out);
    EXPECT_EQ(RefuseTo(1, out).then(), pb::Refuse::again);
    const Sends answers = Push(1, 1, 0, kFirstCell, 0xbbbb, "x", /*epoch=*/2);
    EXPECT_EQ(lane_->counters().bad, 0u);
    if (!shrink) continue;
    const Message sum = FirstMessageTo(101, pb::Envelope::kSum, answers);
    EXPECT_EQ(sum.head.sum().of_round().contributor_bits(), "\x02");
  }
}

TEST_F(RoundLaneTest, RefusesOtherScalersOfTheMembershipThatItKnows) {
  RoundLane::Options options;
  options.shrink = true;
  MakeLane(options);
  Join();
  Push(0, 1, 0, kFirstCell, 0xaaaa);
  EXPECT_EQ(RefuseTo(1, Push(1, 1, 0, kFirstCell, 0xbbbb, "x", /*epoch=*/1)).then(),
            pb::Refuse::leave);
}

TEST_F(RoundLaneTest, RefusesAContributionWithoutAFormAndThoseOfClocksAndPulls) {
  MakeLane({});
  Join();
  const pb::Refuse refusal_of_formless = RefuseTo(0, SendMessage(0, FormlessContribution(0, "x")));
  EXPECT_EQ(refusal_of_formless.then(), pb::Refuse::leave);
  EXPECT_EQ(refusal_of_formless.sentence(),
            "push of bucket 0, chunk 0, no form: it says neither a round, nor a clock, nor a pull");
  Message push = FormlessContribution(0, "x"), parting = FormlessContribution(0),
          pull = FormlessContribution(0);
  push.head.mutable_push()->mutable_at_clock()->set_clock(1);
  parting.head.mutable_push()->mutable_parting()->set_clock(1);
  pull.head.mutable_push()->mutable_pull()->set_number(1);
  EXPECT_THAT(RefuseTo(0, SendMessage(0, pull)).sentence(), HasSubstr("neither the weights nor"));
  pull.head.mutable_push()->mutable_pull()->mutable_weights();
  EXPECT_EQ(RefuseTo(0, SendMessage(0, push)).sentence(),
            "push of bucket 0, chunk 0, clock 1 is of no round, and this lane has rounds");
  EXPECT_EQ(RefuseTo(0, SendMessage(0, parting)).then(), pb::Refuse::leave);
  EXPECT_EQ(RefuseTo(0, SendMessage(0, pull)).sentence(),
            "push of bucket 0, chunk 0, pull 1 is not in this lane's plan");
  EXPECT_EQ(lane_->counters().bad, 5u);
  EXPECT_EQ(lane_->LargestNumSlots(), 0u);
}

TEST_F(RoundLaneTest, RefusesALateMessageWithAPayload) {
  MakeLane({});
  Join();
  Message late_message = FormlessContribution(0, "x");
  late_message.head.mutable_push()->mutable_late()->set_round(1);
  EXPECT_EQ(RefuseTo(0, SendMessage(0, late_message)).then(), pb::Refuse::leave);
  late_message.payload = Bytes();
  EXPECT_TRUE(SendMessage(0, late_message).empty());
}

TEST_F(RoundLaneTest, RefusesAHeldOutcomeOfNoRound) {
  MakeLane({});
  Join();
  Message held_outcome;
  held_outcome.head.mutable_held_sum();
  EXPECT_THAT(RefuseTo(0, SendMessage(0, held_outcome)).sentence(),
              HasSubstr("held outcome is of no round"));
  held_outcome.head.mutable_held_sum()->mutable_at_clock()->set_clock(1);
  EXPECT_EQ(RefuseTo(0, SendMessage(0, held_outcome)).then(), pb::Refuse::leave);
  EXPECT_EQ(lane_->counters().restored, 0u);
}

TEST_F(RoundLaneTest, EmptiesASlotThatGotABadPayload) {
  MakeLane({});
  Join();
  Push(0, 1, 0);
  const pb::Refuse refuse =
      FirstMessageTo(101, pb::Envelope::kRefuse, Push(1, 1, 0, kFirstCell, 0, "y")).head.refuse();
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 1: not an x"));
  EXPECT_EQ(lane_->LargestNumSlots(), 0u);
  Push(1, 1, 0);
  EXPECT_EQ(View(FirstMessageTo(100, pb::Envelope::kSum, Push(0, 1, 0)).payload), "xx");
}

TEST_F(RoundLaneTest, TheFloorWaitsForTheStateOfAReplacement) {
  MakeLane({});
  Join(false, 3, 3);
  EXPECT_EQ(lane_->floor(), 3u);
  lane_->OnMembers(MembersOf(2, {20, 11}), &out_);
  lane_->OnHello(102, TestHello(0, 20), &out_);
  lane_->OnApplied(1, 11, 4);
  EXPECT_EQ(lane_->floor(), 3u);
  lane_->OnApplied(1, 11, 2);  // an older message, which takes nothing back
  lane_->OnApplied(0, 20, 4);
  EXPECT_EQ(lane_->floor(), 4u);
}

TEST_F(RoundLaneTest, IgnoresAnOlderMembership) {
  MakeLane({});
  lane_->OnMembers(MembersOf(5, {10, 11}), &out_);
  lane_->OnMembers(MembersOf(4, {20, 21}), &out_);
  SendHello(0, 10, 100, true, 0);
  SendHello(1, 11, 101, true, 0);
  EXPECT_TRUE(lane_->open());
}

TEST_F(RoundLaneTest, OpensAfterARestartAtTheLeastAppliedRound) {
  MakeLane({});
  Join(false, 6, 5);
  EXPECT_EQ(lane_->floor(), 5u);
}

TEST_F(RoundLaneTest, OpensAtZeroWhileAMemberHasNotShownWhatItHas) {
  MakeLane({});
  lane_->OnMembers(MembersOf(1, {10, 11}), &out_);
  SendHello(0, 10, 100, true, 0);  // Rank 0 may still receive an older state.
  SendHello(1, 11, 101, false, 6);
  EXPECT_TRUE(lane_->open());
  EXPECT_EQ(lane_->floor(), 0u);
}

TEST_F(RoundLaneTest, RestoresAClosedSlotFromAHeldOutcome) {
  MakeLane({});
  newest_held_ = 5;
  Join(false, 4, 4);
  Push(1, 5, 4);
  const Sends out = SendHeldOutcome(100, 5, "xx");
  EXPECT_EQ(View(FirstMessageTo(101, pb::Envelope::kSum, out).payload), "xx");
  const Message confirmation = FirstMessageTo(100, pb::Envelope::kHeldSum, out);
  EXPECT_EQ(confirmation.head.held_sum().of_round().round(), 5u);
  EXPECT_TRUE(confirmation.payload.empty());
  EXPECT_EQ(lane_->counters().restored, 1u);
  // The same outcome again, and one that nobody needs: the lane only confirms that it got them.
  EXPECT_EQ(SendHeldOutcome(100, 5, "xx").size(), 1u);
  EXPECT_EQ(SendHeldOutcome(100, 4, "xx").size(), 1u);
  EXPECT_EQ(lane_->counters().restored, 1u);
  EXPECT_EQ(View(FirstMessageTo(101, pb::Envelope::kSum, Push(1, 5, 4)).payload), "xx");
}

TEST_F(RoundLaneTest, RefusesAHeldOutcomeThatCannotBeOne) {
  MakeLane({});
  newest_held_ = 1;
  Join();
  const pb::Refuse refuse =
      FirstMessageTo(100, pb::Envelope::kRefuse, SendHeldOutcome(100, 1, "zz")).head.refuse();
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_TRUE(SendHeldOutcome(999, 1, "xx").empty());  // Peer 999 is not a member.
  EXPECT_EQ(lane_->counters().restored, 0u);
}

TEST_F(RoundLaneTest, NamesTheLastRoundInTheNextOutcomeAfterAStop) {
  RoundLane::Options options;
  options.decides_last_round = true;
  options.learning_rate = [](uint64_t round) { return 0.5 / static_cast<double>(round); };
  MakeLane(options);
  Join();
  Push(0, 1, 0);
  Push(1, 1, 0);
  Push(0, 2, 1, kSecondCell);
  lane_->OnStop();
  const pb::Outcome second_sum =
      FirstMessageTo(100, pb::Envelope::kSum, Push(1, 2, 1, kSecondCell)).head.sum();
  EXPECT_EQ(second_sum.of_round().stop_after(), 3u);  // a worker may compute round 3 already
  Push(0, 2, 1);
  const pb::Outcome sum = FirstMessageTo(100, pb::Envelope::kSum, Push(1, 2, 1)).head.sum();
  EXPECT_EQ(sum.of_round().stop_after(), 3u);
  EXPECT_EQ(sum.learning_rate(), 0.25);
}

TEST_F(RoundLaneTest, KeepsToTheLastRoundThatAHeldOutcomeNames) {
  RoundLane::Options options;
  options.decides_last_round = true;
  MakeLane(options);
  newest_held_ = 5;
  Join(false, 4, 4);
  const pb::Outcome sum =
      FirstMessageTo(101, pb::Envelope::kSum, SendHeldOutcome(100, 5, "xx", 5)).head.sum();
  EXPECT_EQ(sum.of_round().stop_after(), 5u);
}

// Nobody holds the outcome any more that named round 7: all have applied it.
TEST_F(RoundLaneTest, KeepsToTheLastRoundThatAHelloNames) {
  RoundLane::Options options;
  options.decides_last_round = true;
  MakeLane(options);
  stop_after_ = 7;
  Join(false, 4, 4);
  lane_->OnStop();
  Push(0, 5, 4);
  const pb::Outcome sum = FirstMessageTo(100, pb::Envelope::kSum, Push(1, 5, 4)).head.sum();
  EXPECT_EQ(sum.of_round().stop_after(), 7u);
}

TEST_F(RoundLaneTest, CountsARankThatSkipsTheRound) {
  MakeLane({});
  Join();
  EXPECT_EQ(RefuseTo(0, SendSkip(0, "x")).then(), pb::Refuse::leave);
  EXPECT_EQ(lane_->counters().bad, 1u);
  EXPECT_TRUE(SendSkip(0).empty());
  const Message sum = FirstMessageTo(100, pb::Envelope::kSum, SendSkip(1));
  EXPECT_TRUE(sum.head.sum().has_of_round());
  EXPECT_EQ(sum.head.sum().of_round().contributors(), 0u);
  EXPECT_TRUE(sum.payload.empty());
  EXPECT_EQ(lane_->counters().skipped, 2u);
}

TEST_F(RoundLaneTest, ClosesACellOfEveryRoundEvenWithoutContributors) {
  class ClosedRoundCounter : public CellSum {
   public:
    explicit ClosedRoundCounter(int* num_closed) : num_closed_(*num_closed) {}
    Status Add(uint32_t, const Bytes&) override { return Ok(); }
    Bytes Close() override {
      ++num_closed_;
      return {};
    }

   private:
    int& num_closed_;
  };
  int num_closed = 0;
  RoundLane::Options options;
  options.workers = 1;
  CellSpec spec = LetterCell(kFirstCell);
  spec.open = [&num_closed](uint64_t) { return std::make_unique<ClosedRoundCounter>(&num_closed); };
  spec.closes_every_round = true;
  lane_ = std::make_unique<RoundLane>(options, std::vector{spec});
  lane_->OnMembers(MembersOf(1, {10}), &out_);
  SendHello(0, 10, 100, true, 0);
  SendSkip(0);
  EXPECT_EQ(num_closed, 1);
  EXPECT_EQ(Push(0, 2, 1).size(), 1u);
  EXPECT_EQ(num_closed, 2);
}

TEST_F(RoundLaneTest, ReplacesFieldsOfARestoredOutcomeByItsOwn) {
  RoundLane::Options options;
  options.learning_rate = [](uint64_t round) { return 1.0 / static_cast<double>(round); };
  MakeLane(options);
  newest_held_ = 5;
  Join(false, 4, 4);
  Message message;
  pb::Outcome* outcome = message.head.mutable_held_sum();
  outcome->mutable_of_round()->set_round(5);
  outcome->mutable_of_round()->set_contributors(2);
  outcome->mutable_of_round()->set_contributor_bits("\x03\xff\xff\xff");
  outcome->set_learning_rate(1e30);
  message.payload = Text("xx");
  Sends out;
  lane_->OnMessage(100, message, &out);
  const pb::Outcome sum = FirstMessageTo(101, pb::Envelope::kSum, out).head.sum();
  EXPECT_EQ(sum.of_round().contributor_bits(), "\x03");
  EXPECT_EQ(sum.learning_rate(), 0.2);
}

TEST_F(RoundLaneTest, RefusesTheLargestRoundNumbers) {
  MakeLane({});
  Join();
  const uint64_t last_round = ~uint64_t{0};
  for (auto [round, applied] :
       {std::pair{last_round, last_round}, std::pair{uint64_t{0}, last_round}}) {
    const Sends out = Push(0, round, applied);
    EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kRefuse, out).head.refuse().then(),
              pb::Refuse::leave);
  }
  // Rank 0 contributes to 100 of the last rounds, and rank 1 to none. The slots must stay within
  // their limit.
  for (uint64_t round = last_round; round > last_round - 100; --round) Push(0, round, round - 1);
  EXPECT_LE(lane_->LargestNumSlots(), lane_->MaxSlots());
  EXPECT_EQ(lane_->floor(), 0u);
}

// Rank 0 says that it holds the outcome of round 1, so a restarted server does not close that round
// without rank 0. If both ranks then report that they have applied round 1, round 2 need not wait.
TEST_F(RoundLaneTest, ClosesARoundThatWaitedForOneBelowTheFloor) {
  RoundLane::Options options;
  options.window = 2;
  options.quorum = 1;
  MakeLane(options);
  lane_->OnMembers(MembersOf(1, {10, 11}), &out_);
  pb::Hello hello_of_rank0 = HelloWithState(0, 10, 0, 1);
  hello_of_rank0.set_newest_held(1);
  lane_->OnHello(100, hello_of_rank0, &out_);
  SendHello(1, 11, 101, false, 0);
  EXPECT_TRUE(Push(1, 1, 0).empty());
  EXPECT_TRUE(Push(1, 2, 0).empty());  // a quorum is here, but round 1 is still open
  lane_->OnApplied(0, 10, 1);
  lane_->OnApplied(1, 11, 1);
  EXPECT_EQ(FirstMessageTo(101, pb::Envelope::kSum, Push(1, 2, 1)).head.sum().of_round().round(),
            2u);
}

TEST_F(RoundLaneTest, WithoutASafeguardTheFaultOccurs) {
  const ScopedNoChecks no_checks;
  RoundLane::Options options;
  options.safeguards.count_once = false;
  MakeLane(options);
  Join();
  Push(0, 1, 0);
  Push(0, 1, 0);
  EXPECT_EQ(View(FirstMessageTo(100, pb::Envelope::kSum, Push(1, 1, 0)).payload),
            "xxx");  // rank 0 counts twice
  options.safeguards = {};
  options.safeguards.keep_until_applied = false;
  MakeLane(options);
  Join();
  Push(0, 1, 0);
  Push(1, 1, 0);
  EXPECT_TRUE(Push(0, 1, 0).empty());
}

}  // namespace
}  // namespace tern::protocol::test

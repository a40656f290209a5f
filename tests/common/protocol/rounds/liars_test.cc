// Tests of what a member can do to a lane (a server socket) by lies about rounds, scalers (scale
// factors) and outcomes (answers to rounds), and of messages that name a member, but come on
// another connection than the member's.
#include <gmock/gmock.h>

#include "common/protocol/rounds/round_lane.h"
#include "tests/common/protocol/members/words.h"
#include "tests/common/protocol/rounds/clock_lane_testing.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;

constexpr Cell kPushes{Kind::kPush, 0, 0}, kScalers{Kind::kScale, 0, 0};

// Three members: rank r has incarnation (the number of its process) 10 + r and peer (connection)
// 100 + r.
class Liars : public testing::Test {
 protected:
  explicit Liars(RoundLane::Options options = {}) {
    options.workers = 3;
    lane_ = std::make_unique<RoundLane>(std::move(options),
                                        std::vector{LetterCell(kPushes), LetterCell(kScalers)});
  }
  // All members say hello. `newest_held`, by rank: the newest round of which it holds the outcome.
  void Join(uint64_t applied = 0, const std::vector<uint64_t>& newest_held = {0, 0, 0}) {
    Sends out;
    lane_->OnMembers(MembersOf(1, {10, 11, 12}), &out);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      pb::Hello hello = HelloWithState(rank, 10 + rank, applied, 1);
      hello.set_newest_held(newest_held[rank]);
      lane_->OnHello(100 + rank, hello, &out);
    }
  }
  Sends Contribute(uint32_t rank, const Cell& cell, uint64_t round, uint64_t digest = 0,
                   Peer from = 0) {
    Sends out;
    lane_->OnMessage(from != 0 ? from : 100 + rank,
                     ContributionOf({cell, round, rank, 10 + rank, round - 1, digest}), &out);
    return out;
  }
  Sends HandBack(uint32_t rank, uint64_t round, const std::string& bits = "\x07") {
    const uint32_t contributors = bits == "\x07" ? 3 : 2;
    return HandBack(rank, round, bits, contributors, std::string(contributors, 'x'));
  }
  Sends HandBack(uint32_t rank, uint64_t round, const std::string& bits, uint32_t contributors,
                 const std::string& payload) {
    Message message;
    pb::Outcome::OfRound* outcome = message.head.mutable_held_sum()->mutable_of_round();
    outcome->set_round(round);
    outcome->set_contributors(contributors);
    outcome->set_contributor_bits(bits);
    message.payload = Text(payload);
    Sends out;
    lane_->OnMessage(100 + rank, message, &out);
    return out;
  }
  static pb::Refuse RefuseTo(uint32_t rank, const Sends& out) {
    return FirstMessageTo(100 + rank, pb::Envelope::kRefuse, out).head.refuse();
  }
  static std::string SumTo(uint32_t rank, const Sends& out) {
    return View(FirstMessageTo(100 + rank, pb::Envelope::kSum, out).payload);
  }

  std::unique_ptr<RoundLane> lane_;
};

TEST_F(Liars, AContributionOnAnotherConnectionDoesNotCountUntilItsMemberSaysHelloThere) {
  Join();
  const Sends out = Contribute(0, kPushes, 1, 0, /*from=*/666);
  EXPECT_EQ(FirstMessageTo(666, pb::Envelope::kRefuse, out).head.refuse().then(),
            pb::Refuse::retry);
  EXPECT_EQ(lane_->counters().counted, 0u);
  EXPECT_EQ(lane_->counters().fenced, 1u);
  Sends hello_answers;
  lane_->OnHello(666, HelloWithState(0, 10, 0, 1), &hello_answers);
  Contribute(0, kPushes, 1, 0, /*from=*/666);
  EXPECT_EQ(lane_->counters().counted, 1u);
}

// Rank 0 speaks first, and lies about the scalers with which it coded its push.
TEST_F(Liars, WhoeverSpeaksFirstDoesNotDecideWhichScalersAreRight) {
  Join();
  Contribute(0, kPushes, 1, 0xbad);
  EXPECT_TRUE(Contribute(1, kPushes, 1, 0xaaaa).empty()) << "nobody is blamed before all have come";
  const Sends out = Contribute(2, kPushes, 1, 0xaaaa);
  EXPECT_EQ(RefuseTo(0, out).then(), pb::Refuse::leave);
  EXPECT_THAT(RefuseTo(0, out).sentence(), testing::AllOf(HasSubstr("rank 0 0000000000000bad"),
                                                          HasSubstr("rank 1 000000000000aaaa"),
                                                          HasSubstr("rank 2 000000000000aaaa")));
  EXPECT_EQ(RefuseTo(1, out).then(), pb::Refuse::again);
  EXPECT_EQ(RefuseTo(2, out).then(), pb::Refuse::again);
  Contribute(1, kPushes, 1, 0xaaaa);
  Contribute(2, kPushes, 1, 0xaaaa);
  EXPECT_EQ(SumTo(1, Contribute(0, kPushes, 1, 0xaaaa)), "xxx");
}

TEST_F(Liars, TheLastOfThreeWithOtherScalersIsRefusedAlone) {
  Join();
  Contribute(0, kPushes, 1, 0xaaaa);
  Contribute(1, kPushes, 1, 0xaaaa);
  const Sends out = Contribute(2, kPushes, 1, 0xbad);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(RefuseTo(2, out).then(), pb::Refuse::leave);
  EXPECT_EQ(SumTo(0, Contribute(2, kPushes, 1, 0xaaaa)), "xxx");
}

// Rank 0's former process used the scalers that are wrong, and its next process none so far.
TEST_F(Liars, ANewProcessIsNotBlamedForTheScalersOfTheOneBefore) {
  Join();
  Contribute(0, kPushes, 1, 0xbad);
  Sends out;
  lane_->OnMembers(MembersOf(2, {20, 11, 12}), &out);
  lane_->OnHello(110, HelloWithState(0, 20, 0, 2), &out);
  Contribute(1, kPushes, 1, 0xaaaa);
  out = Contribute(2, kPushes, 1, 0xaaaa);
  EXPECT_EQ(FirstMessageTo(110, pb::Envelope::kRefuse, out).head.refuse().then(),
            pb::Refuse::again);
  EXPECT_EQ(RefuseTo(1, out).then(), pb::Refuse::again);
}

TEST_F(Liars, ScalersThemselvesHaveNoDigest) {
  Join();
  Contribute(0, kScalers, 1, 0xbad);
  Contribute(1, kScalers, 1);
  const Sends out = Contribute(2, kScalers, 1);
  EXPECT_EQ(View(FirstMessageTo(100, pb::Envelope::kScaled, out).payload), "xxx");
}

// Rank 0 claims rounds that cannot be true, which take all the room that the lane has.
TEST_F(Liars, ClaimsOfLaterRoundsDoNotKeepTheOthersOut) {
  Join();
  for (uint64_t round = 1'000'000; round < 1'000'100; ++round) Contribute(0, kPushes, round);
  EXPECT_EQ(lane_->LargestNumSlots(), lane_->MaxSlots());
  for (uint64_t round = 1; round <= 20; ++round) {
    Contribute(1, kPushes, round);
    Contribute(2, kPushes, round);
    EXPECT_EQ(SumTo(1, Contribute(0, kPushes, round)), "xxx") << round;
  }
  EXPECT_LE(lane_->LargestNumSlots(), lane_->MaxSlots());
}

class ElasticLiars : public Liars {
 protected:
  static RoundLane::Options ElasticOptions() {
    RoundLane::Options options;
    options.shrink = true;
    return options;
  }
  ElasticLiars() : Liars(ElasticOptions()) {}
};

TEST_F(ElasticLiars, ClaimsOfLaterRoundsDoNotKeepTheOthersOut) {
  Join();
  for (uint64_t round = 1'000'000; round < 1'000'100; ++round) Contribute(0, kPushes, round);
  for (uint64_t round = 1; round <= 20; ++round) {
    Contribute(1, kPushes, round);
    Contribute(2, kPushes, round);
    EXPECT_EQ(SumTo(1, Contribute(0, kPushes, round)), "xxx") << round;
  }
  EXPECT_LE(lane_->LargestNumSlots(), lane_->MaxSlots());
}

TEST_F(Liars, AnOutcomeThatNobodyHeldWhenTheLaneOpenedIsNotTaken) {
  Join(4, {4, 5, 0});
  HandBack(0, 6);
  EXPECT_EQ(lane_->counters().restored, 0u);
  HandBack(1, 5);
  EXPECT_EQ(lane_->counters().restored, 1u);
  for (const uint32_t rank : {0, 1}) Contribute(rank, kPushes, 6);
  EXPECT_EQ(SumTo(1, Contribute(2, kPushes, 6)), "xxx") << "round 6 is closed by its contributions";
}

TEST_F(Liars, TwoDifferentOutcomesOfARoundEndTheJob) {
  Join(4, {5, 5, 0});
  HandBack(0, 5);
  const Sends out = HandBack(1, 5, "\x03");
  for (const uint32_t rank : {0, 1, 2}) {
    EXPECT_EQ(RefuseTo(rank, out).then(), pb::Refuse::leave);
    EXPECT_THAT(RefuseTo(rank, out).sentence(),
                HasSubstr("two workers hand back different outcomes of push of bucket 0, chunk 0, "
                          "round 5"));
  }
}

TEST_F(Liars, AnOutcomeThatCountsOtherContributorsThanItNamesIsRefused) {
  Join(4, {5, 5, 0});
  const Sends out = HandBack(0, 5, "\x07", 2, "xxx");
  EXPECT_EQ(RefuseTo(0, out).then(), pb::Refuse::leave);
  EXPECT_THAT(RefuseTo(0, out).sentence(), HasSubstr("it names 3 contributors and counts 2"));
  EXPECT_EQ(lane_->counters().restored, 0u);
}

TEST_F(Liars, TwoOutcomesOfARoundThatDifferInTheirPayloadAloneEndTheJob) {
  Join(4, {5, 5, 0});
  HandBack(0, 5);
  const Sends out = HandBack(1, 5, "\x07", 3, "xxy");
  for (const uint32_t rank : {0, 1, 2})
    EXPECT_THAT(RefuseTo(rank, out).sentence(), HasSubstr("hand back different outcomes"));
}

class QuorumLiars : public Liars {
 protected:
  static RoundLane::Options QuorumOptions() {
    RoundLane::Options options;
    options.quorum = 2;
    return options;
  }
  QuorumLiars() : Liars(QuorumOptions()) {}
};

// If a member may hold the outcome of a round, the round waits for all members.
TEST_F(QuorumLiars, ALieAboutTheNewestOutcomeDoesNotMakeAllLaterRoundsWait) {
  Join(4, {uint64_t{1} << 60, 4, 4});
  Contribute(1, kPushes, 200);
  EXPECT_EQ(SumTo(1, Contribute(2, kPushes, 200)), "xx");
}

TEST_F(ClockLaneTest, APushOnAnotherConnectionDoesNotCountUntilItsMemberSaysHelloThere) {
  MakeLane();
  Join();
  Message message;
  pb::Contribution* push = message.head.mutable_push();
  push->set_rank(0);
  push->set_incarnation(10);
  push->mutable_at_clock()->set_clock(1);
  message.payload = Text("x");
  Sends out;
  lane_->OnMessage(666, message, &out);
  EXPECT_EQ(FirstMessageTo(666, pb::Envelope::kRefuse, out).head.refuse().then(),
            pb::Refuse::retry);
  EXPECT_EQ(lane_->counters().counted, 0u);
  lane_->OnMessage(100, message, &out);
  EXPECT_EQ(lane_->counters().counted, 1u);
}

}  // namespace
}  // namespace tern::protocol::test

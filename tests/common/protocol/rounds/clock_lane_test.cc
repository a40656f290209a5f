// Tests of ClockLane: a server socket without rounds, which answers each push by itself. A worker's
// clock is its own count of pushes; the version is the number of pushes that the weights contain;
// the staleness of a push is the version just before it minus the version that it was computed
// from.
#include "common/protocol/rounds/clock_lane.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/rounds/clock_lane_testing.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ClockLaneTest, OpensWhenEveryMemberHasSaidHelloAndWelcomesWhoComesLater) {
  MakeLane();
  SetMembers(1, {10, 11, 12});
  EXPECT_TRUE(SendHello(0, 10).empty());
  EXPECT_TRUE(Push(0, 1).empty());  // ignored: the worker has no welcome yet, and will repeat it
  EXPECT_TRUE(SendHello(1, 11).empty());
  EXPECT_FALSE(lane_->open());
  EXPECT_EQ(SendHello(2, 12).size(), 3u);
  EXPECT_TRUE(lane_->open());
  EXPECT_TRUE(first_cell_->pushes.empty());
  SetMembers(2, {10, 11, 22});
  EXPECT_TRUE(lane_->open());
  const Sends out = SendHello(2, 22);
  EXPECT_EQ(FirstMessageTo(102, pb::Envelope::kWelcome, out).head.welcome().incarnation(), 7u);
  EXPECT_EQ(FirstMessageTo(102, pb::Envelope::kWelcome, out).head.welcome().epoch(), 2u);
  EXPECT_EQ(Refusal(1, SendHello(1, 99)).then(), pb::Refuse::retry);
}

TEST_F(ClockLaneTest, AnswersEveryPushAtOnceWithTheWeightsAfterIt) {
  ClockLane::Options options;
  options.learning_rate = [](uint64_t total) { return 1.0 / static_cast<double>(total); };
  MakeLane(options);
  Join();
  EXPECT_EQ(View(OutcomeMessage(0, Push(0, 1, "a")).payload), "a");
  const Message sum = OutcomeMessage(1, Push(1, 1, "b"));
  EXPECT_EQ(View(sum.payload), "ab");
  const pb::Outcome::AtClock& answer = sum.head.sum().at_clock();
  EXPECT_EQ(answer.clock(), 1u);
  EXPECT_EQ(answer.weights().version(), 2u);
  EXPECT_EQ(answer.total(), 2u);
  EXPECT_EQ(answer.staleness(), 1u);
  EXPECT_EQ(sum.head.sum().learning_rate(), 0.5);
  EXPECT_FALSE(answer.stop());
  EXPECT_EQ(lane_->floor(), 0u);
}

TEST_F(ClockLaneTest, CountsAClockOnceAndAnswersItAgain) {
  MakeLane();
  Join();
  Push(0, 1, "a");
  Push(1, 1, "b");
  const Message repeated_answer = OutcomeMessage(0, Push(0, 1, "a"));
  EXPECT_EQ(View(repeated_answer.payload), "ab");
  EXPECT_EQ(repeated_answer.head.sum().at_clock().clock(), 1u);
  EXPECT_EQ(repeated_answer.head.sum().at_clock().weights().version(), 2u);
  EXPECT_EQ(first_cell_->pushes.size(), 2u);
  EXPECT_EQ(lane_->counters().repeated, 1u);
  EXPECT_EQ(lane_->counters().counted, 2u);
  // Each cell (here the weights of one chunk) counts its own pushes.
  EXPECT_EQ(View(OutcomeMessage(0, SendPush(0, 1, kSecondCell, "c", {})).payload), "c");
}

TEST_F(ClockLaneTest, RefusesAnOlderClockAsStaleAndLetsClocksLeap) {
  MakeLane();
  Join();
  Push(0, 5);
  const pb::Refuse refuse = Refusal(0, Push(0, 4));
  EXPECT_EQ(refuse.then(), pb::Refuse::ignore);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 0 is at 5"));
  EXPECT_EQ(lane_->counters().stale, 1u);
  EXPECT_EQ(first_cell_->pushes.size(), 1u);
}

TEST_F(ClockLaneTest, RefusesIncarnationsThatAreNotMembers) {
  MakeLane();
  Join();
  EXPECT_EQ(Refusal(0, SendPush(0, 1, kFirstCell, "x", {.incarnation = 99})).then(),
            pb::Refuse::ignore);
  SetMembers(2, {20, 11, 12});
  EXPECT_EQ(Refusal(0, Push(0, 1)).then(), pb::Refuse::ignore);
  EXPECT_EQ(Refusal(0, Pull(0)).then(), pb::Refuse::ignore);
  EXPECT_EQ(lane_->counters().fenced, 3u);
  EXPECT_TRUE(first_cell_->pushes.empty());
}

TEST_F(ClockLaneTest, RefusesPushesThatAreNotInItsPlan) {
  MakeLane();
  Join();
  EXPECT_EQ(Refusal(0, SendPush(0, 1, {Kind::kPush, 9, 0}, "x", {})).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Push(0, 0)).then(), pb::Refuse::leave);
  const pb::Refuse refusal_of_bad_push = Refusal(1, Push(1, 1, "bad"));
  EXPECT_EQ(refusal_of_bad_push.then(), pb::Refuse::leave);
  EXPECT_THAT(refusal_of_bad_push.sentence(), HasSubstr("rank 1: not a word"));
  EXPECT_EQ(lane_->counters().bad, 3u);
  EXPECT_EQ(lane_->clocks(kFirstCell).total, 0u);
  EXPECT_EQ(lane_->clocks(kFirstCell).counted_clocks, (std::vector<uint64_t>{0, 0, 0}));
  Message unexpected_message;
  unexpected_message.head.mutable_members();
  Sends out;
  lane_->OnMessage(100, unexpected_message, &out);
  EXPECT_EQ(Refusal(0, out).then(), pb::Refuse::ignore);
}

TEST_F(ClockLaneTest, TakesTheVersionThatAPushNamesForItsBase) {
  MakeLane();
  Join();
  Push(0, 1);                           // is answered with version 1 of the weights
  Push(1, 1);                           // is answered with version 2
  SendPush(0, 2, kFirstCell, "x", {});  // names no version: its base is the last answer, 1
  SendPush(1, 2, kFirstCell, "x", {.held_version = 0});          // version 0: the initial weights
  SendPush(2, 1, kFirstCell, "x", {.held_version = 1'000'000});  // a version of a previous server
  ASSERT_EQ(first_cell_->pushes.size(), 5u);
  EXPECT_EQ(first_cell_->pushes[2].base_version, 1u);
  EXPECT_EQ(first_cell_->pushes[3].base_version, 0u);
  EXPECT_EQ(first_cell_->pushes[4].base_version, 4u);
}

TEST_F(ClockLaneTest, CountsStalenessInAHistogramWhoseLastBinTakesTheRest) {
  MakeLane();
  Join();
  for (uint64_t clock = 1; clock <= 40; ++clock)
    Push(0, clock);  // These pushes are not stale, because no other rank pushes.
  EXPECT_EQ(lane_->counters().staleness.size(), kStalenessBins);
  EXPECT_EQ(lane_->counters().staleness[0], 40u);
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 40u);
  EXPECT_EQ(lane_->counters().staleness[32], 1u);
  EXPECT_EQ(Answer(1, Push(1, 2)).staleness(), 0u);
  EXPECT_EQ(Answer(0, Push(0, 41)).staleness(), 2u);
  EXPECT_EQ(lane_->counters().staleness[2], 1u);
}

TEST_F(ClockLaneTest, DropsWhatIsStalerThanAllowedByRankAndStillAnswersIt) {
  ClockLane::Options options;
  options.max_staleness = 2;
  MakeLane(options);
  Join();
  for (uint64_t clock = 1; clock <= 3; ++clock) Push(0, clock);
  const Message stale_answer = OutcomeMessage(1, Push(1, 1, "late"));
  EXPECT_TRUE(stale_answer.head.sum().at_clock().dropped());
  EXPECT_EQ(stale_answer.head.sum().at_clock().staleness(), 3u);
  EXPECT_EQ(stale_answer.head.sum().at_clock().total(), 3u);
  EXPECT_EQ(View(stale_answer.payload), "xxx");
  EXPECT_TRUE(Answer(1, Push(1, 1, "late")).dropped());  // The same push is sent again.
  EXPECT_EQ(lane_->counters().dropped, 1u);
  EXPECT_THAT(lane_->dropped(), ElementsAre(0, 1, 0));
  // This push is not too stale.
  EXPECT_EQ(View(OutcomeMessage(1, Push(1, 2, "y")).payload), "xxxy");
  EXPECT_EQ(Answer(0, Push(0, 4)).staleness(), 1u);
}

TEST_F(ClockLaneTest, CountsAPushThatAsksForNoWeights) {
  MakeLane();
  Join();
  const Message acknowledgement =
      OutcomeMessage(0, SendPush(0, 1, kFirstCell, "a", {.wants_weights = false}));
  EXPECT_TRUE(acknowledgement.payload.empty());
  EXPECT_EQ(acknowledgement.head.sum().at_clock().clock(), 1u);
  EXPECT_FALSE(acknowledgement.head.sum().at_clock().has_weights());
  EXPECT_TRUE(first_cell_->ranks_that_pulled.empty());
  EXPECT_EQ(first_cell_->pushed_text, "a");
  // The first push makes the second stale, because the rank did not get the weights that contain
  // the first.
  EXPECT_EQ(Answer(0, Push(0, 2, "b")).staleness(), 1u);
}

TEST_F(ClockLaneTest, AnswersAPullWithTheNewestWeightsAndTheNewestCountedClock) {
  MakeLane();
  Join();
  Push(0, 7, "a");
  SetMembers(2, {20, 11, 12});
  SendHello(0, 20);
  const Message pull_answer = OutcomeMessage(0, Pull(0, 20));
  EXPECT_EQ(View(pull_answer.payload), "a");
  EXPECT_EQ(pull_answer.head.sum().pulled().clock(), 7u);
  EXPECT_TRUE(pull_answer.head.sum().pulled().weights().whole());
  EXPECT_EQ(PullAnswer(1, Pull(1)).clock(), 0u);
  EXPECT_EQ(lane_->clocks(kFirstCell).total, 1u);
  // The staleness of rank 1's next push counts from the weights that the pull above gave rank 1.
  Push(2, 1);
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 1u);
}

TEST_F(ClockLaneTest, GivesTheMovingAverageWithoutCallingItTheWeightsOfTheRank) {
  MakeLane();
  Join();
  Push(0, 1, "a");
  const Message average = OutcomeMessage(1, PullAverage(1));
  EXPECT_EQ(View(average.payload), "average of a");
  EXPECT_TRUE(average.head.sum().pulled().has_average());
  EXPECT_EQ(Answer(1, Push(1, 1)).staleness(), 1u);
}

TEST_F(ClockLaneTest, ConfirmsAHeldOutcome) {
  MakeLane();
  Join();
  Message held_outcome;
  held_outcome.head.mutable_held_sum()->mutable_at_clock()->set_clock(3);
  held_outcome.payload = Text("x");
  Sends out;
  lane_->OnMessage(100, held_outcome, &out);
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kHeldSum, out).head.held_sum().at_clock().clock(),
            3u);
}

// The position must be the same on all servers, whichever pushes each has dropped or lost.
TEST_F(ClockLaneTest, HasThePositionOfTheCellThatIsFurthestBehind) {
  ClockLane::Options options;
  options.max_staleness = 1;
  MakeLane(options);
  Join();
  for (const Cell& cell : {kFirstCell, kSecondCell}) {
    for (uint32_t rank = 0; rank < 3; ++rank)
      SendPush(rank, 1, cell, "x", {.held_version = 0});  // Drops the push of rank 2.
  }
  EXPECT_EQ(lane_->total(), 2u);
  EXPECT_EQ(lane_->position(), 3u);
  SendPush(1, 5, kFirstCell, "x", {.held_version = 2});  // The pushes 2 to 4 were lost.
  EXPECT_EQ(lane_->position(), 3u);
  SendPush(1, 5, kSecondCell, "x", {.held_version = 2});
  EXPECT_EQ(lane_->total(), 3u);
  EXPECT_EQ(lane_->position(), 7u);
}

TEST_F(ClockLaneTest, HasNoPositionBeyondTheJob) {
  MakeLane();
  Join(/*steps=*/2);
  for (const Cell& cell : {kFirstCell, kSecondCell}) {
    for (uint64_t clock = 1; clock <= 8; ++clock) SendPush(0, clock, cell, "x", {});
  }
  EXPECT_EQ(lane_->total(), 8u);
  EXPECT_EQ(lane_->position(), 6u);
  for (const Cell& cell : {kFirstCell, kSecondCell}) {
    for (uint32_t rank = 0; rank < 3; ++rank) SendPush(rank, kMaxClock, cell, "x", {});
  }
  EXPECT_EQ(lane_->position(), kMaxClock - 5) << "it does not overflow";
}

TEST_F(ClockLaneTest, SaysStopToEveryoneOnceAllPushesOfTheJobHaveCome) {
  MakeLane();
  Join(2);  // A job of 2 steps with 3 workers has 6 pushes.
  EXPECT_EQ(lane_->target(), 6u);
  for (uint64_t clock = 1; clock <= 5; ++clock) EXPECT_FALSE(Answer(0, Push(0, clock)).stop());
  EXPECT_TRUE(Answer(1, Push(1, 1)).stop());
  EXPECT_TRUE(Answer(0, Push(0, 6)).stop());
  EXPECT_TRUE(PullAnswer(2, Pull(2)).stop());
  EXPECT_FALSE(Answer(0, SendPush(0, 1, kSecondCell, "x", {})).stop());
}

TEST_F(ClockLaneTest, RefusesAProcessWhoseRankHasPushedFurther) {
  MakeLane();
  Join();
  Push(0, 3);
  SetMembers(2, {20, 11, 12});
  SendHello(0, 20);
  const pb::Refuse refuse = Refusal(0, SendPush(0, 2, kFirstCell, "x", {.incarnation = 20}));
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("another process had it meanwhile"));
  SendPush(0, 4, kFirstCell, "x", {.incarnation = 20});
  EXPECT_EQ(Refusal(0, SendPush(0, 2, kFirstCell, "x", {.incarnation = 20})).then(),
            pb::Refuse::ignore);
}

TEST_F(ClockLaneTest, RefusesInvalidClocksAndUnexpectedPayloads) {
  MakeLane();
  Join();
  for (uint64_t clock : {kMaxClock + 1, ~uint64_t{0}})
    EXPECT_EQ(Refusal(0, Push(0, clock)).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, SendParting(0, 1, kFirstCell, "x")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, Pull(0, std::nullopt, 1, "x")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(3, SendPush(3, 1, kFirstCell, "x", {.incarnation = 10})).then(),
            pb::Refuse::ignore);
  EXPECT_EQ(Refusal(0, SendPush(~0u - 50, 1, kFirstCell, "x", {.incarnation = 10})).sentence(), "");
  EXPECT_EQ(lane_->counters().bad, 4u);
  EXPECT_EQ(lane_->clocks(kFirstCell).total, 0u);
  EXPECT_EQ(Push(0, kMaxClock).size(), 1u);
  EXPECT_EQ(SendHeldOutcome(0, ~uint64_t{0}).size(), 1u);
  EXPECT_EQ(PullAnswer(0, Pull(0)).clock(), kMaxClock);
}

TEST_F(ClockLaneTest, SaysWhichPullItAnswers) {
  MakeLane();
  Join();
  const pb::Outcome::Pulled pull_answer = PullAnswer(0, Pull(0, std::nullopt, 17));
  EXPECT_EQ(pull_answer.number(), 17u);
  EXPECT_EQ(pull_answer.clock(), 0u);
}

TEST_F(ClockLaneTest, RefusesAContributionWithoutAFormAndThoseOfRounds) {
  MakeLane();
  Join();
  const pb::Refuse refusal_of_formless =
      Refusal(0, SendMessage(0, FormlessContribution(0, std::nullopt, kFirstCell), "x"));
  EXPECT_EQ(refusal_of_formless.then(), pb::Refuse::leave);
  EXPECT_THAT(refusal_of_formless.sentence(), HasSubstr("no form: it says neither"));
  Message round_message = FormlessContribution(0, std::nullopt, kFirstCell),
          skip_message = round_message, late_message = round_message;
  round_message.head.mutable_push()->mutable_in_round()->set_round(1);
  skip_message.head.mutable_push()->mutable_skip()->set_round(1);
  late_message.head.mutable_push()->mutable_late()->set_round(1);
  EXPECT_EQ(Refusal(0, SendMessage(0, round_message, "x")).sentence(),
            "push of bucket 0, chunk 0, round 1 is of a round, and this lane has none");
  EXPECT_EQ(Refusal(0, SendMessage(0, skip_message, "")).then(), pb::Refuse::leave);
  EXPECT_EQ(Refusal(0, SendMessage(0, late_message, "")).then(), pb::Refuse::leave);
  EXPECT_EQ(lane_->counters().bad, 4u);
  EXPECT_TRUE(first_cell_->pushes.empty());
}

TEST_F(ClockLaneTest, RefusesAHeldOutcomeOfNoClock) {
  MakeLane();
  Join();
  Message held_outcome;
  held_outcome.head.mutable_held_sum();
  EXPECT_THAT(Refusal(0, SendMessage(0, held_outcome, "")).sentence(),
              HasSubstr("held outcome is of no clock"));
  held_outcome.head.mutable_held_sum()->mutable_of_round()->set_round(1);
  EXPECT_EQ(Refusal(0, SendMessage(0, held_outcome, "")).then(), pb::Refuse::leave);
}

TEST_F(ClockLaneTest, KeepsAndRestoresWhatItHasCounted) {
  MakeLane();
  Join();
  Push(0, 3);
  Push(1, 2);
  const CellClocks& clocks = lane_->clocks(kFirstCell);
  EXPECT_EQ(clocks.total, 2u);
  EXPECT_THAT(clocks.counted_clocks, ElementsAre(3, 2, 0));
  EXPECT_THAT(clocks.answered_versions, ElementsAre(1, 2, 0));
  // The lane's total of pushes is the least of its cells' totals. The second cell has no push.
  EXPECT_EQ(lane_->total(), 0u);
  const CellClocks saved_clocks = clocks;
  MakeLane();
  first_cell_->pushes.resize(2);
  lane_->Restore(kFirstCell, saved_clocks);
  Join();
  EXPECT_THAT(Refusal(0, Push(0, 2)).sentence(), HasSubstr("rank 0 is at 3"));
  EXPECT_EQ(Answer(0, Push(0, 4)).total(), 3u);
}

}  // namespace
}  // namespace tern::protocol::test

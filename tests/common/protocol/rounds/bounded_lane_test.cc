// Tests of a lane (server socket) without rounds that bounds how far a worker may be ahead of the
// slowest (algorithm ssp). A worker's clock is its own count of pushes.
#include "tests/common/protocol/rounds/clock_lane_testing.h"

namespace tern::protocol::test {
namespace {

class Ssp : public ClockLaneTest {
 protected:
  void MakeBoundedLane(uint64_t bound, uint64_t steps = 100) {
    ClockLane::Options options;
    options.max_clocks_ahead = bound;
    MakeLane(options);
    Join(steps);
  }
};

TEST_F(Ssp, DelaysTheAnswerToARankThatIsTooFarAhead) {
  MakeBoundedLane(1);
  // Rank 0 is one clock ahead, as the bound allows, so it is answered.
  EXPECT_EQ(Push(0, 1, "a").size(), 1u);
  EXPECT_TRUE(Push(0, 2, "b").empty());
  EXPECT_EQ(first_cell_->pushed_text, "ab");  // The push is counted, but not answered yet.
  EXPECT_TRUE(Push(0, 2, "b").empty());
  EXPECT_EQ(lane_->counters().repeated, 1u);
  EXPECT_EQ(lane_->num_waiting(), 1u);
  EXPECT_EQ(Push(1, 1, "c").size(), 1u);
  const Sends out = Push(2, 1, "d");
  const Message released_answer = OutcomeMessage(0, out);
  EXPECT_EQ(View(released_answer.payload), "abcd");  // The answer has the newest weights.
  EXPECT_EQ(released_answer.head.sum().at_clock().clock(), 2u);
  EXPECT_EQ(released_answer.head.sum().at_clock().staleness(), 0u);
  EXPECT_EQ(View(OutcomeMessage(2, out).payload), "abcd");
  EXPECT_EQ(lane_->num_waiting(), 0u);
}

TEST_F(Ssp, WithBoundZeroAnswersAllTogether) {
  MakeBoundedLane(0);
  EXPECT_TRUE(Push(0, 1, "a").empty());
  EXPECT_TRUE(Push(2, 1, "b").empty());
  const Sends out = Push(1, 1, "c");
  for (uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(View(OutcomeMessage(rank, out).payload), "abc");
}

TEST_F(Ssp, AnswersOnTheRanksNewestConnection) {
  MakeBoundedLane(0);
  Push(0, 1);
  SetMembers(2, {0, 11, 12});
  // Shard 0 decides on members. Its new process does not know that the previous one had given up
  // rank 0.
  SetMembers(3, {10, 11, 12});
  SendHello(0, 10);
  Push(0, 2);
  Message repeated_push = FormlessContribution(0, std::nullopt, kFirstCell);
  repeated_push.head.mutable_push()->mutable_at_clock()->set_clock(2);
  repeated_push.head.mutable_push()->mutable_at_clock()->set_wants_weights(true);
  Sends out;
  lane_->OnHello(200, HelloWithState(0, 10, 0, 1), &out);
  out.clear();
  lane_->OnMessage(200, repeated_push, &out);
  EXPECT_TRUE(out.empty());
  Push(1, 2);
  EXPECT_EQ(FirstMessageTo(200, pb::Envelope::kSum, Push(2, 2)).head.sum().at_clock().clock(), 2u);
}

TEST_F(Ssp, DoesNotWaitForARankThatHasLeft) {
  MakeBoundedLane(0);
  Push(0, 1);
  Push(1, 1);
  const Sends out = SetMembers(2, {10, 11, 0});
  EXPECT_EQ(MessagesTo(100, out).size(), 1u);
  EXPECT_EQ(MessagesTo(101, out).size(), 1u);
  EXPECT_EQ(Refusal(2, Push(2, 1)).then(), pb::Refuse::ignore);
  EXPECT_EQ(Refusal(2, SendPush(2, 1, kFirstCell, "x", {.incarnation = 0})).then(),
            pb::Refuse::ignore);
}

TEST_F(Ssp, DoesNotWaitForARankThatHasFinished) {
  MakeBoundedLane(0);
  Push(0, 1);
  Push(1, 1);
  const Sends out = SendParting(2, 1);
  EXPECT_EQ(MessagesTo(100, out).size(), 1u);
  EXPECT_EQ(MessagesTo(101, out).size(), 1u);
  EXPECT_TRUE(OutcomeMessage(2, out).payload.empty());
  EXPECT_EQ(lane_->counters().skipped, 1u);
  EXPECT_EQ(SendParting(2, 1).size(), 1u);  // the repeated message is acknowledged again
  EXPECT_EQ(lane_->counters().skipped, 1u);
  // The rank's next process takes part until that process, too, says that it has finished.
  SetMembers(2, {10, 11, 22});
  SendHello(2, 22);
  Push(0, 2);
  EXPECT_TRUE(Push(1, 2).empty());
}

TEST_F(Ssp, WaitsForAReplacedRankButNotForMissedClocksOfARemovedOne) {
  MakeBoundedLane(0);
  for (uint64_t clock = 1; clock <= 5; ++clock) {
    for (uint32_t rank = 0; rank < 3; ++rank) Push(rank, clock);
  }
  SetMembers(2, {10, 11, 22});
  SendHello(2, 22);
  Push(0, 6);
  EXPECT_TRUE(Push(1, 6).empty());
  SetMembers(3, {10, 11, 0});
  for (uint64_t clock = 7; clock <= 20; ++clock) {
    Push(0, clock);
    EXPECT_EQ(Push(1, clock).size(), 2u);
  }
  SetMembers(4, {10, 11, 32});
  SendHello(2, 32);
  EXPECT_EQ(PullAnswer(2, Pull(2, 32)).clock(), 20u);  // The rank continues from clock 20.
  Push(0, 21);
  EXPECT_TRUE(Push(1, 21).empty());
  EXPECT_EQ(SendPush(2, 21, kFirstCell, "x", {.incarnation = 32}).size(), 3u);
}

TEST_F(Ssp, ReleasesAllWhenTheJobIsDoneOrToStop) {
  MakeBoundedLane(0, 1);  // The job has 3 pushes.
  Push(0, 1);
  Push(0, 2);  // pushed although clock 1 is not answered yet
  const Sends out = Push(1, 1);
  EXPECT_TRUE(Answer(0, out).stop());
  EXPECT_TRUE(Answer(1, out).stop());
  MakeBoundedLane(0);
  Push(0, 1);
  Sends sends_on_stop;
  lane_->Stop(&sends_on_stop);
  EXPECT_TRUE(Answer(0, sends_on_stop).stop());
  EXPECT_TRUE(Answer(1, Push(1, 1)).stop());
  MakeBoundedLane(0);
  Push(0, 1);
  lane_->OnStop();
  EXPECT_TRUE(Answer(0, Push(1, 1)).stop());
}

TEST_F(Ssp, ARestartedServerLearnsClocksFromTheMembers) {
  ClockLane::Options options;
  options.max_clocks_ahead = 1;
  MakeLane(options);
  CellClocks clocks;
  clocks.total = 30;
  clocks.counted_clocks = {10, 10, 10};
  clocks.answered_versions = {28, 29, 30};
  for (WordsCell* words : {first_cell_, second_cell_}) words->pushes.resize(30);
  lane_->Restore(kFirstCell, clocks);
  lane_->Restore(kSecondCell, clocks);
  SetMembers(1, {10, 11, 12});
  for (uint32_t rank = 0; rank < 3; ++rank) SendHello(rank, 10 + rank, false);
  EXPECT_EQ(lane_->clocks(kFirstCell).total, 30u);
  // The previous server answered clock 13 of ranks 1 and 2. This server may answer rank 0's clock
  // 14 only after ranks 1 and 2 have shown it those answers.
  EXPECT_TRUE(Push(0, 14).empty());
  EXPECT_EQ(SendHeldOutcome(1, 13).size(), 1u);
  EXPECT_EQ(Answer(0, SendHeldOutcome(2, 13)).clock(), 14u);
  EXPECT_TRUE(Push(0, 15).empty());
  EXPECT_EQ(lane_->lost_clocks(), 3u);
  EXPECT_EQ(PullAnswer(2, Pull(2)).clock(), 13u);  // a new process continues from this clock
}

TEST_F(Ssp, LearnsFromAMemberThatItHasFinished) {
  MakeBoundedLane(0);
  Push(0, 7);
  Push(1, 7);
  const Sends out = SendHeldOutcome(2, 6, true);
  EXPECT_EQ(Answer(0, out).clock(), 7u);
  EXPECT_EQ(Answer(1, out).clock(), 7u);
  EXPECT_EQ(lane_->lost_clocks(), 5u);
  EXPECT_TRUE(SendHeldOutcome(9, 1).empty());  // Rank 9 is not a member.
}

TEST_F(Ssp, APushOfAClockCompletesThePreviousClockInEveryCell) {
  MakeBoundedLane(0);
  for (const Cell& cell : {kFirstCell, kSecondCell}) {
    for (uint32_t rank = 0; rank < 3; ++rank) SendPush(rank, 1, cell, "x", {});
  }
  for (uint32_t rank = 0; rank < 3; ++rank) Push(rank, 2);
  // Rank 2 dies before it pushes the second cell.
  SendPush(0, 2, kSecondCell, "x", {});
  EXPECT_TRUE(SendPush(1, 2, kSecondCell, "x", {}).empty());
  SetMembers(2, {10, 11, 22});
  SendHello(2, 22);
  EXPECT_EQ(PullAnswer(2, Pull(2, 22)).clock(), 2u);
  // Rank 2 has to wait for the others in the first cell (the weights of one chunk). The others wait
  // for rank 2 in the second cell, so rank 2's push to the first must release them.
  const Sends out = SendPush(2, 3, kFirstCell, "x", {.incarnation = 22});
  EXPECT_EQ(MessagesTo(100, out).size(), 1u);
  EXPECT_EQ(MessagesTo(101, out).size(), 1u);
  EXPECT_TRUE(MessagesTo(102, out).empty());
}

TEST_F(Ssp, WithoutItsSafeguardLetsAWorkerRunAhead) {
  ClockLane::Options options;
  options.max_clocks_ahead = 0;
  options.safeguards.delay_fast_workers = false;
  MakeLane(options);
  Join();
  EXPECT_EQ(Push(0, 1).size(), 1u);
  EXPECT_EQ(Push(0, 2).size(), 1u);
}

}  // namespace
}  // namespace tern::protocol::test

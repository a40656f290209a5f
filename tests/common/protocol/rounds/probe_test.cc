// Tests of what lanes (server sockets) answer to a probe: the hello with which a worker asks which
// of its contributions have come. A cell is one reduction over the workers.
#include <gmock/gmock.h>

#include "common/protocol/rounds/round_lane.h"
#include "tests/common/protocol/rounds/clock_lane_testing.h"

namespace tern::protocol::test {
namespace {

// What the lane answers when rank 0, with incarnation (number of its process) 10, says hello.
pb::Welcome AnswerTo(Lane* lane, bool is_probe) {
  pb::Hello hello = HelloWithState(0, 10, 0, 1);
  if (is_probe) hello.set_probe(5);
  Sends out;
  lane->OnHello(100, hello, &out);
  return FirstMessageTo(100, pb::Envelope::kWelcome, out).head.welcome();
}

void ExpectCountsOnly(const Cell& cell, uint64_t exchange, const pb::Welcome& answer) {
  EXPECT_EQ(answer.probe(), 5u);
  ASSERT_EQ(answer.counted_size(), 1);
  EXPECT_EQ(answer.counted(0).bucket(), cell.bucket);
  EXPECT_EQ(answer.counted(0).chunk(), cell.chunk);
  EXPECT_EQ(answer.counted(0).exchange(), exchange);
}

TEST(Probe, IsAnsweredWithWhatWaitsForOtherWorkersInARound) {
  RoundLane::Options options;
  options.workers = 2;
  RoundLane lane(std::move(options), {LetterCell(kFirstCell), LetterCell(kSecondCell)});
  Sends out;
  lane.OnMembers(MembersOf(1, {10, 11}), &out);
  for (uint32_t rank = 0; rank < 2; ++rank)
    lane.OnHello(100 + rank, HelloWithState(rank, 10 + rank, 0, 1), &out);
  const auto push = [&](uint32_t rank, const Cell& cell) {
    lane.OnMessage(100 + rank, ContributionOf({cell, 1, rank, 10 + rank, 0, 0, "x", 1}), &out);
  };
  push(0, kFirstCell);
  push(0, kSecondCell);
  push(1, kFirstCell);  // closes round 1 of this cell: the answer is on its way
  EXPECT_FALSE(AnswerTo(&lane, false).has_probe());
  EXPECT_EQ(AnswerTo(&lane, false).counted_size(), 0);
  ExpectCountsOnly(kSecondCell, 1, AnswerTo(&lane, true));
}

class ProbeOfClockLane : public ClockLaneTest {};

TEST_F(ProbeOfClockLane, IsAnsweredWithThePushesWhoseAnswersAreDelayed) {
  ClockLane::Options options;
  options.max_clocks_ahead = 0;
  MakeLane(options);
  Join();
  EXPECT_EQ(AnswerTo(lane_.get(), true).counted_size(), 0);
  Push(0, 1);  // The answer waits until the other workers have made as many pushes.
  ASSERT_EQ(lane_->num_waiting(), 1u);
  ExpectCountsOnly(kFirstCell, 1, AnswerTo(lane_.get(), true));
  EXPECT_EQ(AnswerTo(lane_.get(), false).counted_size(), 0);
}

}  // namespace
}  // namespace tern::protocol::test

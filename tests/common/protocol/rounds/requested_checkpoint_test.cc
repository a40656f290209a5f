// Tests that all daemons write a checkpoint after the same round when one is asked for (SIGUSR1): a
// daemon tells shard 0, a lane of shard 0 names the round, and workers mark their pushes of it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/protocol/rounds/round_lane.h"
#include "tests/common/protocol/members/session/session_fixture.h"
#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

constexpr Cell kOnlyCell{Kind::kPush, 0, 0};

// The first data lane of shard 0, with the members 0 and 1.
class DecidingLane {
 public:
  explicit DecidingLane(RoundLane::Options options) {
    options.workers = 2;
    options.incarnation = 7;
    options.decides_last_round = true;
    options.on_checkpoint_round = [this](uint64_t round) { marked_rounds.push_back(round); };
    lane_ = std::make_unique<RoundLane>(std::move(options), std::vector{LetterCell(kOnlyCell)});
    Sends out;
    lane_->OnMembers(MembersOf(1, {10, 11}), &out);
    for (uint32_t rank : {0u, 1u})
      lane_->OnHello(100 + rank, HelloWithState(rank, 10 + rank, 0, 1), &out);
  }
  // Both members push, with a mark or without. Returns OfRound.checkpoint_after.
  uint64_t Close(uint64_t round, bool is_marked = false) {
    Sends out;
    for (uint32_t rank : {0u, 1u}) {
      Message push = ContributionOf({kOnlyCell, round, rank, 10 + rank, round - 1, 0, "x", 1});
      push.head.mutable_push()->mutable_in_round()->set_checkpoint(is_marked);
      lane_->OnMessage(100 + rank, push, &out);
    }
    return CheckpointRoundOf(FirstMessageTo(100, pb::Envelope::kSum, out).head.sum());
  }
  RoundLane& lane() { return *lane_; }
  std::vector<uint64_t> marked_rounds;  // those of which the lane was told that they are marked

 private:
  std::unique_ptr<RoundLane> lane_;
};

TEST(RequestedCheckpoint, IsNamedOnceAndLiesAWindowAhead) {
  for (const uint32_t window : {1u, 2u}) {
    RoundLane::Options options;
    options.window = window;
    DecidingLane lane(options);
    EXPECT_EQ(lane.Close(1), 0u);
    lane.lane().OnCheckpointRequest();
    EXPECT_EQ(lane.Close(2), 2 + window);
    EXPECT_EQ(lane.Close(3), 0u);
  }
}

TEST(RequestedCheckpoint, LiesBehindTheOneBefore) {
  RoundLane::Options options;
  options.window = 2;
  DecidingLane lane(options);
  lane.lane().OnCheckpointRequest();
  EXPECT_EQ(lane.Close(1), 3u);
  lane.lane().OnCheckpointRequest();
  EXPECT_EQ(lane.Close(2), 0u);
  EXPECT_EQ(lane.Close(3), 0u);
  EXPECT_EQ(lane.Close(4), 6u);
}

TEST(RequestedCheckpoint, IsARegularOneThatIsDueSoon) {
  RoundLane::Options options;
  options.is_checkpoint_due = [](uint64_t first, uint64_t last) { return first <= 3 && 3 <= last; };
  DecidingLane lane(options);
  lane.lane().OnCheckpointRequest();
  EXPECT_EQ(lane.Close(1), 0u);
  EXPECT_EQ(lane.Close(2), 0u) << "the request is met by the checkpoint after round 3";
  lane.lane().OnCheckpointRequest();
  EXPECT_EQ(lane.Close(3), 4u);
}

TEST(RequestedCheckpoint, IsTheLastOneOfAJobThatStops) {
  DecidingLane lane({});
  lane.lane().OnStop();
  lane.lane().OnCheckpointRequest();
  EXPECT_EQ(lane.Close(1), 0u);
}

TEST(RequestedCheckpoint, LanesLearnOfItFromMarkedPushes) {
  DecidingLane lane({});
  lane.Close(1);
  lane.Close(2, /*is_marked=*/true);
  lane.Close(3);
  EXPECT_EQ(lane.marked_rounds, (std::vector<uint64_t>{2, 2}));
}

using RequestedCheckpointSession = SessionTest;

TEST_F(RequestedCheckpointSession, AWorkerTellsShard0AndMarksItsPushes) {
  JoinJob();
  session_->RequestCheckpoint();
  const auto beats = SentMessages(pb::Envelope::kHeartbeat, AdvanceTime(milliseconds(1000)));
  std::vector<uint64_t> requests;
  for (const auto& beat : beats)
    if (beat.lane == LaneRef{0, 0})
      requests.push_back(beat.message.head.heartbeat().checkpoint_requests());
  ASSERT_FALSE(requests.empty());
  EXPECT_EQ(requests.back(), 1u);

  const auto push = [this](uint64_t round) {
    SessionActions out;
    session_->Contribute({Kind::kPush, 0, 0}, {0, 1}, InRound{round, Text("x")}, now_, &out);
    return SentMessages(pb::Envelope::kPush, out)[0].message.head.push().in_round().checkpoint();
  };
  EXPECT_FALSE(push(1));
  Message sum;
  pb::Outcome::OfRound* of_round = sum.head.mutable_sum()->mutable_of_round();
  of_round->set_round(1);
  of_round->set_contributors(2);
  of_round->set_contributor_bits("\x03");
  of_round->set_checkpoint_after(2);
  sum.payload = Text("x");
  Deliver({0, 1}, sum);
  session_->SetApplied(1);
  EXPECT_TRUE(push(2));
}

TEST(RequestedCheckpoint, Shard0MeetsEachRequestOnceAndOnlyWhenTheJobRuns) {
  using Type = ControlAction::Type;
  Shard0 shard0(OnLoss::kWait);
  const auto beat = [&shard0](uint64_t requests) {
    Message message = HeartbeatMessage(0, 10, 0);
    message.head.mutable_heartbeat()->set_checkpoint_requests(requests);
    return Count(shard0.Deliver(100, message), Type::kCheckpoint);
  };
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  EXPECT_EQ(beat(1), 0) << "nothing runs that could be saved";
  shard0.Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_EQ(beat(1), 1);
  EXPECT_EQ(beat(1), 0);
  EXPECT_EQ(beat(3), 1);
}

}  // namespace
}  // namespace tern::protocol::test

// Tests of ClockLane::Check(): each test plants one fault, and expects the invariant that it
// breaks. A ClockLane is a server socket without rounds; a worker's clock is its own count of
// pushes.
#include <gmock/gmock.h>

#include "common/protocol/rounds/clock_lane.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

// Changes the private state of a lane, to break its invariants.
class ClockLanePeer {
 public:
  explicit ClockLanePeer(ClockLane* lane) : lane_(lane) {}
  ClockLaneState& state() { return lane_->state_; }
  CountedCell& cell() { return lane_->cells_.begin()->second; }
  CellClocks& clocks() { return cell().clocks_; }
  CountedCell::RankState& rank(uint32_t rank) { return cell().ranks_[rank].state; }
  bool Become(uint32_t rank, CountedCell::RankState next) { return cell().Become(rank, next); }

 private:
  ClockLane* lane_;
};

namespace test {
namespace {

using testing::HasSubstr;
using RankState = CountedCell::RankState;

constexpr Cell kTestCell{Kind::kPush, 0, 0};

// A cell (the weights of one chunk) for tests. Its weights are only the number of pushes.
class CountingCell : public ClockCell {
 public:
  Status Push(uint32_t, uint64_t, const Bytes&) override {
    ++version_;
    return Ok();
  }
  uint64_t version() const override { return version_; }
  Answer Pull(uint32_t, std::optional<uint64_t>) override { return {}; }
  Bytes Average() const override { return {}; }

 private:
  uint64_t version_ = 0;
};

// Two members, ranks 0 and 1 with incarnations (numbers of their processes) 10 and 11, whose clocks
// may differ by one. Both have pushed clock 1. Rank 0 has also pushed clocks 2 and 3; the answer to
// clock 3 waits for rank 1.
class ClockLaneInvariants : public testing::Test {
 protected:
  void SetUp() override {
    ClockLane::Options options;
    options.workers = 2;
    options.max_clocks_ahead = 1;
    std::vector<ClockCellSpec> cells;
    cells.push_back({kTestCell, std::make_unique<CountingCell>()});
    lane_ = std::make_unique<ClockLane>(std::move(options), std::move(cells));
    peer_ = std::make_unique<ClockLanePeer>(lane_.get());
    Sends out;
    lane_->OnMembers(MembersOf(1, {10, 11}), &out);
    for (uint32_t rank : {0, 1})
      lane_->OnHello(100 + rank, HelloWithState(rank, 10 + rank, 0, 1), &out);
    for (const auto& [rank, clock] : {std::pair{0, 1}, {1, 1}, {0, 2}, {0, 3}}) {
      Message push = ContributionOf({kTestCell, 0, static_cast<uint32_t>(rank), 10u + rank});
      push.head.mutable_push()->mutable_at_clock()->set_clock(clock);
      push.head.mutable_push()->mutable_at_clock()->set_wants_weights(true);
      lane_->OnMessage(100 + rank, push, &out);
    }
    ASSERT_EQ(lane_->num_waiting(), 1u);
    ASSERT_EQ(lane_->Check().message(), "");
  }
  std::string BrokenInvariant() const {
    const Status check_status = lane_->Check();
    EXPECT_EQ(check_status.code(), Code::kInternal);
    return check_status.message();
  }

  std::unique_ptr<ClockLane> lane_;
  std::unique_ptr<ClockLanePeer> peer_;
};

TEST_F(ClockLaneInvariants, OneWhoWaitsThoughTheOthersHaveCome) {
  peer_->rank(1) = RankState::kParted;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("clock 3: rank 0 waits at clock 3, and the least is 3"));
  lane_->OnStop();  // the next message releases the waiting answer
  EXPECT_EQ(lane_->Check().message(), "");
}

TEST_F(ClockLaneInvariants, OneWhoWaitsAndIsNoMember) {
  peer_->state().members = LaneMembers(2);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("rank 0 waits, and is no member"));
}

TEST_F(ClockLaneInvariants, OneWhoWaitsAtALaneThatIsNotOpen) {
  peer_->state().is_open = false;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("1 ranks wait, and the lane is not open"));
}

TEST_F(ClockLaneInvariants, AClockBeyondTheRanksNewest) {
  peer_->rank(0) = RankState::kTraining;
  peer_->clocks().counted_clocks[1] = 2;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("clock 2: rank 1 is at clock 2, and its newest is 1"));
}

TEST_F(ClockLaneInvariants, ANewestClockThatNoCellHasCounted) {
  peer_->state().newest_clocks[1] = 9;
  peer_->rank(0) = RankState::kTraining;
  EXPECT_EQ(BrokenInvariant(), "lane: rank 1 is at clock 9, and its cells have counted 1");
}

TEST_F(ClockLaneInvariants, AnImpossibleClock) {
  peer_->rank(0) = RankState::kTraining;
  peer_->clocks().counted_clocks[1] = peer_->state().newest_clocks[1] = kMaxClock + 1;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("rank 1 is at a clock that is none: at most"));
}

TEST_F(ClockLaneInvariants, AnAnswerNewerThanTheWeights) {
  peer_->clocks().answered_versions[1] = 5;
  EXPECT_THAT(BrokenInvariant(),
              HasSubstr("rank 1 was answered with version 5, and the weights are at 4"));
}

TEST_F(ClockLaneInvariants, MorePushesThanClocks) {
  peer_->clocks().total = 5;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("counts 5 pushes, and its clocks are 4 together"));
}

TEST_F(ClockLaneInvariants, APushWithoutAStaleness) {
  ++peer_->state().counters.counted;
  EXPECT_EQ(BrokenInvariant(), "lane: 4 pushes have a staleness, and 5 came");
}

TEST_F(ClockLaneInvariants, ADroppedPushThatTheTotalDoesNotCount) {
  ++peer_->state().num_dropped[1];
  EXPECT_EQ(BrokenInvariant(), "lane: dropped 1 pushes by rank, and 0 in all");
}

TEST_F(ClockLaneInvariants, AnImpossibleTransition) {
  peer_->rank(1) = RankState::kParted;
  const auto begin_waiting = [this] { EXPECT_FALSE(peer_->Become(1, RankState::kWaiting)); };
  EXPECT_EQ(InvariantBrokenBy(begin_waiting), "rank 1 that is parted cannot become waiting");
  EXPECT_EQ(peer_->rank(1), RankState::kParted);
}

TEST_F(ClockLaneInvariants, ACallerThatSaysOneThingAndDoesAnother) {
  pb::Contribution contribution;
  contribution.mutable_at_clock()->set_clock(4);
  Sends out;
  EXPECT_THAT(InvariantBrokenBy([&] { peer_->cell().OnPull(100, contribution, &out); }),
              HasSubstr("rank 0 pulls, and"));
  EXPECT_THAT(InvariantBrokenBy([&] { peer_->cell().OnParting(100, contribution, &out); }),
              HasSubstr("rank 0 parts, and"));
  contribution.mutable_parting()->set_clock(4);
  EXPECT_THAT(InvariantBrokenBy([&] { peer_->cell().OnPush(100, contribution, {}, &out); }),
              HasSubstr("rank 0 pushes, and"));
  const CellClocks clocks = lane_->clocks(kTestCell);
  EXPECT_THAT(InvariantBrokenBy([&] { lane_->Restore(kTestCell, clocks); }),
              HasSubstr("restored after 4 pushes"));
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol

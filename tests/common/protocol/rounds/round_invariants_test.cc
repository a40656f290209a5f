// Tests of RoundLane::Check(): each test plants one fault, and expects the invariant that it
// breaks. A RoundLane is a server socket with rounds. A cell is what is added up over the workers
// in each round; a slot is a cell in one round.
#include <gmock/gmock.h>

#include "common/base/invariants.h"
#include "common/protocol/rounds/round_lane.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

// Changes the private state of a lane, to break its invariants.
class RoundLanePeer {
 public:
  using Slots = std::map<uint64_t, RoundSlot>;

  explicit RoundLanePeer(RoundLane* lane) : lane_(lane) {}
  RoundLaneState& state() { return lane_->state_; }
  Slots& slots() { return lane_->cells_.begin()->second.slots_; }
  CellSpec& spec() { return lane_->cells_.begin()->second.spec_; }
  RoundSlot& slot(uint64_t round) { return slots().at(round); }
  static uint32_t& contributors(RoundSlot* slot) { return slot->num_contributors_; }
  static std::vector<uint64_t>& arrived(RoundSlot* slot) { return slot->arrived_incarnations_; }
  static std::unique_ptr<CellSum>& sum(RoundSlot* slot) { return slot->sum_; }
  static Bytes& payload(RoundSlot* slot) { return slot->payload_; }
  static RoundSlot::State& state(RoundSlot* slot) { return slot->state_; }

 private:
  RoundLane* lane_;
};

namespace test {
namespace {

using testing::HasSubstr;
using SlotState = RoundSlot::State;

constexpr Cell kTestCell{Kind::kPush, 0, 0};

// Two members, ranks 0 and 1, with incarnations 10 and 11. Round 1 has closed, and rank 0 has
// contributed to round 2.
class RoundLaneInvariants : public testing::Test {
 protected:
  void SetUp() override { MakeLane({}, false); }
  void MakeLane(RoundLane::Options options, bool is_for_members_only) {
    options.workers = 2;
    options.window = 2;
    CellSpec spec = LetterCell(kTestCell);
    spec.is_for_members_only = is_for_members_only;
    lane_ = std::make_unique<RoundLane>(std::move(options), std::vector{spec});
    peer_ = std::make_unique<RoundLanePeer>(lane_.get());
    Sends out;
    lane_->OnMembers(MembersOf(1, {10, 11}), &out);
    for (uint32_t rank : {0, 1})
      lane_->OnHello(100 + rank, HelloWithState(rank, 10 + rank, 0, 1), &out);
    Push(0, 1);
    Push(1, 1);
    Push(0, 2);
    ASSERT_EQ(lane_->Check().message(), "");
  }
  void Push(uint32_t rank, uint64_t round) {
    Sends out;
    lane_->OnMessage(100 + rank, ContributionOf({kTestCell, round, rank, 10 + rank, 0, 0, "x"}),
                     &out);
  }
  // Returns the message of Check(), which must find a broken invariant.
  std::string BrokenInvariant() const {
    const Status check_status = lane_->Check();
    EXPECT_EQ(check_status.code(), Code::kInternal);
    return check_status.message();
  }

  std::unique_ptr<RoundLane> lane_;
  std::unique_ptr<RoundLanePeer> peer_;
};

TEST_F(RoundLaneInvariants, ACountThatIsNotThatOfTheSum) {
  ++RoundLanePeer::contributors(&peer_->slot(2));
  EXPECT_EQ(BrokenInvariant(),
            "push of bucket 0, chunk 0, round 2: counts 2 contributors, and has 1 in its sum");
}

TEST_F(RoundLaneInvariants, AContributorWhoHasNotCome) {
  RoundLanePeer::arrived(&peer_->slot(2))[0] = 0;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 2: rank 0 is in the sum, and has not come"));
}

TEST_F(RoundLaneInvariants, AnOpenSlotWithoutASum) {
  RoundLanePeer::sum(&peer_->slot(2)).reset();
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 2: open, and has 0 sums"));
}

TEST_F(RoundLaneInvariants, AClosedSlotWithASum) {
  RoundLanePeer::sum(&peer_->slot(1)) = std::make_unique<LetterSum>();
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 1: closed, and has 1 sums"));
}

TEST_F(RoundLaneInvariants, AnAnswerOfAnOpenSlot) {
  RoundLanePeer::payload(&peer_->slot(2)) = Text("xx");
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 2: open, and has an answer of 2 bytes"));
}

TEST_F(RoundLaneInvariants, ASlotThatNobodyOpened) {
  peer_->slots().try_emplace(3, 2);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 3: kept, but neither open nor closed"));
}

TEST_F(RoundLaneInvariants, AnOutcomeOfAnotherPlace) {
  peer_->slot(1).outcome().mutable_of_round()->set_round(9);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 1: its outcome is of round 9"));
  peer_->slot(1).outcome().mutable_of_round()->set_round(1);
  peer_->slot(1).outcome().set_chunk(7);
  EXPECT_THAT(BrokenInvariant(),
              HasSubstr("chunk 0, round 1: its outcome is of bucket 0, chunk 7"));
}

TEST_F(RoundLaneInvariants, AnOutcomeOfOthers) {
  peer_->slot(1).outcome().mutable_of_round()->set_contributors(1);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("its outcome tells of 1 contributors, it has 2"));
  peer_->slot(1).outcome().mutable_of_round()->set_contributors(2);
  peer_->slot(1).outcome().mutable_of_round()->set_contributor_bits("\x01");
  EXPECT_THAT(BrokenInvariant(),
              HasSubstr("rank 1 is in the sum, and its outcome does not name it"));
  peer_->slot(1).outcome().mutable_of_round()->set_contributor_bits("\x03");
  EXPECT_EQ(lane_->Check().message(), "");
}

TEST_F(RoundLaneInvariants, ARoundAtTheFloorThatIsKept) {
  peer_->state().floor = 1;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 1: kept, and the floor is 1"));
}

TEST_F(RoundLaneInvariants, AFloorBehindWhatAllHaveApplied) {
  for (uint32_t rank : {0, 1})
    LaneMembers::SetApplied(peer_->state().members.FindMember(rank, 10 + rank, true), 3);
  EXPECT_EQ(BrokenInvariant(), "lane: its floor is 0, and every member has applied 3");
}

TEST_F(RoundLaneInvariants, MoreRoundsThanItMayKeep) {
  for (uint64_t round = 3; round <= 7; ++round) {
    RoundSlot& slot = peer_->slots().try_emplace(round, 2).first->second;
    slot.Open(std::make_unique<LetterSum>());
  }
  EXPECT_THAT(BrokenInvariant(), HasSubstr("keeps 7 rounds, at most 6"));
}

TEST_F(RoundLaneInvariants, ARoundThatHasEnoughAndStaysOpen) {
  RoundLanePeer::arrived(&peer_->slot(2))[1] = 11;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 2: open, and has enough of 1 contributors"));
}

TEST_F(RoundLaneInvariants, AGapBetweenTheClosedRoundsOfACellThatTakesPartInEvery) {
  peer_->spec().closes_every_round = true;
  const auto close_round = [this](uint64_t round) {
    RoundSlot& slot = peer_->slots().try_emplace(round, 2).first->second;
    slot.Open(std::make_unique<LetterSum>());
    slot.Close(false);
    slot.outcome().mutable_of_round()->set_round(round);
  };
  close_round(3);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 3: closed, and round 2 has not"));
  peer_->slots().erase(2);
  EXPECT_THAT(BrokenInvariant(), HasSubstr("round 3: closed, and round 2 has not"));
  close_round(2);
  EXPECT_EQ(lane_->Check().message(), "");
}

TEST_F(RoundLaneInvariants, SlotsOfALaneThatIsNotOpen) {
  peer_->state().is_open = false;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("keeps 2 rounds, and the lane is not open"));
}

TEST_F(RoundLaneInvariants, SomebodyTurnedAwayWhereRoundsWaitForAll) {
  peer_->state().refused_for_now[1] = true;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("turned rank 1 away"));
}

TEST_F(RoundLaneInvariants, AContributorToACellOfMembersWhoIsNoneAnyMore) {
  RoundLane::Options options;
  options.shrink = true;
  MakeLane(std::move(options), true);
  RoundLanePeer::arrived(&peer_->slot(2))[0] = 77;
  EXPECT_THAT(BrokenInvariant(), HasSubstr("rank 0 contributed as 77, and is a member as 10"));
}

TEST(RoundSlot, RefusesImpossibleTransitions) {
  RoundSlot slot(2);
  EXPECT_EQ(InvariantBrokenBy([&] { slot.Close(false); }),
            "a slot that is new cannot become closed");
  EXPECT_EQ(slot.state(), SlotState::kNew);
  slot.Open(std::make_unique<LetterSum>());
  slot.Close(false);
  EXPECT_EQ(InvariantBrokenBy([&] { slot.Open(std::make_unique<LetterSum>()); }),
            "a slot that is closed cannot become open");
  EXPECT_EQ(InvariantBrokenBy([&] { slot.Restore({}, {}); }),
            "a slot that is closed cannot become restored");
  EXPECT_EQ(slot.state(), SlotState::kClosed);
}

TEST(RoundSlot, ChecksTheArgumentsOfItsCallers) {
  RoundSlot slot(2);
  slot.Open(std::make_unique<LetterSum>());
  ASSERT_TRUE(slot.Add({{0, 10}}, {0, 10}, 5, Text("x")).ok());
  EXPECT_EQ(InvariantBrokenBy([&] {
              (void)slot.Add({{0, 10}}, {0, 10}, 5, Text("x"));
            }),
            "rank 0 is added twice");
  EXPECT_EQ(InvariantBrokenBy([&] {
              (void)slot.Add({{1, 11}}, {1, 11}, 6, Text("x"));
            }),
            "rank 1 used scalers 6, others 5");
  EXPECT_THAT(InvariantBrokenBy([&] { slot.MarkArrived(0, 10); }), HasSubstr("rank 0 comes again"));
}

TEST(Invariants, AreCheckedAtTheEndOfAnEventWhereSomebodyHears) {
  RoundLane lane({}, {LetterCell(kTestCell)});
  RoundLanePeer(&lane).state().refused_for_now[0] = true;
  Sends out;
  const auto deliver_members = [&] { lane.OnMembers(MembersOf(1, {10}), &out); };
  EXPECT_THAT(InvariantBrokenBy(deliver_members), HasSubstr("turned rank 0 away"));
  const InvariantHandler previous_handler = SetInvariantHandler(nullptr);
  deliver_members();  // as in a release build, nothing is checked
  SetInvariantHandler(previous_handler);
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol

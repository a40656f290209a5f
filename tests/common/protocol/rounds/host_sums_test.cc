// Tests of the two ends of a host's sums: RoundLane, which adds what a leader of a host sends for
// several workers, and Exchange, which gives pushes to the leader first, and to the servers if that
// is in vain.
#include <gmock/gmock.h>

#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/round_lane.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Cell kSummedCell{Kind::kPush, 0, 0};
constexpr LaneRef kPushLane{0, 1};

// Four members with incarnations 10 to 13 and peers (connections) 100 to 103. Rank 1 leads ranks 0
// to 2.
class HostSumsTest : public testing::Test {
 protected:
  void SetUp() override { MakeLane({}); }
  void MakeLane(RoundLane::Options options, bool adds_partial_sums = true) {
    options.workers = 4;
    options.incarnation = 7;
    CellSpec spec = LetterCell(kSummedCell);
    spec.adds_partial_sums = adds_partial_sums;
    lane_ = std::make_unique<RoundLane>(std::move(options), std::vector{spec});
    Sends out;
    lane_->OnMembers(MembersOf(1, {10, 11, 12, 13}), &out);
    for (uint32_t rank = 0; rank < 4; ++rank)
      lane_->OnHello(100 + rank, HelloWithState(rank, 10 + rank, 0, 1), &out);
  }
  // The pushes of these ranks, in one sum that rank 1 sends.
  Sends PushSum(const std::vector<uint32_t>& ranks, uint64_t round = 1, uint64_t digest = 0,
                const std::string& payload = "") {
    Message message = ContributionOf({kSummedCell, round, 1, 11, round - 1, digest,
                                      payload.empty() ? std::string(ranks.size(), 'x') : payload});
    for (const uint32_t rank : ranks) {
      auto* each = message.head.mutable_push()->mutable_in_round()->add_of();
      each->set_rank(rank);
      each->set_incarnation(incarnations_[rank]);
    }
    Sends out;
    lane_->OnMessage(101, message, &out);
    return out;
  }
  Sends Push(uint32_t rank, uint64_t round = 1, uint64_t digest = 0) {
    Sends out;
    lane_->OnMessage(100 + rank,
                     ContributionOf({kSummedCell, round, rank, 10 + rank, round - 1, digest, "x"}),
                     &out);
    return out;
  }
  // Who gets what: "101 sum xxxx", "102 again".
  static std::vector<std::string> Words(const Sends& sends) {
    std::vector<std::string> words;
    for (const Send& send : sends) {
      const pb::Envelope& head = send.message.head;
      words.push_back(std::to_string(send.to) + " " +
                      (head.has_sum() ? "sum " + View(send.message.payload)
                                      : pb::Refuse::Then_Name(head.refuse().then())));
    }
    return words;
  }

  std::vector<uint64_t> incarnations_ = {10, 11, 12, 13};
  std::unique_ptr<RoundLane> lane_;
};

TEST_F(HostSumsTest, ASumCountsForAllItsRanksAndOnlyItsSenderIsAnswered) {
  EXPECT_THAT(PushSum({0, 1, 2}), IsEmpty());
  EXPECT_THAT(Words(Push(3)), ElementsAre("101 sum xxxx", "103 sum xxxx"));
  EXPECT_EQ(lane_->counters().counted, 4u);
  EXPECT_EQ(lane_->counters().host_sums, 1u);
  // Who asks is answered.
  EXPECT_THAT(Words(Push(2)), ElementsAre("102 sum xxxx"));
  EXPECT_THAT(Words(PushSum({0, 1, 2})),
              ElementsAre("100 sum xxxx", "101 sum xxxx", "102 sum xxxx"));
}

TEST_F(HostSumsTest, TheOutcomeNamesTheRanksAndTheFloorFollowsThem) {
  PushSum({0, 1, 2});
  const Sends sends = Push(3);
  const pb::Outcome::OfRound& of_round = sends[0].message.head.sum().of_round();
  EXPECT_EQ(of_round.contributors(), 4u);
  EXPECT_EQ(of_round.contributor_bits(), "\x0F");
  PushSum({0, 1, 2}, 2);
  Push(3, 2);
  PushSum({0, 1, 2}, 3);
  Push(3, 3);
  EXPECT_EQ(lane_->floor(), 2u);
}

TEST_F(HostSumsTest, TheLeaderMaySendForOthersOnly) {
  PushSum({0, 2});
  Push(1);
  EXPECT_THAT(Words(Push(3)), ElementsAre("101 sum xxxx", "103 sum xxxx"));
}

TEST_F(HostSumsTest, ASumOfRanksThatHaveCountedIsARepetition) {
  Push(0);
  Push(2);
  EXPECT_THAT(PushSum({0, 2}), IsEmpty());
  EXPECT_EQ(lane_->counters().repeated, 1u);
  Push(1);
  EXPECT_THAT(Words(Push(3)),
              ElementsAre("100 sum xxxx", "101 sum xxxx", "102 sum xxxx", "103 sum xxxx"));
}

TEST_F(HostSumsTest, ASumOfWhichSomeHaveCountedIsNotAddedAndTheOthersRepeatTheirs) {
  Push(0);
  EXPECT_THAT(Words(PushSum({0, 1, 2})), ElementsAre("101 again", "102 again"));
  EXPECT_EQ(lane_->counters().split, 1u);
  EXPECT_EQ(lane_->counters().counted, 1u);
  Push(1);
  Push(2);
  EXPECT_EQ(Words(Push(3)).size(), 4u);
}

TEST_F(HostSumsTest, ASumWithARankThatIsNoMemberAnyMoreIsNotAdded) {
  incarnations_[2] = 99;
  EXPECT_THAT(Words(PushSum({0, 1, 2})), ElementsAre("100 again", "101 again"));
  EXPECT_EQ(lane_->counters().split, 1u);
  EXPECT_EQ(lane_->counters().counted, 0u);
}

TEST_F(HostSumsTest, IfTheSenderIsGoneItsRanksAreAnsweredThemselves) {
  RoundLane::Options options;
  options.shrink = true;
  MakeLane(std::move(options));
  PushSum({0, 1, 2});
  Sends out;
  lane_->OnMembers(MembersOf(2, {10, 0, 12, 13}), &out);
  EXPECT_THAT(Words(Push(3)), ElementsAre("100 sum xxxx", "102 sum xxxx", "103 sum xxxx"));
}

TEST_F(HostSumsTest, AnInvalidSumIsRefused) {
  const Sends sends = PushSum({0, 1, 2}, 1, 0, "xx");
  EXPECT_THAT(Words(sends), ElementsAre("101 leave"));
  EXPECT_THAT(sends[0].message.head.refuse().sentence(), HasSubstr("not an x of each"));
  EXPECT_THAT(Words(PushSum({2, 0})), ElementsAre("101 leave"));
  EXPECT_THAT(Words(PushSum({1, 1})), ElementsAre("101 leave"));
  incarnations_.resize(6);
  EXPECT_THAT(Words(PushSum({1, 5})), ElementsAre("101 leave"));
}

TEST_F(HostSumsTest, AJobWithoutHostSumsRefusesThem) {
  MakeLane({}, /*adds_partial_sums=*/false);
  const Sends sends = PushSum({0, 1, 2});
  EXPECT_THAT(Words(sends), ElementsAre("101 leave"));
  EXPECT_THAT(sends[0].message.head.refuse().sentence(), HasSubstr("exchange.host_sum: false"));
}

TEST_F(HostSumsTest, ASumOfOtherScalersIsOneOfEachOfItsRanks) {
  PushSum({0, 1, 2}, 1, 5);
  const Sends sends = Push(3, 1, 6);
  EXPECT_THAT(Words(sends), ElementsAre("103 leave"));
  MakeLane({});
  Push(3, 1, 6);
  EXPECT_THAT(Words(PushSum({0, 1, 2}, 1, 5)),
              ElementsAre("100 again", "101 again", "102 again", "103 leave"));
}

// A worker of rank 3 that has pushed, or pushes, in round 1 on one lane.
class HostExchangeTest : public testing::Test {
 protected:
  HostExchangeTest() : exchange_({3, 33, 100, milliseconds(300)}) {
    Messages out;
    exchange_.OnLaneUp(kPushLane, 7, Time(0), &out);
  }
  using Messages = std::vector<Exchange::Outgoing>;
  Messages SetHasLeader(bool has_leader) {
    Messages out;
    exchange_.OnLeader(has_leader ? Exchange::Leader::kPresent : Exchange::Leader::kNone, Time(0),
                       &out);
    return out;
  }
  Messages Contribute(const Cell& cell, uint64_t round = 1) {
    Messages out;
    exchange_.Contribute(cell, {0, cell.kind == Kind::kPush ? 1u : 0u},
                         InRound{round, Text("x"), 9}, Time(0), &out);
    return out;
  }
  // "leader push 0", "leader skip 0", "lane push 0", by chunk.
  static std::vector<std::string> Words(const Messages& messages) {
    std::vector<std::string> words;
    for (const Exchange::Outgoing& each : messages) {
      const pb::Contribution& c = each.message.head.push();
      words.push_back(std::string(each.to_leader ? "leader " : "lane ") +
                      (c.has_skip() ? "skip " : "push ") + std::to_string(c.chunk()));
    }
    return words;
  }
  Exchange exchange_;
};

TEST_F(HostExchangeTest, PushesGoToTheLeaderWhileThereIsOne) {
  EXPECT_THAT(Words(Contribute({Kind::kPush, 0, 0})), ElementsAre("lane push 0"));
  EXPECT_THAT(SetHasLeader(true), IsEmpty());
  EXPECT_THAT(Words(Contribute({Kind::kPush, 0, 1})), ElementsAre("leader push 1"));
  EXPECT_THAT(Words(SetHasLeader(false)), ElementsAre("lane push 1"));
  EXPECT_EQ(exchange_.counts().left_host, 1u);
  EXPECT_THAT(SetHasLeader(false), IsEmpty());
  EXPECT_THAT(Words(Contribute({Kind::kPush, 0, 2})), ElementsAre("lane push 2"));
}

TEST_F(HostExchangeTest, OnlyPushesGoToTheLeader) {
  SetHasLeader(true);
  Messages out;
  exchange_.OnLaneUp({0, 0}, 7, Time(0), &out);
  const Messages scale = Contribute({Kind::kScale, 0, 0});
  ASSERT_EQ(scale.size(), 1u);
  EXPECT_FALSE(scale[0].to_leader);
  out.clear();
  // The leader hears that a push does not come.
  exchange_.Contribute({Kind::kPush, 0, 0}, kPushLane, Skip{1}, Time(0), &out);
  EXPECT_THAT(Words(out), ElementsAre("leader skip 0", "lane skip 0"));
}

TEST_F(HostExchangeTest, WhatIsSentAgainGoesToTheLaneAndTheLeaderHearsOfIt) {
  SetHasLeader(true);
  Contribute({Kind::kPush, 0, 0});
  Messages out;
  exchange_.OnLaneDown(kPushLane);
  exchange_.OnLaneUp(kPushLane, 7, Time(0), &out);
  EXPECT_THAT(Words(out), ElementsAre("leader skip 0", "lane push 0"));
  out.clear();
  exchange_.OnRoomAgain(kPushLane, Time(0), &out);
  EXPECT_THAT(Words(out), ElementsAre("lane push 0"));
  EXPECT_EQ(exchange_.counts().left_host, 1u);
}

TEST_F(HostExchangeTest, WhatAProbeFindsLostGoesToTheLane) {
  SetHasLeader(true);
  Contribute({Kind::kPush, 0, 0});
  Contribute({Kind::kPush, 0, 1});
  Messages out;
  EXPECT_THAT(exchange_.TakeSilentLanes(milliseconds(300)), ElementsAre(kPushLane));
  exchange_.OnProbeAnswered(kPushLane, milliseconds(300), {{1, {Kind::kPush, 0, 0}}},
                            milliseconds(310), &out);
  EXPECT_THAT(Words(out), ElementsAre("leader skip 1", "lane push 1"));
}

TEST_F(HostExchangeTest, WhatTheLeaderRefusesGoesToTheLane) {
  SetHasLeader(true);
  Contribute({Kind::kPush, 0, 0});
  Messages out;
  exchange_.OnLeader(Exchange::Leader::kRefuses, Time(0), &out);
  EXPECT_THAT(Words(out), ElementsAre("leader skip 0", "lane push 0"));
  EXPECT_THAT(Words(Contribute({Kind::kPush, 0, 0}, 2)), ElementsAre("leader push 0"));
}

}  // namespace
}  // namespace tern::protocol::test

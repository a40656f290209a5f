// Tests of HostLeader: the worker that adds up the pushes of its host's workers. A cell is what is
// added up over the workers in each round. The sum of letters is the letters, in rank order.
#include "common/protocol/rounds/host_leader.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

class HostLeaderPeer {
 public:
  using Key = HostLeader::Key;
  static void AddWaiting(HostLeader* leader, const Key& key, uint32_t rank) {
    leader->sums_[key].waiting[rank] = {};
  }
  static void SetGathering(HostLeader* leader, const Key& key) {
    leader->sums_[key].state = HostLeader::State::kGathering;
  }
  static void SetGone(HostLeader* leader, const Key& key, uint32_t rank) {
    leader->sums_[key].gone.insert(rank);
  }
  static void SetApplied(HostLeader* leader, uint64_t applied) { leader->applied_ = applied; }
};

namespace test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr Cell kCell{Kind::kPush, 0, 0}, kOtherCell{Kind::kPush, 0, 1};
constexpr Time kPatience = milliseconds(2000);

// Rank 1 of 4 leads. Incarnations are 10 + rank.
class HostLeaderTest : public testing::Test {
 protected:
  HostLeaderTest()
      : leader_({1, 4, kPatience, [](const Cell& cell) { return cell.chunk < 2; },
                 [](const Cell&, uint64_t) { return std::make_unique<LetterSum>(); }}) {}

  using Actions = HostLeader::Actions;
  Actions Push(uint32_t rank, uint64_t round, const Cell& cell = kCell, uint64_t digest = 9,
               const std::string& payload = "x", Time now = Time(0)) {
    Actions out;
    leader_.OnPush(
        ContributionOf({cell, round, rank, incarnations_[rank], round - 1, digest, payload, rank}),
        now, &out);
    return out;
  }
  Actions Skip(uint32_t rank, uint64_t round) {
    Message message = ContributionOf({kCell, round, rank, incarnations_[rank], round - 1, 0, ""});
    message.head.mutable_push()->mutable_skip()->set_round(round);
    Actions out;
    leader_.OnPush(message, Time(0), &out);
    return out;
  }
  Actions Answer(uint64_t round, const Cell& cell = kCell) {
    Message answer;
    pb::Outcome* sum = answer.head.mutable_sum();
    sum->set_bucket(cell.bucket);
    sum->set_chunk(cell.chunk);
    sum->mutable_of_round()->set_round(round);
    Actions out;
    leader_.OnAnswer(answer, &out);
    return out;
  }
  // Ranks 0, 1 and 2 push in round 1, so that they are expected from round 2 on.
  void LearnAll() {
    for (const uint32_t rank : {1, 0, 2}) Push(rank, 1);
    leader_.SetApplied(1);
  }
  // "send 0,2: xx", "forward 2", "release 0".
  static std::vector<std::string> Words(const Actions& actions) {
    std::vector<std::string> words;
    for (const HostLeader::Action& action : actions) {
      if (action.type != HostLeader::Action::Type::kSend) {
        const bool is_answer = action.type == HostLeader::Action::Type::kForward;
        words.push_back((is_answer ? "forward " : "release ") + std::to_string(action.rank));
        continue;
      }
      std::string ranks;
      for (const auto& each : action.message.head.push().in_round().of())
        ranks += (ranks.empty() ? "" : ",") + std::to_string(each.rank());
      words.push_back("send " + (ranks.empty() ? "own" : ranks) + ": " +
                      View(action.message.payload));
    }
    return words;
  }

  std::vector<uint64_t> incarnations_ = {10, 11, 12, 13};
  HostLeader leader_;
};

TEST_F(HostLeaderTest, SendsTheFirstPushOfEveryWorkerAlone) {
  EXPECT_THAT(Words(Push(1, 1)), ElementsAre("send own: x"));
  const Actions out = Push(0, 1);
  ASSERT_THAT(Words(out), ElementsAre("send 0: x"));
  EXPECT_EQ(out[0].message.head.push().rank(), 1u);
  EXPECT_EQ(out[0].message.head.push().incarnation(), 11u);
  EXPECT_THAT(Words(Push(2, 1)), ElementsAre("send 2: x"));
  EXPECT_THAT(Words(Answer(1)), ElementsAre("forward 0", "forward 2"));
  EXPECT_EQ(leader_.counters().alone, 3u);
}

TEST_F(HostLeaderTest, SendsOneSumOfAllThatAreExpected) {
  LearnAll();
  EXPECT_THAT(Push(2, 2), IsEmpty());
  EXPECT_THAT(Push(0, 2), IsEmpty());
  const Actions out = Push(1, 2);
  ASSERT_THAT(Words(out), ElementsAre("send 0,1,2: xxx"));
  const pb::Contribution& sum = out[0].message.head.push();
  EXPECT_EQ(sum.in_round().round(), 2u);
  EXPECT_EQ(sum.in_round().applied(), 1u);
  EXPECT_EQ(sum.in_round().digest(), 9u);
  EXPECT_EQ(sum.in_round().of(2).incarnation(), 12u);
  EXPECT_EQ(sum.epoch(), 2u);  // the newest that any of them knows
  EXPECT_THAT(Words(Answer(2)), ElementsAre("forward 0", "forward 2"));
  EXPECT_THAT(Answer(2), IsEmpty());
  EXPECT_EQ(leader_.counters().sums, 1u);
  EXPECT_EQ(leader_.counters().summed, 3u);
}

TEST_F(HostLeaderTest, KeepsCellsAndRoundsApart) {
  LearnAll();
  Push(0, 2);
  Push(1, 2, kOtherCell);
  Push(2, 3);
  EXPECT_THAT(Push(2, 2), IsEmpty());
  EXPECT_THAT(Words(Push(1, 2)), ElementsAre("send 0,1,2: xxx"));
  EXPECT_THAT(Answer(2, kOtherCell), IsEmpty());
  EXPECT_EQ(leader_.num_sums(), 3u);
  leader_.SetApplied(3);
  EXPECT_EQ(leader_.num_sums(), 0u);
}

TEST_F(HostLeaderTest, DoesNotAddPushesOfDifferentScalers) {
  LearnAll();
  Push(0, 2, kCell, 9);
  Push(1, 2, kCell, 8);
  EXPECT_THAT(Words(Push(2, 2, kCell, 9)), ElementsAre("send own: x", "send 0,2: xx"));
}

TEST_F(HostLeaderTest, DoesNotWaitLongForAWorkerThatDoesNotCome) {
  LearnAll();
  Push(0, 2);
  Push(1, 2);
  Actions out;
  leader_.OnTimer(kPatience - milliseconds(1), &out);
  EXPECT_THAT(out, IsEmpty());
  leader_.OnTimer(kPatience, &out);
  EXPECT_THAT(Words(out), ElementsAre("send 0,1: xx"));
  // From now on it does not wait for rank 2, until that pushes again.
  Push(0, 3);
  EXPECT_THAT(Words(Push(1, 3)), ElementsAre("send 0,1: xx"));
  EXPECT_THAT(Words(Push(2, 3)), ElementsAre("send 2: x"));
  EXPECT_THAT(Words(Answer(3)), ElementsAre("forward 0", "forward 2"));
  Push(0, 4);
  EXPECT_THAT(Push(1, 4), IsEmpty());
  EXPECT_THAT(Words(Push(2, 4)), ElementsAre("send 0,1,2: xxx"));
}

TEST_F(HostLeaderTest, DoesNotWaitForAWorkerThatGoesToTheServersItself) {
  LearnAll();
  Push(0, 2);
  Push(1, 2);
  EXPECT_THAT(Words(Skip(2, 2)), ElementsAre("send 0,1: xx"));
  EXPECT_THAT(Words(Answer(2)), ElementsAre("forward 0"));
  // A push that waits is taken out.
  Push(0, 3);
  EXPECT_THAT(Skip(0, 3), IsEmpty());
  Push(1, 3);
  EXPECT_THAT(Words(Push(2, 3)), ElementsAre("send 1,2: xx"));
  // The word may come first. Then the push does not count.
  EXPECT_THAT(Skip(0, 4), IsEmpty());
  EXPECT_THAT(Words(Push(0, 4)), ElementsAre("release 0"));
}

TEST_F(HostLeaderTest, LetsTheServerRefuseAnInvalidPush) {
  LearnAll();
  Push(0, 2, kCell, 9, "y");
  Push(1, 2);
  EXPECT_THAT(Words(Push(2, 2)), ElementsAre("release 0", "send 1,2: xx"));
}

TEST_F(HostLeaderTest, ReleasesThoseWhoseLaneIsLost) {
  LearnAll();
  for (const uint32_t rank : {0, 1, 2}) Push(rank, 2);
  Push(0, 2, kOtherCell);
  Push(0, 3);
  Actions out;
  leader_.OnLaneLost([](const Cell& cell) { return cell == kCell; }, &out);
  EXPECT_THAT(Words(out), UnorderedElementsAre("release 0", "release 2"));
  EXPECT_THAT(Answer(2), IsEmpty());
  Push(1, 2, kOtherCell);
  EXPECT_THAT(Words(Push(2, 2, kOtherCell)), ElementsAre("send 0,1,2: xxx"));
}

TEST_F(HostLeaderTest, ForgetsWhatAnEarlierProcessHasPushed) {
  LearnAll();
  Push(0, 2);
  incarnations_[0] = 20;
  // It is new, so nobody waits for it in this round, and its push waits for the others.
  EXPECT_THAT(Push(0, 2), IsEmpty());
  Push(1, 2);
  const Actions out = Push(2, 2);
  ASSERT_THAT(Words(out), ElementsAre("send 0,1,2: xxx"));
  EXPECT_EQ(out[0].message.head.push().in_round().of(0).incarnation(), 20u);
}

// Before that it does not know with which incarnation it sends.
TEST_F(HostLeaderTest, ReleasesOthersUntilItPushesItself) {
  EXPECT_THAT(Words(Push(0, 1)), ElementsAre("release 0"));
  LearnAll();
  leader_.Restart(1);
  EXPECT_THAT(Words(Push(0, 2)), ElementsAre("release 0"));
  EXPECT_EQ(leader_.num_sums(), 0u);
}

TEST_F(HostLeaderTest, IgnoresWhatIsNotInThePlan) {
  EXPECT_THAT(Words(Push(0, 1, {Kind::kPush, 0, 2})), ElementsAre("release 0"));
  EXPECT_THAT(Words(Push(0, kMaxRoundsAhead + 1)), ElementsAre("release 0"));
  leader_.SetApplied(5);
  EXPECT_THAT(Words(Push(0, 5)), ElementsAre("release 0"));
  EXPECT_THAT(Skip(0, 5), IsEmpty());
  EXPECT_EQ(leader_.num_sums(), 0u);
}

// Plants a fault, which Check() must find.
TEST_F(HostLeaderTest, ChecksItsInvariants) {
  LearnAll();
  EXPECT_TRUE(leader_.Check().ok());
  HostLeaderPeer::AddWaiting(&leader_, {2, kCell}, 0);
  EXPECT_THAT(leader_.Check().message(),
              testing::HasSubstr("the host's sum is sent, and 1 pushes wait"));
  HostLeaderPeer::SetGathering(&leader_, {2, kCell});
  EXPECT_TRUE(leader_.Check().ok());
  HostLeaderPeer::SetGone(&leader_, {2, kCell}, 0);
  EXPECT_THAT(leader_.Check().message(), testing::HasSubstr("rank 0 waits, and has left"));
  HostLeaderPeer::SetApplied(&leader_, 2);
  EXPECT_THAT(leader_.Check().message(), testing::HasSubstr("keeps its sum, and has applied 2"));
  leader_.SetApplied(2);
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol

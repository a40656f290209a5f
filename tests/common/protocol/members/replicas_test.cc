// Tests of what shard 0 does if the workers' replicas of the weights differ. Now and then the
// workers send hashes of their weights; shard 0 compares them before it answers. If they differ,
// all go back to a checkpoint of a round at which they agreed.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;

constexpr Cell kHashes{Kind::kFigures, 0, 0};

// Collects the workers' hashes, one letter each, in the order in which they come.
class HashesOfAll : public CellSum {
 public:
  Status Add(uint32_t, const Bytes& payload) override {
    hashes_ += View(payload);
    return Ok();
  }
  Bytes Close() override { return Text(hashes_); }

 private:
  std::string hashes_;
};

CellSpec HashesCell() {
  CellSpec spec;
  spec.cell = kHashes;
  spec.open = [](uint64_t) { return std::make_unique<HashesOfAll>(); };
  spec.waits_for_all = spec.is_for_members_only = true;
  spec.check_agreement = [](const Bytes& answer, uint64_t round) {
    const std::string hashes = View(answer);
    if (hashes == std::string(hashes.size(), hashes[0])) return Ok();
    return Status(Code::kMismatch,
                  "the replicas differ after round " + std::to_string(round - 1) + ": " + hashes);
  };
  return spec;
}

// A job with two workers, whose checkpoints are of run 7.
class ReplicasThatDiffer : public testing::TestWithParam<OnLoss> {
 protected:
  // `begin`, by rank: the checkpoints that the workers have before.
  void StartJob(bool has_checkpoints = true, bool is_central = false,
                const std::vector<Checkpoints>& begin = std::vector<Checkpoints>(2)) {
    ControlOptions options = TestOptions(1, 2, GetParam());
    options.can_resume = has_checkpoints;
    options.begins_from_shards = is_central;
    if (is_central) {
      options.shard_keeps_state = {true};
      options.find_saved_checkpoints = [this] { return SavedCheckpoints{{}, {}, 7, of_shard0_}; };
    }
    shard0_ = std::make_unique<Shard0>(std::move(options), std::vector{HashesCell()});
    Gather(begin, /*run=*/0);
    ASSERT_TRUE(shard0_->coordinator().running());
  }
  // The workers have applied `applied`, and send their hashes.
  ControlActions Compare(uint64_t applied, const std::string& hashes) {
    ControlActions all_actions;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const uint64_t incarnation = shard0_->workers()[rank].incarnation;
      shard0_->Deliver(100 + rank, HeartbeatMessage(rank, incarnation, applied));
      Shard0::Append(
          shard0_->Deliver(100 + rank, ContributionOf({kHashes, applied + 1, rank, incarnation,
                                                       applied, 0, hashes.substr(rank, 1)})),
          &all_actions);
    }
    return all_actions;
  }
  // Both workers say hello again, with these checkpoints.
  ControlActions GatherAgain(const std::vector<Checkpoints>& offers) { return Gather(offers, 7); }
  ControlActions Gather(const std::vector<Checkpoints>& offers, uint64_t run) {
    ++process_;
    ControlActions out;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      pb::Hello hello = TestHello(rank, 10 * process_ + rank);
      hello.set_run(run);
      for (const pb::Checkpoint& checkpoint : offers[rank]) *hello.add_checkpoints() = checkpoint;
      Shard0::Append(shard0_->Deliver(100 + rank, HelloMessage(hello)), &out);
    }
    return out;
  }
  void LoseWorkers() { shard0_->PassTime(milliseconds(3500), {}); }
  static Message FiguresTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kAllFigures, SendsOf(actions));
  }
  static pb::GoBack GoBackTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kGoBack, SendsOf(actions)).head.go_back();
  }
  static pb::Welcome WelcomeTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kWelcome, SendsOf(actions)).head.welcome();
  }
  static Checkpoints At(const std::vector<uint64_t>& steps) {
    Checkpoints checkpoints;
    for (const uint64_t step : steps) checkpoints.push_back(CheckpointAt(step, 7));
    return checkpoints;
  }

  std::unique_ptr<Shard0> shard0_;
  std::vector<pb::Checkpoint> of_shard0_;
  uint32_t process_ = 0;
};

TEST_P(ReplicasThatDiffer, GoBackToTheNewestCheckpointOfARoundAtWhichTheyAgreed) {
  StartJob();
  EXPECT_EQ(View(FiguresTo(101, Compare(20, "aa")).payload), "aa");
  const ControlActions out = Compare(30, "ab");
  EXPECT_TRUE(FiguresTo(100, out).payload.empty()) << "a worker would leave";
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("the replicas differ after round 30: ab"));
  for (const Peer worker : {100, 101})
    EXPECT_EQ(GoBackTo(worker, out).sentence(), "the replicas differ after round 30: ab");
  // The checkpoint of step 30 has the difference in it; that of step 25 may have it.
  const ControlActions again = GatherAgain({At({15, 25, 30}), At({15, 20, 25, 30})});
  ASSERT_TRUE(shard0_->coordinator().running());
  for (const Peer worker : {100, 101}) EXPECT_EQ(WelcomeTo(worker, again).resume().step(), 15u);
  EXPECT_EQ(View(FiguresTo(100, Compare(30, "cc")).payload), "cc");
}

// Another fault makes all go back once more before all have removed their checkpoints of later
// steps, which may have the difference in them.
TEST_P(ReplicasThatDiffer, GoBackNoFurtherForwardUntilTheyAgreeAgain) {
  if (GetParam() == OnLoss::kFail) return;  // the job ends at the first loss
  StartJob();
  Compare(20, "aa");
  Compare(30, "ab");
  const std::vector<Checkpoints> offers(2, At({15, 25}));
  GatherAgain(offers);
  LoseWorkers();
  EXPECT_EQ(WelcomeTo(100, GatherAgain(offers)).resume().step(), 15u);
  Compare(30, "cc");
  Compare(40, "cd");
  EXPECT_EQ(WelcomeTo(100, GatherAgain({At({15, 30}), At({15, 30})})).resume().step(), 30u);
}

TEST_P(ReplicasThatDiffer, GoBackToALaterCheckpointIfThereIsNoOther) {
  if (GetParam() == OnLoss::kFail) return;  // the job ends at the first loss
  StartJob();
  Compare(20, "aa");
  Compare(30, "ab");
  GatherAgain({At({15}), At({15})});
  LoseWorkers();
  EXPECT_EQ(WelcomeTo(100, GatherAgain({At({25, 28}), At({25, 28})})).resume().step(), 28u);
}

// The job began from that checkpoint, and its replicas have not agreed since.
TEST_P(ReplicasThatDiffer, GoBackToTheCheckpointFromWhichTheyBegan) {
  StartJob(/*has_checkpoints=*/true, /*is_central=*/false, {At({10}), At({10})});
  EXPECT_FALSE(GoBackTo(100, Compare(20, "ab")).sentence().empty());
  const std::vector<Checkpoints> offers(2, At({10, 15}));
  EXPECT_EQ(WelcomeTo(100, GatherAgain(offers)).resume().step(), 10u);
}

TEST_P(ReplicasThatDiffer, AnswerNoRepeatedHash) {
  StartJob();
  Compare(30, "ab");
  const Message repeated = ContributionOf({kHashes, 31, 0, 10, 30, 0, "a"});
  EXPECT_TRUE(FiguresTo(100, shard0_->Deliver(100, repeated)).payload.empty());
}

TEST_P(ReplicasThatDiffer, EndTheJobWithoutSuchACheckpoint) {
  StartJob();
  Compare(20, "aa");
  Compare(30, "ab");
  const ControlActions out = GatherAgain({At({20, 25}), At({25, 30})});
  if (GetParam() == OnLoss::kShrink) {  // one worker's checkpoint is enough
    EXPECT_EQ(WelcomeTo(100, out).resume().step(), 20u);
    return;
  }
  EXPECT_EQ(Shard0::AbortTo(101, out).code(), 76u);
  EXPECT_THAT(Shard0::AbortTo(101, out).sentence(),
              testing::AllOf(HasSubstr("differ after round 30: ab"), HasSubstr("no checkpoint")));
}

TEST_P(ReplicasThatDiffer, EndAJobThatWritesNoCheckpoints) {
  StartJob(/*has_checkpoints=*/false);
  const ControlActions out = Compare(30, "ab");
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 76u);
  EXPECT_EQ(Shard0::AbortTo(100, out).sentence(), "the replicas differ after round 30: ab");
}

TEST_P(ReplicasThatDiffer, EndTheJobTheSecondTimeFromTheSameCheckpoint) {
  StartJob();
  Compare(20, "aa");
  Compare(30, "ab");
  GatherAgain({At({10, 20}), At({10, 20})});
  ASSERT_TRUE(shard0_->coordinator().running());
  EXPECT_FALSE(GoBackTo(100, Compare(30, "ab")).sentence().empty());
  const ControlActions out = GatherAgain({At({10, 20}), At({10, 20})});
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 76u);
  EXPECT_THAT(Shard0::AbortTo(100, out).sentence(), HasSubstr("the checkpoint of step 20"));
}

TEST_P(ReplicasThatDiffer, MayGoBackAgainFromALaterCheckpoint) {
  StartJob();
  Compare(20, "aa");
  Compare(30, "ab");
  GatherAgain({At({20}), At({20})});
  Compare(30, "aa");
  Compare(40, "ab");
  const ControlActions out = GatherAgain({At({20, 30}), At({20, 30})});
  EXPECT_EQ(WelcomeTo(100, out).resume().step(), 30u);
}

TEST_P(ReplicasThatDiffer, EndAJobThatStops) {
  StartJob();
  shard0_->Stop(Code::kTerminated);
  EXPECT_EQ(Shard0::AbortTo(100, Compare(30, "ab")).code(), 76u);
}

TEST_P(ReplicasThatDiffer, GoBackToTheServersCheckpointWhereTheseHoldTheWeights) {
  StartJob(/*has_checkpoints=*/false, /*is_central=*/true);
  of_shard0_ = At({20, 25, 30});
  Compare(26, "aa");
  EXPECT_FALSE(GoBackTo(100, Compare(31, "ab")).sentence().empty());
  const ControlActions out = GatherAgain({{}, {}});
  ASSERT_TRUE(shard0_->coordinator().running());
  EXPECT_EQ(WelcomeTo(100, out).begin(), 25u);
  EXPECT_FALSE(WelcomeTo(100, out).has_resume());
}

INSTANTIATE_TEST_SUITE_P(Under, ReplicasThatDiffer,
                         testing::Values(OnLoss::kFail, OnLoss::kWait, OnLoss::kShrink),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tern::protocol::test

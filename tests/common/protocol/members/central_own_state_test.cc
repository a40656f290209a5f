// Tests a job whose servers (shards) hold the parameters, while each worker has state of its own,
// such as what topk holds back. If a daemon is lost and comes back, all go back to a checkpoint of
// all daemons, because no other daemon has that state.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// One shard and two workers, in run 7.
class CentralOwnState : public testing::Test {
 protected:
  CentralOwnState() {
    ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
    options.can_resume = true;
    options.begins_from_shards = true;
    options.shard_keeps_state = {true};
    options.find_saved_checkpoints = [this] { return of_shard_; };
    shard0_ = std::make_unique<Shard0>(std::move(options));
  }
  // What the shard writes while the job runs: common checkpoints, and others of its own.
  void ShardSaves(const std::vector<uint64_t>& common_steps,
                  const std::vector<uint64_t>& shard_steps) {
    of_shard_.checkpoints = CheckpointsAfter(common_steps, 7);
    of_shard_.shard_checkpoints = CheckpointsAfter(shard_steps, 7);
  }
  // As a process does that was started with checkpoints.resume: false, before the run has begun.
  void ShardOffersToRunUnderWay(const std::vector<uint64_t>& steps) {
    of_shard_.checkpoints.clear();
    of_shard_.shard_checkpoints = CheckpointsAfter(steps, 7);
  }
  ControlActions WorkerGreets(uint32_t rank, uint64_t incarnation,
                              const std::vector<uint64_t>& steps = {}) {
    pb::Hello hello = TestHello(rank, incarnation);
    hello.set_keeps_own(true);
    if (!steps.empty()) hello.set_run(7);
    for (const pb::Checkpoint& checkpoint : CheckpointsAfter(steps, 7))
      *hello.add_checkpoints() = checkpoint;
    return shard0_->Deliver(100 + rank, HelloMessage(hello));
  }
  // Run 7 begins from the checkpoint of step 5; the workers then have the rounds up to 63.
  void StartJob() {
    ShardSaves({5}, {});
    for (const uint32_t rank : {0, 1}) WorkerGreets(rank, 10 + rank, {5});
    ASSERT_TRUE(shard0_->coordinator().running());
    for (const uint32_t rank : {0, 1})
      shard0_->Deliver(100 + rank, HeartbeatMessage(rank, 10 + rank, 63));
  }
  // Worker 1 falls silent, and a new process of its rank says hello.
  ControlActions LoseWorker1AndBringItBack(const std::vector<uint64_t>& steps) {
    shard0_->PassTime(milliseconds(4000), {0});
    return WorkerGreets(1, 21, steps);
  }
  static pb::Welcome WelcomeTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kWelcome, SendsOf(actions)).head.welcome();
  }
  static pb::GoBack GoBackTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kGoBack, SendsOf(actions)).head.go_back();
  }

  SavedCheckpoints of_shard_;
  std::unique_ptr<Shard0> shard0_;
};

TEST_F(CentralOwnState, OfAWorkerThatComesBackTakesAllToTheCommonCheckpoint) {
  StartJob();
  ShardSaves({20, 40, 60}, {50, 62});
  ControlActions out = LoseWorker1AndBringItBack({20, 40, 60});
  EXPECT_THAT(GoBackTo(100, out).sentence(), HasSubstr("what it had of its own is on its disk"));
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("the newest checkpoint that everybody has"));
  out = WorkerGreets(0, 20, {20, 40, 60});
  ASSERT_TRUE(shard0_->coordinator().running());
  for (const Peer worker : {100, 101}) EXPECT_EQ(WelcomeTo(worker, out).resume().step(), 60u);
}

TEST_F(CentralOwnState, OfAWorkerWithoutTwoCheckpointsBeginsAnewAndTheJobGoesOn) {
  StartJob();
  ShardSaves({20, 40, 60}, {50, 62});
  const ControlActions out = LoseWorker1AndBringItBack({60});
  EXPECT_TRUE(shard0_->coordinator().running());
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("fewer than two checkpoints of this run"));
}

// All daemons were started with checkpoints.resume: false, and the server again while the run was
// under way. What is on its disk of this run counts.
TEST_F(CentralOwnState, IsKeptWhereANewServerTakesNoEarlierRun) {
  ShardOffersToRunUnderWay({20, 40, 50});
  for (const uint32_t rank : {0, 1}) {
    pb::Hello hello = HelloWithState(rank, 10 + rank, 63, 3);
    hello.set_run(7);
    hello.set_keeps_own(true);
    shard0_->Deliver(100 + rank, HelloMessage(hello));
  }
  WorkerGreets(0, 20, {20, 40});
  const ControlActions out = WorkerGreets(1, 21, {20, 40});
  ASSERT_TRUE(shard0_->coordinator().running());
  for (const Peer worker : {100, 101}) EXPECT_EQ(WelcomeTo(worker, out).resume().step(), 40u);
  EXPECT_THAT(Shard0::LogOf(out), Not(HasSubstr("begins anew")));
}

TEST_F(CentralOwnState, ThatNoCommonCheckpointHasBeginsAnewByALine) {
  ShardOffersToRunUnderWay({50});
  for (const uint32_t rank : {0, 1}) {
    pb::Hello hello = HelloWithState(rank, 10 + rank, 63, 3);
    hello.set_run(7);
    hello.set_keeps_own(true);
    shard0_->Deliver(100 + rank, HelloMessage(hello));
  }
  WorkerGreets(0, 20, {60});
  const ControlActions out = WorkerGreets(1, 21, {60});
  ASSERT_TRUE(shard0_->coordinator().running());
  EXPECT_EQ(WelcomeTo(100, out).begin(), CheckpointAfter(50, 7).round());
  EXPECT_THAT(Shard0::LogOf(out),
              HasSubstr("the workers have no checkpoint in common with the servers"));
}

}  // namespace
}  // namespace tern::protocol::test

// Tests of what a restarted daemon brings to a run under way: a daemon with checkpoints.resume:
// false offers its checkpoints of this run; a shard whose codecs keep a memory of earlier sums
// makes all go back to a checkpoint that has this memory.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;

// The checkpoints of run 7 after these steps.
Checkpoints CheckpointsOf7(const std::vector<uint64_t>& steps) {
  return CheckpointsAfter(steps, 7);
}

void AddCheckpoints(const Checkpoints& checkpoints, pb::Hello* hello) {
  for (const pb::Checkpoint& checkpoint : checkpoints) *hello->add_checkpoints() = checkpoint;
}
// As a daemon does that was started with checkpoints.resume: false.
void OfferToRunUnderWay(const Checkpoints& checkpoints, pb::Hello* hello) {
  for (const pb::Checkpoint& checkpoint : checkpoints) *hello->add_shard_checkpoints() = checkpoint;
}

// Two workers hold the weights; both shards' codecs keep a memory of earlier sums. The run is 7.
class RestartedDaemon : public testing::Test {
 protected:
  explicit RestartedDaemon(OnLoss on_loss = OnLoss::kWait) {
    ControlOptions options = TestOptions(2, 2, on_loss);
    options.can_resume = true;
    options.shard_keeps_state = {true, true};
    options.find_saved_checkpoints = [this] { return of_shard0_; };
    shard0_ = std::make_unique<Shard0>(std::move(options));
  }
  // All daemons have the checkpoints `saved`.
  void StartJob(uint64_t applied = 25, const Checkpoints& saved = {}) {
    of_shard0_.checkpoints = saved;
    ShardGreets(50, saved);
    for (const uint32_t rank : {0, 1}) {
      pb::Hello hello = TestHello(rank, 10 + rank);
      AddCheckpoints(saved, &hello);
      shard0_->Deliver(100 + rank, HelloMessage(hello));
    }
    ASSERT_TRUE(shard0_->coordinator().running());
    for (const uint32_t rank : {0, 1})
      shard0_->Deliver(100 + rank, HeartbeatMessage(rank, 10 + rank, applied));
  }
  ControlActions ShardGreets(uint64_t incarnation, const Checkpoints& saved, uint64_t run = 0) {
    // A process keeps its place while it is heard.
    if (shard0_->coordinator().running()) shard0_->PassTime(milliseconds(600), {0, 1});
    pb::Hello hello = TestHello(1, incarnation);
    hello.set_role(pb::Hello::shard);
    if (run != 0) hello.set_run(run);
    AddCheckpoints(saved, &hello);
    return shard0_->Deliver(200, HelloMessage(hello));
  }
  ControlActions WorkerGreetsAgain(uint32_t rank, const Checkpoints& saved) {
    pb::Hello hello = TestHello(rank, 20 + rank);
    hello.set_run(7);
    AddCheckpoints(saved, &hello);
    return shard0_->Deliver(100 + rank, HelloMessage(hello));
  }
  static pb::GoBack GoBackTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kGoBack, SendsOf(actions)).head.go_back();
  }
  static pb::Welcome WelcomeTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kWelcome, SendsOf(actions)).head.welcome();
  }

  SavedCheckpoints of_shard0_;
  std::unique_ptr<Shard0> shard0_;
};

TEST_F(RestartedDaemon, AShardThatLostItsMemoryTakesAllBackToACheckpointThatHasIt) {
  StartJob();
  const ControlActions out = ShardGreets(51, CheckpointsOf7({10, 20}));
  for (const Peer worker : {100, 101})
    EXPECT_THAT(GoBackTo(worker, out).sentence(), HasSubstr("server shard 1 was started again"));
  of_shard0_.checkpoints = CheckpointsOf7({10, 20});
  WorkerGreetsAgain(0, CheckpointsOf7({10, 20}));
  WorkerGreetsAgain(1, CheckpointsOf7({10}));
  const ControlActions again = ShardGreets(51, CheckpointsOf7({10, 20}));
  ASSERT_TRUE(shard0_->coordinator().running());
  EXPECT_EQ(WelcomeTo(100, again).resume().step(), 10u);
  EXPECT_EQ(WelcomeTo(101, again).resume().step(), 10u);
}

TEST_F(RestartedDaemon, AShardWithoutTwoCheckpointsOfTheRunSaysThatItsMemoryBeginsAnew) {
  StartJob();
  const ControlActions out = ShardGreets(51, CheckpointsOf7({10}));
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("what its codecs lost of earlier sums begins anew"));
  EXPECT_TRUE(shard0_->coordinator().running());
}

// All daemons have the checkpoint from which the job began.
TEST_F(RestartedDaemon, AShardTakesAllBackToTheCheckpointFromWhichTheyBegan) {
  StartJob(25, CheckpointsOf7({10}));
  const ControlActions out = ShardGreets(51, CheckpointsOf7({10}));
  for (const Peer worker : {100, 101})
    EXPECT_THAT(GoBackTo(worker, out).sentence(), HasSubstr("server shard 1 was started again"));
}

// While all go back, a shard has the time to return that it has while a job runs.
TEST_F(RestartedDaemon, AShardThatStaysAwayWhileAllGoBackEndsTheJob) {
  StartJob();
  ShardGreets(51, CheckpointsOf7({10, 20}));
  for (const uint32_t rank : {0, 1}) WorkerGreetsAgain(rank, CheckpointsOf7({10, 20}));
  ASSERT_FALSE(shard0_->coordinator().running());
  const ControlActions out = shard0_->PassTime(milliseconds(31'000), {0, 1});
  EXPECT_THAT(Shard0::AbortTo(100, out).sentence(), HasSubstr("shard 1 was lost: silent for"));
}

TEST_F(RestartedDaemon, AShardThatKeptItsMemoryTakesNobodyBack) {
  StartJob();
  ShardGreets(50, CheckpointsOf7({10, 20}));     // on a new connection
  ShardGreets(51, CheckpointsOf7({10, 20}), 7);  // as after a restart of shard 0
  EXPECT_TRUE(shard0_->coordinator().running());
}

TEST_F(RestartedDaemon, AShardThatIsLateAtTheStartTakesNobodyBack) {
  StartJob(/*applied=*/0);
  const ControlActions out = ShardGreets(51, CheckpointsOf7({10, 20}));
  EXPECT_TRUE(shard0_->coordinator().running());
  EXPECT_EQ(Shard0::LogOf(out).find("begins anew"), std::string::npos);
}

// Shard 0 is a new process, and the workers hold the weights.
TEST_F(RestartedDaemon, Shard0WithSuchAMemoryTakesAllBack) {
  for (const bool has_checkpoints : {true, false}) {
    of_shard0_ = {};
    ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
    options.can_resume = true;
    options.shard_keeps_state = {true};
    options.find_saved_checkpoints = [this] { return of_shard0_; };
    shard0_ = std::make_unique<Shard0>(std::move(options));
    if (has_checkpoints) of_shard0_.checkpoints = CheckpointsOf7({10, 20});
    ControlActions out;
    for (const uint32_t rank : {0, 1}) {
      pb::Hello hello = HelloWithState(rank, 10 + rank, 25, 1);
      hello.set_run(7);
      Shard0::Append(shard0_->Deliver(100 + rank, HelloMessage(hello)), &out);
    }
    EXPECT_EQ(shard0_->coordinator().running(), !has_checkpoints);
    EXPECT_EQ(!GoBackTo(100, out).sentence().empty(), has_checkpoints);
    EXPECT_EQ(Shard0::LogOf(out).find("begins anew") == std::string::npos, has_checkpoints);
  }
}

class RestartedUnderShrink : public RestartedDaemon {
 protected:
  RestartedUnderShrink() : RestartedDaemon(OnLoss::kShrink) {}
};

// A worker that joined later may lack the checkpoint, and then the job would end.
TEST_F(RestartedUnderShrink, AShardTakesNobodyBack) {
  StartJob();
  EXPECT_THAT(Shard0::LogOf(ShardGreets(51, CheckpointsOf7({10, 20}))), HasSubstr("begins anew"));
  EXPECT_TRUE(shard0_->coordinator().running());
}

// All daemons were started with checkpoints.resume: false, and worker 1 again while the run was
// under way. What is on its disk of this run counts.
TEST(WithoutResume, ARunUnderWayGoesBackToItsOwnCheckpoints) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
  options.can_resume = true;
  Shard0 shard0(std::move(options));
  shard0.GatherWorkers();
  pb::Hello returned = TestHello(1, 21), other = TestHello(0, 20);
  returned.set_keeps_own(true);
  OfferToRunUnderWay(CheckpointsAfter({30}, 3), &returned);
  OfferToRunUnderWay(CheckpointsOf7({10, 20}), &returned);
  AddCheckpoints(CheckpointsOf7({20, 30}), &other);
  shard0.PassTime(milliseconds(4000), {0});
  ControlActions out = shard0.Deliver(101, HelloMessage(returned));
  EXPECT_THAT(FirstMessageTo(100, pb::Envelope::kGoBack, SendsOf(out)).head.go_back().sentence(),
              HasSubstr("on its disk alone"));
  out = shard0.Deliver(100, HelloMessage(other));
  ASSERT_TRUE(shard0.coordinator().running());
  const Message welcome = FirstMessageTo(101, pb::Envelope::kWelcome, SendsOf(out));
  EXPECT_EQ(welcome.head.welcome().resume().step(), 20u);
}

TEST(WithoutResume, ANewRunTakesNoCheckpoint) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
  options.can_resume = true;
  Shard0 shard0(std::move(options));
  ControlActions out;
  for (const uint32_t rank : {0, 1}) {
    pb::Hello hello = TestHello(rank, 10 + rank);
    OfferToRunUnderWay(CheckpointsOf7({10, 20}), &hello);
    Shard0::Append(shard0.Deliver(100 + rank, HelloMessage(hello)), &out);
  }
  ASSERT_TRUE(shard0.coordinator().running());
  const Message welcome = FirstMessageTo(101, pb::Envelope::kWelcome, SendsOf(out));
  EXPECT_FALSE(welcome.head.welcome().has_resume());
}

}  // namespace
}  // namespace tern::protocol::test

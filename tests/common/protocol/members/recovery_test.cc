// Tests of recovery by shard 0: if no daemon (worker or server process) holds the state of the job,
// the job continues from the newest checkpoint that all daemons have. Each daemon offers its
// checkpoints in its hello. A run is one execution of a job from step 0 on, identified by a number.
#include "common/protocol/members/recovery.h"

#include <gmock/gmock.h>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

// Shard 0 of a job with two shards and two workers. Worker r is peer (connection) 100 + r,
// shard 1 is peer 200. `shard_keeps`: whether shard 1 writes checkpoints of its own state.
class Resuming : public testing::Test {
 protected:
  void MakeCoordinator(bool shard_keeps, bool workers_hold_state = true, bool from_shards = false) {
    ControlOptions options = TestOptions(2, 2, OnLoss::kWait);
    options.can_resume = can_resume_;
    options.shard_keeps_state = {false, shard_keeps};
    options.workers_hold_state = workers_hold_state;
    options.begins_from_shards = from_shards;
    coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                                 std::vector{LetterCell({Kind::kFigures, 0, 0})});
    ControlActions out;
    coordinator_->Start(now_, &out);
  }
  ControlActions Deliver(Peer from, const Message& message) {
    ControlActions out;
    coordinator_->OnMessage(from, message, now_, &out);
    return out;
  }
  ControlActions ShardGreets(const Checkpoints& saved = {}) {
    pb::Hello hello = TestHello(1, 50);
    hello.set_role(pb::Hello::shard);
    for (const pb::Checkpoint& checkpoint : saved) *hello.add_checkpoints() = checkpoint;
    return Deliver(200, HelloMessage(hello));
  }
  // Process number `process` of the rank says hello; it has just started and holds no state.
  ControlActions WorkerGreets(uint32_t rank, const Checkpoints& saved = {}, uint64_t process = 1) {
    pb::Hello hello = TestHello(rank, 10 * process + rank);
    for (const pb::Checkpoint& checkpoint : saved) *hello.add_checkpoints() = checkpoint;
    return Deliver(100 + rank, HelloMessage(hello));
  }
  void MakeCoordinatorWithShard1() {
    MakeCoordinator(false);
    ShardGreets();
  }
  ControlActions PassTime(Time time) {
    ControlActions all_actions;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      for (ControlAction& action : out) all_actions.push_back(std::move(action));
    }
    return all_actions;
  }
  void StartJob(bool shard_keeps, bool workers_hold_state = true) {
    MakeCoordinator(shard_keeps, workers_hold_state);
    ShardGreets();
    WorkerGreets(0);
    WorkerGreets(1);
    ASSERT_TRUE(coordinator_->running());
    Deliver(100, HeartbeatMessage(0, 10, 25));
    Deliver(101, HeartbeatMessage(1, 11, 25));
  }
  void LoseAllWorkers(bool shard_keeps = false) {
    StartJob(shard_keeps);
    PassTime(milliseconds(4000));
  }
  // Worker 1 is lost, and a new process takes its rank. `keeps_own`: whether a worker has state
  // that no other worker can give it.
  ControlActions Worker1ComesBack(bool keeps_own, const Checkpoints& saved,
                                  bool workers_hold_state = true) {
    StartJob(!workers_hold_state, workers_hold_state);
    for (int i = 0; i < 40; ++i) {
      PassTime(milliseconds(100));
      Deliver(100, HeartbeatMessage(0, 10, 25));
    }
    pb::Hello hello = TestHello(1, 21);
    hello.set_keeps_own(keeps_own);
    for (const pb::Checkpoint& checkpoint : saved) *hello.add_checkpoints() = checkpoint;
    return Deliver(101, HelloMessage(hello));
  }
  static pb::Welcome WelcomeOf(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, Body::kWelcome, SendsOf(actions)).head.welcome();
  }
  static pb::Members MembersToldToShard(const ControlActions& actions) {
    return FirstMessageTo(200, Body::kMembers, SendsOf(actions)).head.members();
  }
  static pb::Abort AbortTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, Body::kAbort, SendsOf(actions)).head.abort();
  }
  static std::string LogOf(const ControlActions& actions) {
    std::string log;
    for (const ControlAction& action : actions) log += action.text + "\n";
    return log;
  }

  bool can_resume_ = true;
  std::unique_ptr<Coordinator> coordinator_;
  Time now_ = milliseconds(1000);
};

TEST_F(Resuming, ANewJobBeginsAtTheStart) {
  MakeCoordinatorWithShard1();
  WorkerGreets(0);
  const ControlActions out = WorkerGreets(1);
  ASSERT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
  EXPECT_FALSE(WelcomeOf(101, out).needs_state());
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u) << "it is a new run";
}

TEST_F(Resuming, AllContinueFromTheNewestCommonCheckpoint) {
  MakeCoordinatorWithShard1();
  EXPECT_FALSE(WelcomeOf(100, WorkerGreets(0, CheckpointsAfter({10, 20, 30}))).has_resume());
  const ControlActions out = WorkerGreets(1, CheckpointsAfter({10, 20}));
  ASSERT_TRUE(coordinator_->running());
  for (const Peer peer : {100, 101}) {
    const pb::Welcome welcome = WelcomeOf(peer, out);
    EXPECT_EQ(welcome.resume().step(), 20u) << peer;
    EXPECT_EQ(welcome.resume().round(), 10u) << peer;
    EXPECT_TRUE(welcome.needs_state()) << peer;
    EXPECT_EQ(welcome.run(), 3u) << "the run keeps its number";
  }
  EXPECT_EQ(MembersToldToShard(out).resume().step(), 20u);
  EXPECT_EQ(MembersToldToShard(out).begin(), 10u);
  EXPECT_NE(MembersToldToShard(out).beginning(), 0u);
  EXPECT_THAT(LogOf(out), HasSubstr("all go on from the checkpoint of step 20"));
}

// The job is started again without checkpoints.every_steps, but resumes from existing checkpoints.
TEST_F(Resuming, AJobWithoutCheckpointsResumesFromExistingOnes) {
  can_resume_ = false;
  MakeCoordinatorWithShard1();
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  const ControlActions out = WorkerGreets(1, CheckpointsAfter({10, 20}));
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  MakeCoordinatorWithShard1();
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  EXPECT_THAT(AbortTo(101, WorkerGreets(1)).sentence(), HasSubstr("worker 1 (node1) has none"));
  MakeCoordinatorWithShard1();
  WorkerGreets(0);
  const pb::Members members = MembersToldToShard(WorkerGreets(1));
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(members.has_beginning()) << "no daemon has a checkpoint";
}

TEST_F(Resuming, EndsTheStartIfOneDaemonHasNoCheckpoint) {
  MakeCoordinatorWithShard1();
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  const ControlActions out = WorkerGreets(1);
  EXPECT_FALSE(coordinator_->running());
  for (const Peer peer : {100, 101, 200}) {
    const pb::Abort abort = AbortTo(peer, out);
    EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData)) << peer;
    EXPECT_THAT(abort.sentence(),
                HasSubstr("worker 0 (node0) has steps 10 and 20; worker 1 (node1) has none"))
        << peer;
  }
}

TEST_F(Resuming, TheStartEndsOnceAllShardsCanBeTold) {
  MakeCoordinator(false);
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  EXPECT_FALSE(FirstMessageTo(100, Body::kAbort, SendsOf(WorkerGreets(1))).head.has_abort());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardGreets();
  EXPECT_TRUE(FirstMessageTo(100, Body::kAbort, SendsOf(out)).head.has_abort());
  EXPECT_TRUE(FirstMessageTo(200, Body::kAbort, SendsOf(out)).head.has_abort());
}

TEST_F(Resuming, WhereTheCheckpointsAreOfAnotherJobTheStartEnds) {
  MakeCoordinatorWithShard1();
  WorkerGreets(0);
  pb::Hello hello = TestHello(1, 11);
  *hello.mutable_unfit() = HelloWithUnfit(true, "/a is of another job").unfit();
  const ControlActions out = Deliver(101, HelloMessage(hello));
  EXPECT_FALSE(coordinator_->running());
  const pb::Abort abort = AbortTo(100, out);
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData));
  EXPECT_THAT(abort.sentence(), HasSubstr("worker 1 (node1): /a is of another job"));
}

// Unusable checkpoints do not matter if all have a usable one in common, or a worker has the state.
TEST_F(Resuming, UnusableCheckpointsDoNotEndAJobThatCanContinue) {
  for (const bool worker0_has_state : {false, true}) {
    MakeCoordinatorWithShard1();
    worker0_has_state ? Deliver(100, HelloMessage(HelloWithState(0, 10, 15, 4)))
                      : WorkerGreets(0, {CheckpointAfter(10)});
    pb::Hello hello = TestHello(1, 11);
    if (!worker0_has_state) *hello.add_checkpoints() = CheckpointAfter(10);
    *hello.mutable_unfit() = HelloWithUnfit(true, "/a is of another job").unfit();
    Deliver(101, HelloMessage(hello));
    EXPECT_TRUE(coordinator_->running());
  }
}

TEST_F(Resuming, ARunThatEndedBeforeItsFirstCommonCheckpointBeginsAnewAndSaysSo) {
  MakeCoordinatorWithShard1();
  pb::Hello hello0 = HelloWith({CheckpointAfter(10)}, 3), hello1 = HelloWith({}, 3);
  hello0.MergeFrom(TestHello(0, 10));
  hello1.MergeFrom(TestHello(1, 11));
  Deliver(100, HelloMessage(hello0));
  const ControlActions out = Deliver(101, HelloMessage(hello1));
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).run(), 7u) << "it is another run";
  EXPECT_FALSE(WelcomeOf(100, out).has_resume());
  EXPECT_THAT(LogOf(out), HasSubstr("before all had written their first checkpoint"));
}

TEST_F(Resuming, AShardWithStateMustHaveTheCheckpointToo) {
  MakeCoordinator(true);
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  WorkerGreets(1, CheckpointsAfter({10, 20}));
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardGreets({CheckpointAfter(10)});
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 10u);
}

TEST_F(Resuming, AWorkerWithStateNeedsNoCheckpoint) {
  MakeCoordinatorWithShard1();
  Deliver(100, HelloMessage(HelloWithState(0, 10, 15, 4)));
  const ControlActions out = WorkerGreets(1, CheckpointsAfter({10, 20}));
  ASSERT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume()) << "it gets State from the one that has it";
  EXPECT_TRUE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(100, out).needs_state());
}

// Only worker 1's hello shows that no worker has the state. So shard 0 then sends worker 0 back,
// whose next process says hello again.
TEST_F(Resuming, ARunThatLostAllItsWorkersGoesBack) {
  LoseAllWorkers();
  WorkerGreets(0, CheckpointsAfter({10, 20}, 7), 2);
  const ControlActions hello_actions = WorkerGreets(1, CheckpointsAfter({10, 20}, 7), 2);
  EXPECT_EQ(FirstMessageTo(100, Body::kGoBack, SendsOf(hello_actions)).head.go_back().incarnation(),
            20u);
  const ControlActions out = WorkerGreets(0, CheckpointsAfter({10, 20}, 7), 3);
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u) << LogOf(out);
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u);
}

TEST_F(Resuming, ARunThatLostAllItsWorkersEndsWithoutACommonCheckpoint) {
  LoseAllWorkers();
  WorkerGreets(0, {CheckpointAfter(10, 7)}, 2);
  WorkerGreets(1, {CheckpointAfter(20, 7)}, 2);
  const ControlActions out = WorkerGreets(0, {CheckpointAfter(10, 7)}, 3);
  const pb::Abort abort = AbortTo(100, out);
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData)) << LogOf(out);
  EXPECT_THAT(abort.sentence(),
              HasSubstr("no live worker holds the state of the job, and no checkpoint is on the "
                        "disks of all: worker 0 (node0) has step 10; worker 1 (node1) has step "
                        "20"));
}

TEST_F(Resuming, ARunThatLostAllItsWorkersBeforeTheFirstCheckpointMayStartAgain) {
  LoseAllWorkers();
  WorkerGreets(0, {}, 2);
  WorkerGreets(1, {}, 2);
  const pb::Abort abort = AbortTo(100, WorkerGreets(0, {}, 3));
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kPeerLost));
  EXPECT_THAT(abort.sentence(), HasSubstr("there is no checkpoint that all have"));
}

TEST_F(Resuming, AShardWithStateIsAskedForItsCheckpointsAgain) {
  LoseAllWorkers(true);
  WorkerGreets(0, CheckpointsAfter({10, 20}, 7), 2);
  WorkerGreets(1, CheckpointsAfter({10, 20}, 7), 2);
  const ControlActions hello_actions = WorkerGreets(0, CheckpointsAfter({10, 20}, 7), 3);
  EXPECT_TRUE(FirstMessageTo(200, Body::kGoBack, SendsOf(hello_actions)).head.has_go_back());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = ShardGreets({CheckpointAfter(10, 7)});
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 10u) << LogOf(out);
}

TEST_F(Resuming, AWorkerThatLostItsOwnStateMakesAllGoBack) {
  const ControlActions hello_actions = Worker1ComesBack(true, CheckpointsAfter({10, 20}, 7));
  EXPECT_EQ(FirstMessageTo(100, Body::kGoBack, SendsOf(hello_actions)).head.go_back().incarnation(),
            10u);
  EXPECT_THAT(LogOf(hello_actions), HasSubstr("on its disk alone"));
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = WorkerGreets(0, CheckpointsAfter({20, 30}, 7), 2);
  ASSERT_TRUE(coordinator_->running());
  EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
  EXPECT_EQ(WelcomeOf(101, out).run(), 7u);
}

// Worker 1 and shard 0 were killed together. The new process of shard 0 learns of the run from the
// hello of worker 0, which has the state.
TEST_F(Resuming, AWorkerThatLostItsOwnStateTogetherWithShard0MakesAllGoBack) {
  for (const bool holder_is_first : {true, false}) {
    MakeCoordinatorWithShard1();
    pb::Hello holder = HelloWithState(0, 10, 25, 4), newcomer = TestHello(1, 21);
    holder.set_run(7);
    newcomer.set_keeps_own(true);
    for (const auto& c : CheckpointsAfter({10, 20}, 7)) *newcomer.add_checkpoints() = c;
    if (holder_is_first) Deliver(100, HelloMessage(holder));
    ControlActions out = Deliver(101, HelloMessage(newcomer));
    if (!holder_is_first) out = Deliver(100, HelloMessage(holder));
    EXPECT_FALSE(coordinator_->running());
    const pb::GoBack go_back = FirstMessageTo(100, Body::kGoBack, SendsOf(out)).head.go_back();
    EXPECT_EQ(go_back.incarnation(), 10u);
    EXPECT_THAT(go_back.sentence(), HasSubstr("worker 1 (node1, pid 0) was started again"));
    out = WorkerGreets(0, CheckpointsAfter({20, 30}, 7), 2);
    ASSERT_TRUE(coordinator_->running());
    EXPECT_EQ(WelcomeOf(100, out).resume().step(), 20u);
    EXPECT_EQ(WelcomeOf(101, out).resume().step(), 20u);
    EXPECT_EQ(WelcomeOf(101, out).run(), 7u);
  }
}

TEST_F(Resuming, AfterARestartOfShard0AWorkerWithoutTwoCheckpointsOfTheRunGetsStateFromAnother) {
  for (const Checkpoints& offers :
       {Checkpoints{CheckpointAfter(10, 7)}, CheckpointsAfter({10, 20}, 3)}) {
    MakeCoordinatorWithShard1();
    pb::Hello holder = HelloWithState(0, 10, 25, 4), newcomer = TestHello(1, 21);
    holder.set_run(7);
    newcomer.set_keeps_own(true);
    for (const auto& c : offers) *newcomer.add_checkpoints() = c;
    Deliver(100, HelloMessage(holder));
    const ControlActions out = Deliver(101, HelloMessage(newcomer));
    EXPECT_TRUE(coordinator_->running());
    EXPECT_TRUE(WelcomeOf(101, out).needs_state());
    EXPECT_FALSE(WelcomeOf(101, out).has_resume());
  }
}

// Of the job's run (7), worker 1 has only one checkpoint. Other workers may lack that checkpoint.
TEST_F(Resuming, WithoutACommonCheckpointItGetsStateFromAnother) {
  for (const Checkpoints& offers :
       {Checkpoints{CheckpointAfter(10, 7)},
        Checkpoints{CheckpointAfter(10, 3), CheckpointAfter(20, 3), CheckpointAfter(30, 7)}}) {
    const ControlActions out = Worker1ComesBack(true, offers);
    EXPECT_TRUE(coordinator_->running());
    EXPECT_TRUE(WelcomeOf(101, out).needs_state());
    EXPECT_FALSE(WelcomeOf(101, out).has_resume());
    EXPECT_THAT(LogOf(out), HasSubstr("worker 1 (node1, pid 0) has fewer than two checkpoints of "
                                      "this run on its disk: what it has of its own"));
  }
}

TEST_F(Resuming, AWorkerWithoutOwnStateGetsStateFromAnother) {
  const ControlActions out = Worker1ComesBack(false, CheckpointsAfter({10, 20}, 7));
  EXPECT_TRUE(coordinator_->running());
  EXPECT_TRUE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
}

// The algorithm has no rounds: the servers hold the state.
TEST_F(Resuming, OnlyCheckpointsOfServersThatHoldTheStateCount) {
  MakeCoordinator(true, false);
  WorkerGreets(0, CheckpointsAfter({10, 50}));
  WorkerGreets(1);
  const ControlActions out = ShardGreets(CheckpointsAfter({20, 30}));
  ASSERT_TRUE(coordinator_->running());
  for (const Peer peer : {100, 101}) EXPECT_EQ(WelcomeOf(peer, out).resume().step(), 30u);
  EXPECT_EQ(MembersToldToShard(out).resume().step(), 30u);
  EXPECT_THAT(LogOf(out), HasSubstr("worker 1 (node1, pid 0) has no checkpoint of this run on its "
                                    "disk: what it has of its own begins anew"));
  EXPECT_THAT(LogOf(out), testing::Not(HasSubstr("worker 0 (node0, pid 0) has no checkpoint")));
}

// The workers' checkpoints cannot replace the servers', but show that the job had begun.
TEST_F(Resuming, EndsTheStartIfServersLostTheState) {
  MakeCoordinator(true, false);
  WorkerGreets(0, CheckpointsAfter({10, 50}));
  WorkerGreets(1);
  const ControlActions out = ShardGreets({});
  EXPECT_FALSE(coordinator_->running());
  EXPECT_THAT(AbortTo(100, out).sentence(),
              HasSubstr("worker 0 (node0) has steps 10 and 50; server shard 1 (node1) has none"));
}

TEST_F(Resuming, EndsTheStartIfServersLostTheWeightsOfRounds) {
  MakeCoordinator(true, true, true);
  WorkerGreets(0, CheckpointsAfter({10, 20}));
  WorkerGreets(1, CheckpointsAfter({10, 20}));
  const ControlActions out = ShardGreets({});
  EXPECT_FALSE(coordinator_->running());
  EXPECT_THAT(AbortTo(100, out).sentence(), HasSubstr("server shard 1 (node1) has none"));
}

// Servers hold the weights. Shard 1 was killed, and its disk is missing when it starts again.
TEST_F(Resuming, ARunningJobDoesNotGoBackToItsBeginningBecauseADiskIsMissing) {
  for (const bool disk_is_missing : {true, false}) {
    MakeCoordinator(true, true, true);
    ShardGreets();
    WorkerGreets(0);
    WorkerGreets(1);
    ASSERT_TRUE(coordinator_->running());
    pb::Hello shard = TestHello(1, 51);
    shard.set_role(pb::Hello::shard);
    if (!disk_is_missing) shard.set_began(7);
    PassTime(milliseconds(600));
    Deliver(200, HelloMessage(shard));
    for (const uint32_t rank : {0, 1}) {
      pb::Hello worker = TestHello(rank, 20 + rank);
      worker.set_run(7);
      for (const uint64_t step : {10, 20}) *worker.add_checkpoints() = CheckpointAfter(step, 7);
      Deliver(100 + rank, HelloMessage(worker));
    }
    const ControlActions out = Deliver(200, HelloMessage(shard));
    EXPECT_EQ(coordinator_->running(), !disk_is_missing);
    if (!disk_is_missing) continue;
    const pb::Abort abort = AbortTo(100, out);
    EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData));
    EXPECT_THAT(abort.sentence(), HasSubstr("nothing of this run is on the disk of server shard 1 "
                                            "(node1), while worker 0 (node0) has a checkpoint of "
                                            "step 20"));
  }
}

TEST_F(Resuming, AShardThatCannotGoOnEndsTheJob) {
  StartJob(true);
  Message message;
  message.head.mutable_abort()->set_code(static_cast<uint32_t>(Code::kBadData));
  message.head.mutable_abort()->set_sentence("cannot move the checkpoints");
  EXPECT_TRUE(SendsOf(Deliver(100, message)).empty())
      << "only a shard may report that it cannot go on";
  const pb::Abort abort = AbortTo(101, Deliver(200, message));
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kBadData));
  EXPECT_EQ(abort.sentence(), "server shard 1 cannot go on: cannot move the checkpoints");
}

TEST_F(Resuming, WhereShard0CannotGoOnTheJobEnds) {
  StartJob(false);
  ControlActions out;
  coordinator_->OnFailure(Status(Code::kBadData, "cannot move"), now_, &out);
  EXPECT_EQ(AbortTo(100, out).sentence(), "server shard 0 cannot go on: cannot move");
  ControlActions repeated_actions;
  coordinator_->OnFailure(Status(Code::kBadData, "cannot move"), now_, &repeated_actions);
  EXPECT_TRUE(repeated_actions.empty());
}

TEST_F(Resuming, IfServersHoldTheStateAReturningWorkerMakesNobodyGoBack) {
  const ControlActions out = Worker1ComesBack(true, CheckpointsAfter({10, 20}, 7), false);
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(WelcomeOf(101, out).needs_state());
  EXPECT_FALSE(WelcomeOf(101, out).has_resume());
}

}  // namespace
}  // namespace tern::protocol::test

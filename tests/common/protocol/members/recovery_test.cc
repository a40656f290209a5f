// Tests of recovery by shard 0: if no daemon (worker or server process) holds the state of the job,
// the job continues from the newest checkpoint that all daemons have. Each daemon offers its
// checkpoints in its hello. A run is one execution of a job from step 0 on, identified by a number.
#include "common/protocol/members/recovery.h"

#include <gmock/gmock.h>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Body = pb::Envelope::BodyCase;

TEST(NewestCommonCheckpoint, IsTheNewestThatIsInEveryOffer) {
  const Checkpoints a = CheckpointsAfter({10, 20, 30}), b = CheckpointsAfter({20, 10}),
                    c = CheckpointsAfter({30, 20}), none = {};
  const auto newest_step = [](const std::vector<const Checkpoints*>& offers) {
    const auto checkpoint = NewestCommonCheckpoint(offers);
    return checkpoint.has_value() ? checkpoint->step() : 0;
  };
  EXPECT_EQ(newest_step({&a}), 30u);
  EXPECT_EQ(newest_step({&a, &b}), 20u);
  EXPECT_EQ(newest_step({&c, &b, &a}), 20u);
  EXPECT_EQ(newest_step({&a, &none}), 0u);
  EXPECT_EQ(newest_step({}), 0u);
  const Checkpoints offer_of_another_run = {CheckpointAfter(20, 4)};
  EXPECT_EQ(newest_step({&a, &offer_of_another_run}), 0u)
      << "the same step of another run is something else";
}

// A hello with these checkpoints; `began`: the run whose beginning the disk records, 0 if none.
pb::Hello HelloWith(const Checkpoints& checkpoints, uint64_t began = 0) {
  pb::Hello hello;
  for (const pb::Checkpoint& checkpoint : checkpoints) *hello.add_checkpoints() = checkpoint;
  hello.set_began(began);
  return hello;
}
// A hello of a daemon whose checkpoints are unusable. `sentence` says why.
pb::Hello HelloWithUnfit(bool other_job, const std::string& sentence) {
  pb::Hello hello;
  hello.mutable_unfit()->set_other_job(other_job);
  hello.mutable_unfit()->set_sentence(sentence);
  return hello;
}
// Why the job must not begin anew, given the hellos of workers 0, 1, ...; empty if it may.
std::string WhyNotAnewOf(const std::vector<pb::Hello>& hellos) {
  std::vector<Offer> offers;
  for (const pb::Hello& hello : hellos) {
    const std::string number = std::to_string(offers.size());
    offers.push_back({"worker " + number + " (node" + number + ")", &hello});
  }
  return WhyNotBeginAnew(offers);
}
constexpr char kAdviceIfMissing[] =
    "; mount or restore what is missing and start again, or begin anew with --set "
    "checkpoints.resume=false, which keeps what is there under another name";

TEST(WhyNotBeginAnew, IsEmptyWhereNobodyHasAny) {
  EXPECT_EQ(WhyNotAnewOf({HelloWith({}), HelloWith({})}), "");
  EXPECT_EQ(WhyNotAnewOf({HelloWith({}, 3), HelloWith({})}), "")
      << "a run that began and wrote no checkpoint";
  EXPECT_EQ(WhyNotAnewOf({}), "");
}

TEST(WhyNotBeginAnew, SaysWhoHasWhat) {
  EXPECT_EQ(WhyNotAnewOf({HelloWith(CheckpointsAfter({100, 200, 390}), 3), HelloWith({})}),
            std::string("no checkpoint is on the disks of all: worker 0 (node0) has steps 100 to "
                        "390; worker 1 (node1) has none") +
                kAdviceIfMissing);
  const pb::Hello hello = HelloWith(CheckpointsAfter({10, 20}));
  EXPECT_THAT(WhyNotAnewOf({hello, hello, HelloWith({CheckpointAfter(30)})}),
              HasSubstr("worker 0 (node0), worker 1 (node1) have steps 10 and 20; worker 2 (node2) "
                        "has step 30;"));
}

TEST(WhyNotBeginAnew, TellsDamagedOnesFromNone) {
  const std::string fault = "/a has checkpoints up to step 20, which are damaged";
  EXPECT_THAT(WhyNotAnewOf({HelloWith({}), HelloWithUnfit(false, fault)}),
              HasSubstr("worker 0 (node0) has none; worker 1 (node1) has none that is whole: " +
                        fault + "; mount or restore"));
}

TEST(WhyNotBeginAnew, NamesTheRunsWhereTheyDiffer) {
  EXPECT_THAT(WhyNotAnewOf({HelloWith(CheckpointsAfter({10, 20}, 3)),
                            HelloWith(CheckpointsAfter({10, 20}, 4))}),
              HasSubstr("worker 0 (node0) has steps 10 and 20 of run 0000000000000003; worker 1 "
                        "(node1) has steps 10 and 20 of run 0000000000000004"));
}

TEST(WhyNotBeginAnew, NamesAFewOfMany) {
  std::vector<pb::Hello> hellos(100, HelloWith(CheckpointsAfter({10, 20})));
  hellos[99] = HelloWith({});
  EXPECT_THAT(WhyNotAnewOf(hellos),
              HasSubstr("worker 5 (node5) and 93 more have steps 10 and 20; worker "
                        "99 (node99) has none"));
  for (uint64_t rank = 0; rank < 100; ++rank)
    hellos[rank] = HelloWith({CheckpointAfter(10 + rank), CheckpointAfter(500 + rank)});
  EXPECT_LT(WhyNotAnewOf(hellos).size(), 1000u);
  EXPECT_THAT(WhyNotAnewOf(hellos), HasSubstr("the others differ too (100 kinds)"));
}

TEST(WhyNotBeginAnew, TellsOfAnotherJobFirst) {
  const std::string fault =
      "/a has checkpoints up to step 390 of another job: seed was 1, is now 2";
  EXPECT_EQ(
      WhyNotAnewOf({HelloWith({}), HelloWithUnfit(true, fault)}),
      "this job does not fit the checkpoints of worker 1 (node1): " + fault +
          "; start the job that wrote them, give another output_dir, or begin anew with --set "
          "checkpoints.resume=false, which keeps what is there under another name");
  EXPECT_THAT(WhyNotAnewOf({HelloWithUnfit(true, "x"), HelloWithUnfit(true, "y"),
                            HelloWithUnfit(true, "z")}),
              HasSubstr("of worker 0 (node0) and 2 more daemons: x;"));
}

TEST(WhyNotBeginAnew, TakesNoControlCharactersFromAPeer) {
  const std::string reason = WhyNotAnewOf({HelloWithUnfit(true, "a\nb" + std::string(5000, 'c'))});
  EXPECT_LT(reason.size(), 1000u);
  EXPECT_EQ(WhyNotAnewOf({HelloWithUnfit(true, "a\nb")}).find('\n'), std::string::npos);
}

// All daemons were killed when some had written their first checkpoint and some had not.
TEST(WhyNotBeginAnew, IsEmptyWhereARunEndedBeforeAllHadTheirFirst) {
  const pb::Hello hello0 = HelloWith({CheckpointAfter(10)}, 3);
  EXPECT_EQ(WhyNotAnewOf({hello0, HelloWith({}, 3)}), "");
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({}, 4)}), "") << "another run began there";
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({})}), "") << "no run began there: a disk is missing";
  EXPECT_NE(WhyNotAnewOf({HelloWith(CheckpointsAfter({10, 20}), 3), HelloWith({}, 3)}), "")
      << "the run had a common checkpoint";
  EXPECT_NE(WhyNotAnewOf({HelloWith({CheckpointAfter(10, 4)}, 3), HelloWith({}, 3)}), "")
      << "the checkpoint is of another run";
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({}, 3), HelloWithUnfit(false, "damaged")}), "");
}

TEST(Choose, TakesTheNewestCommonUnlessShardsOfThisRunHaveANewerOne) {
  pb::Hello worker = HelloWith(CheckpointsAfter({10, 20}, 7)), shard0 = worker, shard1 = worker;
  shard0.set_role(pb::Hello::shard);
  shard1.set_role(pb::Hello::shard);
  for (const auto& c : CheckpointsAfter({24, 26, 28}, 7)) *shard0.add_shard_checkpoints() = c;
  for (const auto& c : CheckpointsAfter({22, 24, 26}, 7)) *shard1.add_shard_checkpoints() = c;
  const std::vector<Offer> offers = {{"a", &worker}, {"b", &shard0}, {"c", &shard1}};
  const BeginPoint begin_of_started_job = ChooseBeginPoint(offers, std::nullopt);
  EXPECT_EQ(begin_of_started_job.checkpoint->step(), 20u);
  EXPECT_TRUE(begin_of_started_job.workers_load_checkpoint);
  const BeginPoint begin_of_running_job = ChooseBeginPoint(offers, 7);
  EXPECT_EQ(begin_of_running_job.checkpoint->step(), 26u);
  EXPECT_EQ(begin_of_running_job.round(), 13u);
  EXPECT_FALSE(begin_of_running_job.workers_load_checkpoint);
  EXPECT_EQ(ChooseBeginPoint(offers, 8).checkpoint->step(), 20u)
      << "the shards' checkpoints are of another run";
  shard1.clear_shard_checkpoints();
  EXPECT_TRUE(ChooseBeginPoint(offers, 7).workers_load_checkpoint)
      << "the shards have no newer checkpoint in common";
  worker.clear_checkpoints();
  EXPECT_EQ(ChooseBeginPoint(offers, 7).checkpoint->step(), 20u)
      << "only the shards have this checkpoint";
  EXPECT_FALSE(ChooseBeginPoint(offers, 7).workers_load_checkpoint);
  EXPECT_FALSE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value());
  EXPECT_EQ(ChooseBeginPoint(offers, std::nullopt).round(), 0u);
}

TEST(AnyHasCheckpoint, DoesNotCountAShardsOwn) {
  pb::Hello hello;
  *hello.add_shard_checkpoints() = CheckpointAfter(10);
  EXPECT_FALSE(AnyHasCheckpoint({{"a", &hello}}));
  *hello.add_checkpoints() = CheckpointAfter(10);
  EXPECT_TRUE(AnyHasCheckpoint({{"a", &hello}}));
}

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
  EXPECT_EQ(abort.code(), static_cast<uint32_t>(Code::kPeerLost)) << LogOf(out);
  EXPECT_THAT(abort.sentence(), HasSubstr("no checkpoint that all have"));
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

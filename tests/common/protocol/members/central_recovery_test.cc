// Tests a job whose servers (shards) hold the parameters: if a server or all workers are lost, the
// job goes back to a checkpoint that all shards have. Tests what shard 0 (the coordinator), another
// shard (a follower) and a worker do then. An incarnation is a number that identifies one process
// of a rank; `applied` is the newest round whose result a worker has; a beginning is one start of
// the job, at step 0 or at a checkpoint.
#include <gmock/gmock.h>

#include "common/protocol/members/follower.h"
#include "common/protocol/members/session/session.h"
#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Type = ControlAction::Type;
using Body = pb::Envelope::BodyCase;

// Shard 0 of a job with two shards and two workers. Worker r is peer (connection) 100 + r, shard 1
// is peer 200. The n-th process of a worker has incarnation 10 n + rank, the n-th of shard 1 has 50
// + n.
class GoingBack : public testing::Test {
 protected:
  GoingBack() { MakeCoordinator(OnLoss::kWait); }

  void MakeCoordinator(OnLoss on_loss) {
    ControlOptions options = TestOptions(2, 2, on_loss);
    options.begins_from_shards = true;
    options.can_resume = can_resume_;
    options.shard_keeps_state = {true, true};
    options.find_saved_checkpoints = [this] { return SavedAt({10, 20}, run_of_shard0_); };
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
  // Lets time pass in steps of 100 ms, in each of which these heartbeats arrive.
  ControlActions PassTime(Time time, const std::vector<Message>& heartbeats = {}) {
    ControlActions all_actions;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      for (const Message& heartbeat : heartbeats)
        Append(Deliver(100 + heartbeat.head.heartbeat().rank(), heartbeat), &all_actions);
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      Append(std::move(out), &all_actions);
    }
    return all_actions;
  }
  static void Append(ControlActions from, ControlActions* to) {
    for (ControlAction& action : from) to->push_back(std::move(action));
  }
  // Process number `process` of shard 1 says hello, without checkpoints. If the process is new, one
  // second passes before.
  ControlActions ShardSaysHello(uint64_t process) {
    if (process != process_of_shard_) now_ += milliseconds(1000);
    process_of_shard_ = process;
    return ShardAnswers({}, 0);
  }
  // Shard 1's newest process says hello and offers checkpoints of these rounds.
  ControlActions ShardAnswers(const std::vector<uint64_t>& rounds, uint64_t run = 7) {
    pb::Hello hello = TestHello(1, 50 + process_of_shard_);
    hello.set_role(pb::Hello::shard);
    SavedAt(rounds, run).AddTo(&hello);
    hello.set_began(run);
    return Deliver(200, HelloMessage(hello));
  }
  // A shard's checkpoints of this run after these rounds, and those of all daemons.
  SavedCheckpoints SavedAt(const std::vector<uint64_t>& rounds, uint64_t run) const {
    SavedCheckpoints saved;
    for (uint64_t round : common_rounds_) saved.checkpoints.push_back(CheckpointAt(round, run));
    for (const uint64_t round : rounds) saved.shard_checkpoints.push_back(CheckpointAt(round, run));
    return saved;
  }
  static bool IsShardToldToGoBack(const ControlActions& actions) {
    return MessageTo(200, Body::kGoBack, actions).head.has_go_back();
  }
  // Both workers say hello, as after the message GoBack: they hold no state, and were never
  // admitted. `run`: the number of the job's execution; 0 if the workers do not know this number.
  ControlActions WorkersSayHello(uint64_t process, uint64_t run = 0) {
    ControlActions all_actions;
    for (uint32_t rank : {0, 1}) {
      pb::Hello hello = TestHello(rank, 10 * process + rank);
      if (run != 0) hello.set_run(run);
      hello.set_keeps_own(workers_keep_own_);
      for (const uint64_t round : common_rounds_) *hello.add_checkpoints() = CheckpointAt(round, 7);
      Append(Deliver(100 + rank, HelloMessage(hello)), &all_actions);
    }
    return all_actions;
  }
  // Starts the job. Workers 0 and 1 then report these rounds as the newest that they have applied.
  void StartJob(uint64_t applied0, uint64_t applied1) {
    ShardSaysHello(1);
    WorkersSayHello(1);
    ASSERT_TRUE(coordinator_->running());
    Deliver(100, HeartbeatMessage(0, 10, applied0));
    Deliver(101, HeartbeatMessage(1, 11, applied1));
  }
  static Message MessageTo(Peer peer, Body body, const ControlActions& actions) {
    return FirstMessageTo(peer, body, SendsOf(actions));
  }
  static std::string LogOf(const ControlActions& actions) {
    std::string log;
    for (const ControlAction& action : actions) log += action.text + "\n";
    return log;
  }

  std::vector<uint64_t> common_rounds_;  // of the checkpoints that all daemons have
  bool can_resume_ = false, workers_keep_own_ = false;
  uint64_t run_of_shard0_ = 7, process_of_shard_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  Time now_ = milliseconds(1000);
};

TEST_F(GoingBack, IsNotPartOfTheFirstBeginning) {
  ShardSaysHello(1);
  const ControlActions out = WorkersSayHello(1);
  const pb::Welcome welcome = MessageTo(101, Body::kWelcome, out).head.welcome();
  EXPECT_FALSE(welcome.needs_state());
  EXPECT_FALSE(welcome.has_begin());
  const pb::Members members = MessageTo(200, Body::kMembers, out).head.members();
  EXPECT_NE(members.beginning(), 0u);
  EXPECT_EQ(members.begin(), 0u);
  EXPECT_FALSE(IsShardToldToGoBack(out));
}

TEST_F(GoingBack, AfterTheDeathOfAShardGathersAsksAndGoesToTheNewestCommonRound) {
  StartJob(25, 26);
  const ControlActions actions_on_death = ShardSaysHello(2);
  EXPECT_FALSE(coordinator_->running());
  EXPECT_EQ(MessageTo(100, Body::kGoBack, actions_on_death).head.go_back().incarnation(), 10u);
  EXPECT_EQ(MessageTo(101, Body::kGoBack, actions_on_death).head.go_back().incarnation(), 11u);
  EXPECT_TRUE(MessageTo(200, Body::kMembers, actions_on_death).head.body_case() ==
              Body::BODY_NOT_SET);

  const ControlActions actions_on_hellos = WorkersSayHello(2, 7);
  EXPECT_TRUE(IsShardToldToGoBack(actions_on_hellos))
      << "shard 1 may have newer checkpoints than in its hello";
  EXPECT_FALSE(coordinator_->running());
  EXPECT_TRUE(IsShardToldToGoBack(PassTime(milliseconds(200)))) << "the question is repeated";
  EXPECT_FALSE(coordinator_->running());

  const ControlActions actions_on_answer = ShardAnswers({20, 30});
  EXPECT_TRUE(coordinator_->running());
  for (Peer peer : {100, 101}) {
    const pb::Welcome welcome = MessageTo(peer, Body::kWelcome, actions_on_answer).head.welcome();
    EXPECT_TRUE(welcome.needs_state());
    EXPECT_FALSE(welcome.has_resume()) << "workers load no checkpoint, they pull the weights";
    EXPECT_EQ(welcome.begin(), 20u);
    EXPECT_EQ(welcome.run(), 7u);
  }
  const pb::Members members = MessageTo(200, Body::kMembers, actions_on_answer).head.members();
  EXPECT_EQ(members.begin(), 20u);
  EXPECT_EQ(members.resume().step(), 20u) << "the checkpoint that the shard loads";
  EXPECT_EQ(members.resume().run(), 7u);
  EXPECT_THAT(members.incarnations(), ElementsAre(20u, 21u));
  EXPECT_THAT(members.joining(), ElementsAre()) << "all workers begin together";
  EXPECT_THAT(LogOf(actions_on_answer),
              HasSubstr("all go on from the servers' checkpoint of step 20, from round 26"));
  EXPECT_EQ(coordinator_->lane().floor(), 20u);
}

TEST_F(GoingBack, GoesToTheNewestRoundOfAllDaemonsIfWorkersHavePrivateState) {
  can_resume_ = true;
  for (const bool keep_own : {false, true}) {
    workers_keep_own_ = keep_own;
    process_of_shard_ = 0;
    common_rounds_.clear();
    MakeCoordinator(OnLoss::kWait);
    StartJob(25, 26);
    common_rounds_ = {10};
    ShardSaysHello(2);
    WorkersSayHello(2, 7);
    const ControlActions out = ShardAnswers({20, 30});
    const auto welcome = MessageTo(100, Body::kWelcome, out).head.welcome();
    EXPECT_EQ(keep_own ? welcome.resume().round() : welcome.begin(), keep_own ? 10u : 20u);
  }
}

TEST_F(GoingBack, StartsAnewIfNoCheckpointIsCommon) {
  StartJob(5, 5);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  const ControlActions actions_on_answer = ShardAnswers({});
  EXPECT_TRUE(MessageTo(100, Body::kWelcome, actions_on_answer).head.welcome().has_begin());
  EXPECT_EQ(MessageTo(100, Body::kWelcome, actions_on_answer).head.welcome().begin(), 0u);
  EXPECT_FALSE(MessageTo(200, Body::kMembers, actions_on_answer).head.members().has_resume());
  EXPECT_THAT(LogOf(actions_on_answer), HasSubstr("all go back to the beginning, from round 5"));
}

TEST_F(GoingBack, DoesNotMixRuns) {
  StartJob(25, 26);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  const ControlActions actions_on_answer = ShardAnswers({10, 20}, 6);
  EXPECT_EQ(MessageTo(100, Body::kAbort, actions_on_answer).head.abort().code(), 65u);
  EXPECT_THAT(MessageTo(100, Body::kAbort, actions_on_answer).head.abort().sentence(),
              HasSubstr("nothing of this run is on the disk of server shard 1"));
}

TEST_F(GoingBack, BeginsAgainIfAShardDiesMeanwhileOrAfter) {
  StartJob(25, 26);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  process_of_shard_ = 3;  // shard 1 died again before it answered
  const uint64_t first_beginning =
      MessageTo(200, Body::kMembers, ShardAnswers({20})).head.members().beginning();
  const ControlActions actions_on_second_death = ShardSaysHello(4);
  EXPECT_EQ(MessageTo(100, Body::kGoBack, actions_on_second_death).head.go_back().incarnation(),
            20u);
  WorkersSayHello(3, 7);
  const pb::Members members = MessageTo(200, Body::kMembers, ShardAnswers({10})).head.members();
  EXPECT_EQ(members.begin(), 10u);
  EXPECT_NE(members.beginning(), first_beginning);
}

TEST_F(GoingBack, TellsAnOldIncarnationAgain) {
  StartJob(25, 26);
  ShardSaysHello(2);
  EXPECT_EQ(
      MessageTo(100, Body::kRefuse, Deliver(100, HeartbeatMessage(0, 10, 25))).head.refuse().then(),
      pb::Refuse::retry);
  pb::Hello hello = HelloWithState(0, 10, 25, 1);
  hello.set_run(7);
  EXPECT_EQ(
      MessageTo(100, Body::kGoBack, Deliver(100, HelloMessage(hello))).head.go_back().incarnation(),
      10u);
}

TEST_F(GoingBack, FollowsTheDeathOfShardZeroOnceAllHaveSaidHello) {
  ShardSaysHello(1);
  pb::Hello hello = HelloWithState(0, 10, 25, 3);
  hello.set_run(99);
  EXPECT_TRUE(SendsOf(Deliver(100, HelloMessage(hello))).empty());
  hello = HelloWithState(1, 11, 26, 3);
  hello.set_run(99);
  const ControlActions out = Deliver(101, HelloMessage(hello));
  for (uint32_t rank : {0, 1}) {
    EXPECT_EQ(MessageTo(100 + rank, Body::kGoBack, out).head.go_back().incarnation(), 10u + rank);
  }
  run_of_shard0_ = 99;
  EXPECT_TRUE(IsShardToldToGoBack(WorkersSayHello(2, 99)))
      << "the checkpoints in its hello may be outdated";
  const ControlActions actions_on_answer = ShardAnswers({10}, 99);
  EXPECT_EQ(MessageTo(101, Body::kWelcome, actions_on_answer).head.welcome().begin(), 10u);
  EXPECT_EQ(MessageTo(101, Body::kWelcome, actions_on_answer).head.welcome().run(), 99u);
  EXPECT_GT(MessageTo(101, Body::kWelcome, actions_on_answer).head.welcome().epoch(), 3u);
}

TEST_F(GoingBack, IsNotNeededWhereAllAreDone) {
  ShardSaysHello(1);
  ControlActions out;
  for (uint32_t rank : {0, 1}) {
    pb::Hello hello = HelloWithState(rank, 10 + rank, 100, 3);
    hello.set_run(99);
    hello.set_done(true);
    Append(Deliver(100 + rank, HelloMessage(hello)), &out);
  }
  EXPECT_TRUE(coordinator_->running());
  EXPECT_FALSE(MessageTo(200, Body::kMembers, out).head.members().has_beginning());
  EXPECT_FALSE(MessageTo(100, Body::kWelcome, out).head.welcome().needs_state());
}

TEST_F(GoingBack, FollowsTheDeathOfAllWorkers) {
  StartJob(25, 26);
  PassTime(milliseconds(4000), {});
  ShardSaysHello(1);  // shard 1 never died
  const ControlActions actions_on_replacement = WorkersSayHello(2);
  EXPECT_THAT(LogOf(actions_on_replacement),
              HasSubstr("no live worker holds the state of the job; all go back"));
  EXPECT_EQ(MessageTo(100, Body::kGoBack, actions_on_replacement).head.go_back().incarnation(),
            20u);
  WorkersSayHello(3);
  const ControlActions actions_on_answer = ShardAnswers({20});
  EXPECT_EQ(MessageTo(100, Body::kWelcome, actions_on_answer).head.welcome().begin(), 20u)
      << "the run goes on, though no worker knows it";
}

TEST_F(GoingBack, BeginsAgainIfAWorkerDiesBeforeAnyHasTheParameters) {
  StartJob(25, 26);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  ShardAnswers({20});
  Message heartbeat_without_weights = HeartbeatMessage(0, 20, 0);
  heartbeat_without_weights.head.mutable_heartbeat()->clear_applied();
  const ControlActions actions_on_loss = PassTime(milliseconds(3500), {heartbeat_without_weights});
  EXPECT_EQ(MessageTo(100, Body::kGoBack, actions_on_loss).head.go_back().incarnation(), 20u);
}

TEST_F(GoingBack, LetsAWorkerGetStateFromOneThatHasTheParameters) {
  StartJob(25, 26);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  ShardAnswers({20});
  const ControlActions actions_on_loss =
      PassTime(milliseconds(3500), {HeartbeatMessage(0, 20, 20)});
  EXPECT_EQ(MessageTo(100, Body::kGoBack, actions_on_loss).head.body_case(), Body::BODY_NOT_SET);
  const ControlActions actions_on_answer = Deliver(101, HelloMessage(TestHello(1, 31)));
  const pb::Welcome welcome = MessageTo(101, Body::kWelcome, actions_on_answer).head.welcome();
  EXPECT_TRUE(welcome.needs_state());
  EXPECT_FALSE(welcome.has_begin());
}

TEST_F(GoingBack, ContinuesWithoutLostWorkersUnderShrink) {
  MakeCoordinator(OnLoss::kShrink);
  StartJob(25, 26);
  PassTime(milliseconds(3500), {HeartbeatMessage(0, 10, 25)});
  EXPECT_TRUE(coordinator_->running());
  ShardSaysHello(2);
  pb::Hello hello = TestHello(0, 20);
  hello.set_run(7);
  Deliver(100, HelloMessage(hello));
  const ControlActions actions_on_answer = ShardAnswers({20});
  EXPECT_TRUE(coordinator_->running());
  EXPECT_THAT(MessageTo(200, Body::kMembers, actions_on_answer).head.members().incarnations(),
              ElementsAre(20u, 0u));
}

TEST_F(GoingBack, DoesNotWaitUnderShrinkForAWorkerThatDiedUnnoticed) {
  MakeCoordinator(OnLoss::kShrink);
  StartJob(25, 26);
  ShardSaysHello(2);
  pb::Hello hello = TestHello(0, 20);
  hello.set_run(7);
  Deliver(100, HelloMessage(hello));
  EXPECT_FALSE(coordinator_->running()) << "worker 1 was told, and may come";
  const std::vector<Message> heartbeats = {HeartbeatMessage(0, 20, 0)};
  const ControlActions actions_on_timeout = PassTime(milliseconds(3500), heartbeats);
  EXPECT_TRUE(IsShardToldToGoBack(actions_on_timeout));
  const ControlActions actions_on_answer = ShardAnswers({20});
  EXPECT_TRUE(coordinator_->running());
  EXPECT_THAT(MessageTo(200, Body::kMembers, actions_on_answer).head.members().incarnations(),
              ElementsAre(20u, 0u));
}

TEST_F(GoingBack, EndsTheJobAfterATimeoutIfAShardDoesNotAnswer) {
  StartJob(25, 26);
  ShardSaysHello(2);
  WorkersSayHello(2, 7);
  std::string log;
  Status end_status;
  for (int second = 0; second < 65 && end_status.ok(); ++second) {
    Message pulse;  // shard 1 is alive, but does not answer
    pulse.head.mutable_pulse()->set_incarnation(52);
    Deliver(200, pulse);
    for (const ControlAction& action :
         PassTime(milliseconds(1000), {HeartbeatMessage(0, 20, 0), HeartbeatMessage(1, 21, 0)})) {
      if (action.send.message.head.has_abort())
        end_status = Status(Code::kPeerLost, action.send.message.head.abort().sentence());
    }
  }
  EXPECT_THAT(end_status.message(), HasSubstr("did not start again"));
  EXPECT_THAT(end_status.message(), HasSubstr("a server shard did not say what it can go back to"));
}

TEST(FollowerGoingBack, SaysHelloWithItsCheckpointsAndForgetsEverybodyAtAnotherBeginning) {
  ControlOptions options;
  options.shard = 1;
  options.shards = 2;
  options.workers = 1;
  options.incarnation = 9;
  options.expected_hello = TestHello(0, 0);
  options.timings = TestTimings();
  uint64_t newest_checkpoint = 30;
  options.find_saved_checkpoints = [&newest_checkpoint] {
    return SavedCheckpoints{
        {CheckpointAt(newest_checkpoint, 7)}, {}, 7, {CheckpointAt(newest_checkpoint + 1, 7)}};
  };
  Follower follower(std::move(options), {LetterCell({Kind::kScale, 0, 0})});
  ControlActions out;
  follower.Start(milliseconds(1), &out);
  const auto deliver_from_shard0 = [&](const Message& message) {
    out.clear();
    follower.OnMessageFromShard0(message, milliseconds(2), &out);
  };
  Message go_back;
  go_back.head.mutable_go_back();
  newest_checkpoint = 40;
  deliver_from_shard0(go_back);
  ASSERT_EQ(Count(out, Type::kSendShard0), 1);
  const pb::Hello hello = out[0].send.message.head.hello();
  EXPECT_EQ(hello.incarnation(), 9u);
  ASSERT_EQ(hello.checkpoints_size(), 1);
  EXPECT_EQ(hello.checkpoints(0).step(), 40u)
      << "the newest checkpoint at the time of the question";
  ASSERT_EQ(hello.shard_checkpoints_size(), 1);
  EXPECT_EQ(hello.shard_checkpoints(0).step(), 41u);

  const auto deliver_members = [&](uint64_t epoch, uint64_t incarnation, uint64_t beginning,
                                   uint64_t begin) {
    Message message;
    *message.head.mutable_members() = MembersOf(epoch, {incarnation});
    message.head.mutable_members()->set_beginning(beginning);
    message.head.mutable_members()->set_begin(begin);
    deliver_from_shard0(message);
    EXPECT_EQ(Count(out, Type::kMembers), 1);
  };
  deliver_members(1, 10, 1, 0);
  out.clear();
  follower.OnMessage(100, HelloMessage(TestHello(0, 10)), milliseconds(3), &out);
  EXPECT_TRUE(follower.lane().open());
  deliver_members(2, 10, 1, 0);
  EXPECT_TRUE(follower.lane().open());
  deliver_members(3, 20, 2, 40);
  EXPECT_FALSE(follower.lane().open());
  EXPECT_EQ(follower.lane().floor(), 40u);
  out.clear();
  follower.OnMessage(100, HeartbeatMessage(0, 20, 40), milliseconds(4), &out);
  EXPECT_EQ(out[0].send.message.head.refuse().then(), pb::Refuse::retry);
}

// Worker 0 of a job with one shard, which has one data lane (a socket for gradients and weights).
class WorkerGoingBack : public testing::Test {
 protected:
  using ActionType = SessionAction::Type;
  WorkerGoingBack() {
    Session::Options options;
    options.incarnation = 10;
    options.data_lanes = {1};
    options.servers = {"alpha:1"};
    options.hello = TestHello(0, 0);
    options.max_state_bytes = 100;
    options.timings = TestTimings();
    session_ = std::make_unique<Session>(std::move(options));
    SessionActions out;
    session_->Start(now_, &out);
  }
  SessionActions Deliver(LaneRef lane, const Message& message) {
    SessionActions out;
    session_->OnMessage(lane, message, now_, &out);
    for (const SessionAction& action : out) {
      if (action.message.head.has_hello()) hello_ = action.message.head.hello();
    }
    return out;
  }
  // The shard welcomes the worker on its control socket and on its data lane. `begin`: the round to
  // which the job went back, if it did.
  SessionActions Join(std::optional<uint64_t> begin) {
    Message welcome;
    welcome.head.mutable_welcome()->set_incarnation(70);
    welcome.head.mutable_welcome()->set_epoch(4);
    welcome.head.mutable_welcome()->set_run(7);
    welcome.head.mutable_welcome()->add_data_ports(5000);
    if (begin.has_value()) {
      welcome.head.mutable_welcome()->set_needs_state(true);
      welcome.head.mutable_welcome()->set_begin(*begin);
    }
    Deliver({0, 0}, welcome);
    return Deliver({0, 1}, welcome);
  }
  SessionActions DeliverGoBack(uint64_t incarnation) {
    Message message;
    message.head.mutable_go_back()->set_incarnation(incarnation);
    return Deliver({0, 0}, message);
  }
  SessionActions Contribute(protocol::Contribution contribution) {
    SessionActions out;
    session_->Contribute({Kind::kPush, 0, 0}, {0, 1}, std::move(contribution), now_, &out);
    return out;
  }
  SessionActions PushRound(uint64_t round) { return Contribute(InRound{round, Text("x")}); }

  std::unique_ptr<Session> session_;
  Time now_ = milliseconds(1000);
  pb::Hello hello_;  // the worker's newest hello
};

TEST_F(WorkerGoingBack, ComesAsANewIncarnationPullsAndGoesOn) {
  Join(std::nullopt);
  session_->SetApplied(25);
  PushRound(26);
  EXPECT_TRUE(DeliverGoBack(9).empty()) << "the message is for another incarnation";
  DeliverGoBack(10);
  EXPECT_EQ(session_->phase(), Session::Phase::kJoining);
  EXPECT_NE(hello_.incarnation(), 10u);
  EXPECT_TRUE(hello_.fresh());
  EXPECT_EQ(hello_.applied(), 0u) << "the new incarnation holds no state";
  EXPECT_EQ(hello_.epoch(), 0u);
  EXPECT_EQ(hello_.run(), 7u);
  EXPECT_TRUE(PushRound(26).empty());

  SessionActions out = Join(20);
  ASSERT_EQ(Count(out, ActionType::kGoBack), 1);
  EXPECT_EQ(Count(out, ActionType::kReady), 0);
  EXPECT_TRUE(PushRound(26).empty()) << "it was computed from weights that the worker has dropped";
  out = Contribute(Pull());
  ASSERT_EQ(Count(out, ActionType::kSend), 1);
  const pb::Contribution pull_request = out[0].message.head.push();
  EXPECT_TRUE(pull_request.pull().has_weights());
  EXPECT_EQ(pull_request.incarnation(), hello_.incarnation());

  Message answer;
  answer.head.mutable_sum()->mutable_of_round()->set_round(20);
  EXPECT_EQ(Count(Deliver({0, 1}, answer), ActionType::kDeliver), 0)
      << "the worker asked for a pull, not for a round";
  answer.head.mutable_sum()->mutable_pulled()->set_number(pull_request.pull().number());
  EXPECT_EQ(Count(Deliver({0, 1}, answer), ActionType::kDeliver), 1);
  out.clear();
  session_->OnInstalled(10, now_, &out);
  EXPECT_TRUE(out.empty()) << "the weights are those of an earlier beginning";
  session_->OnInstalled(20, now_, &out);
  ASSERT_EQ(Count(out, ActionType::kReady), 1);
  EXPECT_EQ(out[0].applied, 20u);
  const pb::Contribution push = PushRound(21)[0].message.head.push();
  EXPECT_EQ(push.in_round().applied(), 20u);
  EXPECT_EQ(push.epoch(), 4u);
}

// While the worker installs the state, its compute thread has something to do, so it may hang.
TEST_F(WorkerGoingBack, DoesNotCountAsWaitingBecauseItIsNotTraining) {
  const auto says_waiting = [this](bool waiting) {
    session_->SetProgress(1, waiting, {});
    now_ += milliseconds(300);
    SessionActions out;
    session_->OnTimer(now_, &out);
    for (const SessionAction& action : out) {
      if (action.message.head.has_heartbeat()) return action.message.head.heartbeat().waiting();
    }
    ADD_FAILURE() << "no heartbeat";
    return false;
  };
  Join(std::nullopt);
  EXPECT_FALSE(says_waiting(false));
  DeliverGoBack(10);
  Join(20);
  ASSERT_EQ(session_->phase(), Session::Phase::kInstalling);
  EXPECT_FALSE(says_waiting(false));
  EXPECT_TRUE(says_waiting(true));
}

TEST_F(WorkerGoingBack, StartsOverIfItIsToldAgain) {
  Join(std::nullopt);
  DeliverGoBack(10);
  Join(20);
  const uint64_t second_incarnation = hello_.incarnation();
  DeliverGoBack(second_incarnation);
  EXPECT_NE(hello_.incarnation(), second_incarnation);
  SessionActions out;
  session_->OnInstalled(20, now_, &out);
  EXPECT_TRUE(out.empty());
  out = Join(10);
  ASSERT_EQ(Count(out, ActionType::kGoBack), 1);
  EXPECT_EQ(out.back().applied, 10u);
}

TEST_F(WorkerGoingBack, AlsoGoesBackAfterItsBye) {
  Join(std::nullopt);
  SessionActions out;
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  DeliverGoBack(10);
  EXPECT_EQ(session_->phase(), Session::Phase::kJoining);
  EXPECT_FALSE(hello_.done());
}

TEST_F(WorkerGoingBack, IsNotDoneIfItsOwnerFinishesWithoutKnowingOfIt) {
  Join(std::nullopt);
  session_->SetApplied(25);
  DeliverGoBack(10);
  SessionActions out;
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  EXPECT_EQ(session_->phase(), Session::Phase::kJoining);
  EXPECT_EQ(Count(Join(20), ActionType::kGoBack), 1);
  session_->OnInstalled(20, now_, &out);
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  EXPECT_EQ(session_->phase(), Session::Phase::kLeaving);
}

TEST_F(WorkerGoingBack, IgnoresAPulseOfAnEarlierMembership) {
  Join(std::nullopt);
  DeliverGoBack(10);
  Join(20);
  SessionActions out;
  session_->OnInstalled(20, now_, &out);
  Message pulse;
  pulse.head.mutable_pulse()->set_incarnation(70);
  pulse.head.mutable_pulse()->set_epoch(0);
  pulse.head.mutable_pulse()->set_floor(25);
  EXPECT_EQ(Count(Deliver({0, 0}, pulse), ActionType::kEnded), 0);
  pulse.head.mutable_pulse()->set_epoch(4);
  EXPECT_EQ(Count(Deliver({0, 0}, pulse), ActionType::kEnded), 1)
      << "the other members have applied newer rounds";
}

TEST_F(WorkerGoingBack, DoesNotGoBackIfItLeavesWithAnError) {
  Join(std::nullopt);
  SessionActions out;
  session_->Finish(Status(Code::kBadData, "no"), {}, {}, 100, now_, &out);
  EXPECT_TRUE(DeliverGoBack(10).empty());
  EXPECT_EQ(session_->phase(), Session::Phase::kLeaving);
}

}  // namespace
}  // namespace tern::protocol::test

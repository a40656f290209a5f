// Tests of Coordinator, the protocol machine of shard 0: it decides on the membership of workers
// and shards. An incarnation identifies one process; an epoch is the number of a membership;
// `applied` is the newest round whose result a worker has; the floor is the newest round that all
// have applied.
#include "common/protocol/members/shard0/coordinator.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Type = ControlAction::Type;
using Presence = Coordinator::Worker::Presence;

// Two workers, ranks 0 and 1, with incarnations 10 and 11 and peers (connections) 100 and 101.
// Shard 1 is peer 200.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() { MakeCoordinator(true, 1); }

  void MakeCoordinator(bool wait, uint32_t shards) {
    ControlOptions options = TestOptions(shards, 2, wait ? OnLoss::kWait : OnLoss::kFail);
    coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                                 std::vector{LetterCell({Kind::kScale, 0, 0})});
    now_ = milliseconds(1000);
    ControlActions out;
    coordinator_->Start(now_, &out);
  }
  ControlActions Deliver(Peer from, const Message& message) {
    ControlActions out;
    coordinator_->OnMessage(from, message, now_, &out);
    return out;
  }
  // Lets time pass in steps of 100 ms. In each step the ranks in `alive` send heartbeats.
  ControlActions PassTime(Time time, const std::vector<uint32_t>& alive, bool waiting = true) {
    ControlActions all_actions;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      for (uint32_t rank : alive) {
        Append(Deliver(100 + rank, HeartbeatMessage(rank, 10 + rank, applied_[rank], 1, waiting)),
               &all_actions);
      }
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      Append(std::move(out), &all_actions);
    }
    return all_actions;
  }
  static void Append(ControlActions from, ControlActions* to) {
    for (ControlAction& action : from) to->push_back(std::move(action));
  }
  ControlActions GatherWorkers() {
    ControlActions all_actions = Deliver(100, HelloMessage(TestHello(0, 10)));
    Append(Deliver(101, HelloMessage(TestHello(1, 11))), &all_actions);
    return all_actions;
  }
  static Status EndStatusOf(const ControlActions& actions) {
    for (const ControlAction& action : actions) {
      if (action.type == Type::kEnded) return action.status;
    }
    return Status(Code::kInternal, "not ended");
  }
  static pb::Refuse RefuseTo(Peer peer, const ControlActions& actions) {
    return FirstMessageTo(peer, pb::Envelope::kRefuse, SendsOf(actions)).head.refuse();
  }
  Presence presence(uint32_t rank) const { return coordinator_->workers()[rank].presence; }

  std::unique_ptr<Coordinator> coordinator_;
  Time now_{};
  uint64_t applied_[2] = {0, 0};
};

TEST_F(CoordinatorTest, WelcomesAllOnceAllAreHere) {
  EXPECT_TRUE(SendsOf(Deliver(100, HelloMessage(TestHello(0, 10)))).empty());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_TRUE(coordinator_->running());
  for (Peer peer : {100, 101}) {
    const pb::Welcome welcome =
        FirstMessageTo(peer, pb::Envelope::kWelcome, SendsOf(out)).head.welcome();
    EXPECT_EQ(welcome.incarnation(), 7u);
    EXPECT_FALSE(welcome.needs_state());
    ASSERT_EQ(welcome.data_ports_size(), 1);
    EXPECT_EQ(welcome.data_ports(0), 4000u);
  }
  EXPECT_EQ(Count(out, Type::kMembers), 1);
  EXPECT_EQ(coordinator_->job().roster.steps, 100u);
}

TEST_F(CoordinatorTest, RefusesAnotherJobModelOrPlan) {
  pb::Hello hello = TestHello(0, 10);
  hello.set_job("other");
  EXPECT_THAT(RefuseTo(100, Deliver(100, HelloMessage(hello))).sentence(),
              HasSubstr("the job differs"));
  hello = TestHello(0, 10);
  hello.set_plan_digest(0xabc);
  const pb::Refuse refuse = RefuseTo(100, Deliver(100, HelloMessage(hello)));
  EXPECT_EQ(refuse.code(), 76u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("the exchange plan differs"));
  hello = TestHello(2, 12);
  EXPECT_THAT(RefuseTo(100, Deliver(100, HelloMessage(hello))).sentence(),
              HasSubstr("no worker 2"));
  Deliver(100, HelloMessage(TestHello(0, 10)));
  hello = TestHello(1, 11);
  hello.set_steps(99);
  EXPECT_THAT(RefuseTo(101, Deliver(101, HelloMessage(hello))).sentence(),
              testing::AllOf(HasSubstr("99"), HasSubstr("100")));
}

TEST_F(CoordinatorTest, RefusesASecondProcessOfARankThatLives) {
  GatherWorkers();
  EXPECT_EQ(RefuseTo(300, Deliver(300, HelloMessage(TestHello(1, 50)))).then(), pb::Refuse::retry);
  Message heartbeat = HeartbeatMessage(1, 11, 0);
  heartbeat.head.mutable_heartbeat()->set_pulse_mark(
      FirstMessageTo(101, pb::Envelope::kPulse, SendsOf(PassTime(milliseconds(300), {0, 1})))
          .head.pulse()
          .mark());
  Deliver(101, heartbeat);
  const pb::Refuse refuse = RefuseTo(300, Deliver(300, HelloMessage(TestHello(1, 50))));
  EXPECT_EQ(refuse.code(), 77u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 1 is taken by worker 1 (node1"));
  EXPECT_EQ(presence(1), Presence::kPresent);
}

// A heartbeat is echoed only on the connection of the worker's newest hello. The sender of a
// heartbeat on another connection is asked to say hello again.
TEST_F(CoordinatorTest, EchoesHeartbeatsOfTheConnectionThatItKnows) {
  GatherWorkers();
  Message heartbeat = HeartbeatMessage(1, 11, 0, 1, true);
  heartbeat.head.mutable_heartbeat()->set_sent_ns(1234);
  EXPECT_EQ(FirstMessageTo(101, pb::Envelope::kEcho, SendsOf(Deliver(101, heartbeat)))
                .head.echo()
                .sent_ns(),
            1234);
  const ControlActions actions_on_other_connection = Deliver(999, heartbeat);
  EXPECT_EQ(RefuseTo(999, actions_on_other_connection).then(), pb::Refuse::retry);
  EXPECT_EQ(SendsOf(actions_on_other_connection).size(), 1u);
}

TEST_F(CoordinatorTest, GivesTheRankOfALostWorkerToANewProcess) {
  GatherWorkers();
  applied_[0] = 3;
  PassTime(milliseconds(500), {0, 1});
  const ControlActions actions_on_loss = PassTime(milliseconds(3200), {0});
  EXPECT_EQ(presence(1), Presence::kLost);
  EXPECT_EQ(Count(actions_on_loss, Type::kEnded), 0);
  const Message pulse =
      FirstMessageTo(100, pb::Envelope::kPulse, SendsOf(PassTime(milliseconds(300), {0})));
  ASSERT_EQ(pulse.head.pulse().absent_size(), 1);
  EXPECT_EQ(pulse.head.pulse().absent(0), 1u);
  const ControlActions out = Deliver(301, HelloMessage(TestHello(1, 51)));
  EXPECT_TRUE(
      FirstMessageTo(301, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
  EXPECT_EQ(Count(out, Type::kMembers), 1);
  EXPECT_EQ(presence(1), Presence::kPresent);
  // Shard 0 passes the new worker's request for state to worker 0, and the answer back.
  Message state_request;
  state_request.head.mutable_state_want()->set_rank(1);
  state_request.head.mutable_state_want()->set_incarnation(51);
  EXPECT_TRUE(FirstMessageTo(100, pb::Envelope::kStateWant, SendsOf(Deliver(301, state_request)))
                  .head.has_state_want());
  Message piece;
  piece.head.mutable_state_piece()->set_rank(1);
  piece.head.mutable_state_piece()->set_incarnation(51);
  EXPECT_EQ(MessagesTo(301, SendsOf(Deliver(100, piece))).size(), 1u);
  piece.head.mutable_state_piece()->set_incarnation(11);
  EXPECT_TRUE(SendsOf(Deliver(100, piece)).empty());
}

TEST_F(CoordinatorTest, TellsALostWorkerToRejoin) {
  GatherWorkers();
  PassTime(milliseconds(3200), {0});
  ASSERT_EQ(presence(1), Presence::kLost);
  EXPECT_EQ(RefuseTo(101, Deliver(101, HeartbeatMessage(1, 11, 0))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(RefuseTo(101, Deliver(101, ByeMessage(1, 11))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(RefuseTo(101, Deliver(101, HelloMessage(HelloWithState(1, 11, 0, 1)))).then(),
            pb::Refuse::rejoin);
  EXPECT_EQ(RefuseTo(101, Deliver(101, ContributionOf({{Kind::kScale, 0, 0}, 1, 1, 11, 0, 0, "x"})))
                .then(),
            pb::Refuse::rejoin);
  const ControlActions out = Deliver(102, HelloMessage(HelloWithState(1, 12, 0, 1)));
  EXPECT_FALSE(
      FirstMessageTo(102, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
  // A late message of the old incarnation changes nothing.
  EXPECT_EQ(RefuseTo(101, Deliver(101, HelloMessage(HelloWithState(1, 11, 0, 1)))).then(),
            pb::Refuse::rejoin);
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 12u);
}

TEST_F(CoordinatorTest, RefusesAWorkerWhoseRankAnotherProcessHadMeanwhile) {
  GatherWorkers();
  PassTime(milliseconds(3200), {0});
  Deliver(301, HelloMessage(TestHello(1, 51)));
  PassTime(milliseconds(3200), {0});
  ASSERT_EQ(presence(1), Presence::kLost);
  const pb::Refuse refuse = RefuseTo(102, Deliver(102, HelloMessage(HelloWithState(1, 12, 0, 1))));
  EXPECT_EQ(refuse.code(), 75u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
}

// However many processes a rank has had, the newest of them do not take it again.
TEST_F(CoordinatorTest, KeepsTheNewestLostProcessesOfARankOut) {
  GatherWorkers();
  for (uint64_t incarnation = 51; incarnation <= 62; ++incarnation) {
    PassTime(milliseconds(3200), {0});
    ASSERT_EQ(presence(1), Presence::kLost);
    Deliver(301, HelloMessage(TestHello(1, incarnation)));
    ASSERT_EQ(coordinator_->workers()[1].incarnation, incarnation);
  }
  PassTime(milliseconds(3200), {0});
  for (const uint64_t incarnation : {54, 61, 62}) {
    EXPECT_EQ(RefuseTo(302, Deliver(302, HelloMessage(TestHello(1, incarnation)))).then(),
              pb::Refuse::rejoin);
    EXPECT_EQ(presence(1), Presence::kLost);
  }
}

TEST_F(CoordinatorTest, EndsTheJobAtALossUnderFail) {
  MakeCoordinator(false, 1);
  GatherWorkers();
  applied_[0] = applied_[1] = 4;
  PassTime(milliseconds(500), {0, 1});
  const ControlActions out = PassTime(milliseconds(9700), {0});
  const pb::Abort abort = FirstMessageTo(100, pb::Envelope::kAbort, SendsOf(out)).head.abort();
  EXPECT_EQ(abort.code(), 75u);
  EXPECT_THAT(abort.sentence(), HasSubstr("worker 1 (node1, pid 0) was lost at round 5"));
  EXPECT_EQ(EndStatusOf(out).code(), Code::kPeerLost);
}

TEST_F(CoordinatorTest, LosesAWorkerWhoseComputeThreadIsStuck) {
  MakeCoordinator(false, 1);
  GatherWorkers();
  EXPECT_EQ(Count(PassTime(milliseconds(9000), {0, 1}, false), Type::kEnded), 0);
  const ControlActions out = PassTime(milliseconds(8500), {0, 1}, false);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("compute thread has not moved for 10."));
}

TEST_F(CoordinatorTest, EndsWhenNobodyHoldsTheState) {
  GatherWorkers();
  Deliver(100, ByeMessage(0, 10, Code::kInternal, "a bug"));
  const ControlActions out = Deliver(101, ByeMessage(1, 11, Code::kInternal, "a bug"));
  EXPECT_THAT(FirstMessageTo(101, pb::Envelope::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("no live worker holds the state"));
}

TEST_F(CoordinatorTest, DoesNotWaitForALostWorkerForEver) {
  GatherWorkers();
  const ControlActions out = PassTime(milliseconds(30'500), {0});
  EXPECT_EQ(EndStatusOf(out).code(), Code::kPeerLost);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("worker 1"));
}

TEST_F(CoordinatorTest, NamesWhoDidNotComeAtTheStart) {
  Deliver(100, HelloMessage(TestHello(0, 10)));
  ControlActions out;
  for (int i = 0; i < 61 && Count(out, Type::kEnded) == 0; ++i) {
    now_ += milliseconds(1000);
    Append(Deliver(100, HelloMessage(TestHello(0, 10))), &out);
    coordinator_->OnTimer(now_, &out);
    Append(Deliver(100, EndMessage()), &out);
  }
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("no hello from worker 1"));
}

// Worker 1 sends a hello that does not fit, again and again; worker 0 none.
TEST_F(CoordinatorTest, SaysWhyAWorkerThatCameIsNotThere) {
  pb::Hello hello = TestHello(1, 11);
  hello.set_plan_digest(0xabc);
  hello.set_host("rack7");
  ControlActions out;
  for (int i = 0; i < 61 && Count(out, Type::kEnded) == 0; ++i) {
    now_ += milliseconds(1000);
    Append(Deliver(101, HelloMessage(hello)), &out);
    coordinator_->OnTimer(now_, &out);
  }
  const bool is_logged = std::any_of(out.begin(), out.end(), [](const ControlAction& action) {
    return action.text.find("a hello from rack7 as worker 1: the exchange") != std::string::npos;
  });
  EXPECT_TRUE(is_logged);
  EXPECT_THAT(EndStatusOf(out).message(),
              testing::AllOf(HasSubstr(": worker 1 was refused (the exchange plan differs from "),
                             HasSubstr("); no hello from worker 0")));
}

TEST_F(CoordinatorTest, TextsOfAByeReachNoTerminalAsTheyCame) {
  for (const Code code : {Code::kOk, Code::kPeerLost}) {
    MakeCoordinator(true, 1);
    GatherWorkers();
    Message bye = ByeMessage(0, 10, code, code == Code::kOk ? "" : "cut off");
    bye.head.mutable_bye()->mutable_figures()->set_weights_path("/a\x1b]0;owned\x07\\x5c");
    bye.head.mutable_bye()->mutable_figures()->set_weights_error("x\n" + std::string(5000, 'y'));
    Deliver(100, bye);
    const pb::Figures& figures = coordinator_->workers()[0].figures;
    EXPECT_EQ(figures.weights_path(), "/a\\x1b]0;owned\\x07\\x5c");
    EXPECT_THAT(figures.weights_error(), testing::StartsWith("x\\x0ay"));
    EXPECT_LT(figures.weights_error().size(), 1100u);
    EXPECT_FALSE(figures.has_weights_rank());
  }
}

TEST_F(CoordinatorTest, EndsAfterByeFromAllAndAnAnswerFromAll) {
  GatherWorkers();
  EXPECT_TRUE(SendsOf(Deliver(100, ByeMessage(0, 10))).empty());
  ControlActions out = Deliver(101, ByeMessage(1, 11));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 0u);
  EXPECT_EQ(Count(out, Type::kEnded), 0);
  Deliver(100, EndMessage());
  const ControlActions repeated_actions = PassTime(milliseconds(100), {});
  EXPECT_TRUE(MessagesTo(100, SendsOf(repeated_actions)).empty());
  EXPECT_EQ(MessagesTo(101, SendsOf(repeated_actions)).size(), 1u);  // Worker 1 has not answered.
  out = Deliver(101, EndMessage());
  EXPECT_TRUE(EndStatusOf(out).ok());
}

TEST_F(CoordinatorTest, DoesNotWaitForAnAnswerForEver) {
  GatherWorkers();
  Deliver(100, ByeMessage(0, 10));
  Deliver(101, ByeMessage(1, 11));
  EXPECT_TRUE(EndStatusOf(PassTime(milliseconds(6100), {})).ok());
}

TEST_F(CoordinatorTest, WatchesOneThatIsDoneWhileOthersAreNot) {
  GatherWorkers();
  Deliver(101, ByeMessage(1, 11));
  EXPECT_EQ(presence(1), Presence::kDone);
  PassTime(milliseconds(3200), {0});
  EXPECT_EQ(presence(1), Presence::kLost);
}

TEST_F(CoordinatorTest, AWorkerThatFailsIsLostAndMayLeave) {
  GatherWorkers();
  const ControlActions out = Deliver(101, ByeMessage(1, 11, Code::kInternal, "a bug"));
  const pb::End end = FirstMessageTo(101, pb::Envelope::kEnd, SendsOf(out)).head.end();
  EXPECT_EQ(end.code(), 70u);
  EXPECT_EQ(presence(1), Presence::kLost);
}

TEST_F(CoordinatorTest, StopsInOrderWhereAllAreThere) {
  GatherWorkers();
  ControlActions out;
  coordinator_->OnStop(Code::kTerminated, now_, &out);
  EXPECT_EQ(Count(out, Type::kStop), 1);
  Deliver(100, StoppedByeMessage(0, 10));
  out = Deliver(101, StoppedByeMessage(1, 11));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 143u);
}

TEST_F(CoordinatorTest, StopsAtOnceWhereAWorkerIsMissing) {
  GatherWorkers();
  PassTime(milliseconds(3200), {0});
  ControlActions out;
  coordinator_->OnStop(Code::kInterrupted, now_, &out);
  EXPECT_EQ(Count(out, Type::kStop), 0);
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kAbort, SendsOf(out)).head.abort().code(), 130u);
}

TEST_F(CoordinatorTest, GathersAgainAfterItsRestart) {
  Deliver(100, HelloMessage(HelloWithState(0, 10, 5, 3)));
  const ControlActions out = Deliver(
      301, HelloMessage(TestHello(1, 51)));  // This process of rank 1 started after shard 0 died.
  const pb::Welcome welcome =
      FirstMessageTo(100, pb::Envelope::kWelcome, SendsOf(out)).head.welcome();
  EXPECT_FALSE(welcome.needs_state());
  EXPECT_EQ(welcome.epoch(), 4u);
  EXPECT_TRUE(
      FirstMessageTo(301, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
}

TEST_F(CoordinatorTest, PrefersTheSuccessorWhenItGathersAgain) {
  pb::Hello hello = HelloWithState(1, 11, 5, 1);
  hello.set_run(3);
  Deliver(101, HelloMessage(hello));
  hello = HelloWithState(1, 51, 5, 2);
  hello.set_run(3);
  Deliver(301, HelloMessage(hello));
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 51u);
}

TEST_F(CoordinatorTest, PrefersAProcessWithStateWhenItGathersAgain) {
  Deliver(101, HelloMessage(HelloWithState(1, 11, 5, 1)));
  pb::Hello hello_without_state = TestHello(1, 51);
  hello_without_state.set_epoch(2);
  EXPECT_EQ(RefuseTo(301, Deliver(301, HelloMessage(hello_without_state))).then(),
            pb::Refuse::retry);
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 11u);
}

TEST_F(CoordinatorTest, PassesNoStateOnBeforeItHasGatheredAgain) {
  pb::Hello hello_without_state = TestHello(1, 51);
  hello_without_state.set_epoch(2);
  Deliver(301, HelloMessage(hello_without_state));
  Message state_request;
  state_request.head.mutable_state_want()->set_rank(1);
  state_request.head.mutable_state_want()->set_incarnation(51);
  EXPECT_TRUE(Deliver(301, state_request).empty());  // no answer, and no end of the job
}

TEST_F(CoordinatorTest, DoesNotAdmitAWorkerBelowTheFloor) {
  Deliver(101, HelloMessage(HelloWithState(1, 11, 4, 1)));
  pb::Hello hello = HelloWithState(0, 10, 6, 1);
  hello.set_floor(5);
  const pb::Refuse refuse = RefuseTo(101, Deliver(100, HelloMessage(hello)));
  EXPECT_EQ(refuse.then(), pb::Refuse::retry);
  EXPECT_EQ(refuse.floor(), 5u);
  EXPECT_FALSE(coordinator_->running());
}

// The simulator found this case (tests/sim/recorded/1045949.events): rank 1 is gone. Rank 2 was
// frozen, and has applied fewer rounds than the floor.
TEST_F(CoordinatorTest, ContinuesAfterTheStartTimeoutWithoutAWorkerThatTheFloorHasPassed) {
  ControlOptions options = TestOptions(1, 3, OnLoss::kShrink);
  const Time start_timeout = options.timings.start_timeout;
  coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                               std::vector{LetterCell({Kind::kScale, 0, 0})});
  ControlActions out;
  coordinator_->Start(now_, &out);
  pb::Hello hello = HelloWithState(0, 10, 6, 1);
  hello.set_floor(5);
  applied_[0] = 6;
  Deliver(100, HelloMessage(hello));
  PassTime(start_timeout - milliseconds(200), {0});
  Deliver(102, HelloMessage(HelloWithState(2, 12, 4, 1)));
  EXPECT_FALSE(coordinator_->running());
  const ControlActions actions_after_timeout = PassTime(milliseconds(500), {0});
  EXPECT_EQ(RefuseTo(102, actions_after_timeout).floor(), 5u);
  EXPECT_TRUE(coordinator_->running());
  EXPECT_EQ(presence(0), Presence::kPresent);
  EXPECT_EQ(presence(2), Presence::kAbsent);
}

TEST_F(CoordinatorTest, EndsWhereItGathersOnlyNewcomersOfAJobThatHadBegun) {
  pb::Hello hello = TestHello(0, 10);
  hello.set_epoch(2);  // The worker was admitted before, and was told to fetch the state.
  Deliver(100, HelloMessage(hello));
  const ControlActions out = Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_THAT(FirstMessageTo(100, pb::Envelope::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("no live worker holds the state"));
}

TEST_F(CoordinatorTest, TellsAShardItsMembers) {
  MakeCoordinator(true, 2);
  pb::Hello hello_of_shard = TestHello(1, 70);
  hello_of_shard.set_role(pb::Hello::shard);
  EXPECT_EQ(MessagesTo(200, SendsOf(Deliver(200, HelloMessage(hello_of_shard)))).size(),
            1u);  // The message is the Welcome. Without workers there is no Members message yet.
  const pb::Members members =
      FirstMessageTo(200, pb::Envelope::kMembers, SendsOf(GatherWorkers())).head.members();
  EXPECT_EQ(members.epoch(), 1u);
  EXPECT_EQ(members.steps(), 100u);
  ASSERT_EQ(members.incarnations_size(), 2);
  EXPECT_EQ(members.incarnations(1), 11u);
  // A shard that says hello again gets the members again.
  EXPECT_TRUE(FirstMessageTo(201, pb::Envelope::kMembers,
                             SendsOf(Deliver(201, HelloMessage(hello_of_shard))))
                  .head.has_members());
  // The shard knows membership 8, from a previous process of shard 0. So the next membership gets
  // number 9.
  Message pulse;
  pulse.head.mutable_pulse()->set_epoch(8);
  EXPECT_EQ(FirstMessageTo(201, pb::Envelope::kMembers, SendsOf(Deliver(201, pulse)))
                .head.members()
                .epoch(),
            9u);
  hello_of_shard.set_rank(2);
  EXPECT_THAT(RefuseTo(202, Deliver(202, HelloMessage(hello_of_shard))).sentence(),
              HasSubstr("no server shard 2"));
}

TEST_F(CoordinatorTest, GivesAShardItsTimeToReturn) {
  MakeCoordinator(true, 2);
  GatherWorkers();
  const ControlActions out = PassTime(milliseconds(37'000), {0, 1});
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("server shard 1 was lost"));
}

}  // namespace
}  // namespace tern::protocol::test

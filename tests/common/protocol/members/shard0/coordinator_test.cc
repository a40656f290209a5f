#include "common/protocol/members/shard0/coordinator.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Type = ControlAction::Type;
using Presence = Coordinator::Worker::Presence;

// Two workers, ranks 0 and 1, incarnations 10 and 11, peers 100 and 101; shard 1 is peer 200.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() { Make(true, 1); }

  void Make(bool wait, uint32_t shards) {
    ControlOptions options = TestOptions(shards, 2, wait ? OnLoss::kWait : OnLoss::kFail);
    coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                                 std::vector{LettersCell({Kind::kScale, 0, 0})});
    now_ = milliseconds(1000);
    ControlActions out;
    coordinator_->Start(now_, &out);
  }
  ControlActions Hear(Peer from, const Message& message) {
    ControlActions out;
    coordinator_->OnMessage(from, message, now_, &out);
    return out;
  }
  // Lets time pass in steps of 100 ms, in which the ranks in `alive` send heartbeats.
  ControlActions Pass(Time time, const std::vector<uint32_t>& alive, bool waiting = true) {
    ControlActions all;
    for (const Time end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      for (uint32_t rank : alive) {
        Append(Hear(100 + rank, Beat(rank, 10 + rank, applied_[rank], 1, waiting)), &all);
      }
      ControlActions out;
      coordinator_->OnTimer(now_, &out);
      Append(std::move(out), &all);
    }
    return all;
  }
  static void Append(ControlActions from, ControlActions* to) {
    for (ControlAction& action : from) to->push_back(std::move(action));
  }
  ControlActions Gather() {
    ControlActions all = Hear(100, Say(TestHello(0, 10)));
    Append(Hear(101, Say(TestHello(1, 11))), &all);
    return all;
  }
  static Status EndOf(const ControlActions& actions) {
    for (const ControlAction& action : actions) {
      if (action.type == Type::kEnded) return action.status;
    }
    return Status(Code::kInternal, "not ended");
  }
  static pb::Refuse RefuseTo(Peer peer, const ControlActions& actions) {
    return First(peer, pb::Envelope::kRefuse, SendsOf(actions)).head.refuse();
  }
  Presence presence(uint32_t rank) const { return coordinator_->workers()[rank].presence; }

  std::unique_ptr<Coordinator> coordinator_;
  Time now_{};
  uint64_t applied_[2] = {0, 0};
};

TEST_F(CoordinatorTest, WelcomesAllOnceAllAreHere) {
  EXPECT_TRUE(SendsOf(Hear(100, Say(TestHello(0, 10)))).empty());
  EXPECT_FALSE(coordinator_->running());
  const ControlActions out = Hear(101, Say(TestHello(1, 11)));
  EXPECT_TRUE(coordinator_->running());
  for (Peer peer : {100, 101}) {
    const pb::Welcome welcome = First(peer, pb::Envelope::kWelcome, SendsOf(out)).head.welcome();
    EXPECT_EQ(welcome.incarnation(), 7u);
    EXPECT_FALSE(welcome.needs_state());
    ASSERT_EQ(welcome.data_ports_size(), 1);
    EXPECT_EQ(welcome.data_ports(0), 4000u);
  }
  EXPECT_EQ(Count(out, Type::kMembers), 1);
  EXPECT_EQ(coordinator_->steps(), 100u);
}

TEST_F(CoordinatorTest, RefusesAnotherJobModelOrPlanNamingBothValues) {
  pb::Hello hello = TestHello(0, 10);
  hello.set_job("other");
  EXPECT_THAT(RefuseTo(100, Hear(100, Say(hello))).sentence(),
              testing::AllOf(HasSubstr("'other'"), HasSubstr("'test'")));
  hello = TestHello(0, 10);
  hello.set_plan_digest(0xabc);
  const pb::Refuse refuse = RefuseTo(100, Hear(100, Say(hello)));
  EXPECT_EQ(refuse.code(), 76u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(),
              testing::AllOf(HasSubstr("0000000000000abc"), HasSubstr("0000000000000003")));
  hello = TestHello(2, 12);
  EXPECT_THAT(RefuseTo(100, Hear(100, Say(hello))).sentence(), HasSubstr("no worker 2"));
  Hear(100, Say(TestHello(0, 10)));
  hello = TestHello(1, 11);
  hello.set_steps(99);
  EXPECT_THAT(RefuseTo(101, Hear(101, Say(hello))).sentence(),
              testing::AllOf(HasSubstr("99"), HasSubstr("100")));
}

TEST_F(CoordinatorTest, RefusesASecondProcessOfARankThatLives) {
  Gather();
  EXPECT_EQ(RefuseTo(300, Hear(300, Say(TestHello(1, 50)))).then(), pb::Refuse::retry);
  Pass(milliseconds(1700), {0, 1});
  const pb::Refuse refuse = RefuseTo(300, Hear(300, Say(TestHello(1, 50))));
  EXPECT_EQ(refuse.code(), 77u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 1 is taken by worker 1 (node1"));
  EXPECT_EQ(presence(1), Presence::kPresent);
}

// A worker whose old hello arrives after its new one is asked to say hello again.
TEST_F(CoordinatorTest, EchoesHeartbeatsOfTheConnectionThatItKnows) {
  Gather();
  Message beat = Beat(1, 11, 0, 1, true);
  beat.head.mutable_heartbeat()->set_sent_ns(1234);
  EXPECT_EQ(First(101, pb::Envelope::kEcho, SendsOf(Hear(101, beat))).head.echo().sent_ns(), 1234);
  const ControlActions elsewhere = Hear(999, beat);
  EXPECT_EQ(RefuseTo(999, elsewhere).then(), pb::Refuse::retry);
  EXPECT_EQ(SendsOf(elsewhere).size(), 1u);
}

TEST_F(CoordinatorTest, GivesTheRankOfOneThatDiedToItsSuccessor) {
  Gather();
  applied_[0] = 3;
  Pass(milliseconds(500), {0, 1});
  const ControlActions lost = Pass(milliseconds(3200), {0});
  EXPECT_EQ(presence(1), Presence::kLost);
  EXPECT_EQ(Count(lost, Type::kEnded), 0);
  const Message pulse = First(100, pb::Envelope::kPulse, SendsOf(Pass(milliseconds(300), {0})));
  ASSERT_EQ(pulse.head.pulse().absent_size(), 1);
  EXPECT_EQ(pulse.head.pulse().absent(0), 1u);
  const ControlActions out = Hear(301, Say(TestHello(1, 51)));
  EXPECT_TRUE(First(301, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
  EXPECT_EQ(Count(out, Type::kMembers), 1);
  EXPECT_EQ(presence(1), Presence::kPresent);
  // Shard 0 passes the new worker's request for state to worker 0, and the answer back.
  Message want;
  want.head.mutable_state_want()->set_rank(1);
  want.head.mutable_state_want()->set_incarnation(51);
  EXPECT_TRUE(First(100, pb::Envelope::kStateWant, SendsOf(Hear(301, want))).head.has_state_want());
  Message piece;
  piece.head.mutable_state_piece()->set_rank(1);
  piece.head.mutable_state_piece()->set_incarnation(51);
  EXPECT_EQ(To(301, SendsOf(Hear(100, piece))).size(), 1u);
  piece.head.mutable_state_piece()->set_incarnation(11);
  EXPECT_TRUE(SendsOf(Hear(100, piece)).empty());
}

TEST_F(CoordinatorTest, TellsOneThatWasGivenUpToRejoin) {
  Gather();
  Pass(milliseconds(3200), {0});
  ASSERT_EQ(presence(1), Presence::kLost);
  EXPECT_EQ(RefuseTo(101, Hear(101, Beat(1, 11, 0))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(RefuseTo(101, Hear(101, Bye(1, 11))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(RefuseTo(101, Hear(101, Say(Veteran(1, 11, 0, 1)))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(
      RefuseTo(101, Hear(101, ContributionOf({{Kind::kScale, 0, 0}, 1, 1, 11, 0, 0, "x"}))).then(),
      pb::Refuse::rejoin);
  const ControlActions out = Hear(102, Say(Veteran(1, 12, 0, 1)));
  EXPECT_FALSE(First(102, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
  // A late message of the old incarnation changes nothing.
  EXPECT_EQ(RefuseTo(101, Hear(101, Say(Veteran(1, 11, 0, 1)))).then(), pb::Refuse::rejoin);
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 12u);
}

TEST_F(CoordinatorTest, SendsOneAwayWhoseRankAnotherProcessHadMeanwhile) {
  Gather();
  Pass(milliseconds(3200), {0});
  Hear(301, Say(TestHello(1, 51)));
  Pass(milliseconds(3200), {0});
  ASSERT_EQ(presence(1), Presence::kLost);
  const pb::Refuse refuse = RefuseTo(102, Hear(102, Say(Veteran(1, 12, 0, 1))));
  EXPECT_EQ(refuse.code(), 75u);
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
}

TEST_F(CoordinatorTest, EndsTheJobAtALossUnderFail) {
  Make(false, 1);
  Gather();
  applied_[0] = applied_[1] = 4;
  Pass(milliseconds(500), {0, 1});
  const ControlActions out = Pass(milliseconds(3700), {0});
  const pb::Abort abort = First(100, pb::Envelope::kAbort, SendsOf(out)).head.abort();
  EXPECT_EQ(abort.code(), 75u);
  EXPECT_THAT(abort.sentence(), HasSubstr("worker 1 (node1, pid 0) was lost at round 5"));
  EXPECT_EQ(EndOf(out).code(), Code::kPeerLost);
}

TEST_F(CoordinatorTest, LosesAWorkerWhoseComputeThreadStands) {
  Make(false, 1);
  Gather();
  EXPECT_EQ(Count(Pass(milliseconds(9000), {0, 1}, false), Type::kEnded), 0);
  const ControlActions out = Pass(milliseconds(2500), {0, 1}, false);
  EXPECT_THAT(EndOf(out).message(), HasSubstr("compute thread has not moved for 10."));
}

TEST_F(CoordinatorTest, EndsWhenNobodyHoldsTheState) {
  Gather();
  Hear(100, Bye(0, 10, Code::kInternal, "a bug"));
  const ControlActions out = Hear(101, Bye(1, 11, Code::kInternal, "a bug"));
  EXPECT_THAT(First(101, pb::Envelope::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("no live worker holds the state"));
}

TEST_F(CoordinatorTest, DoesNotWaitForALostWorkerForEver) {
  Gather();
  const ControlActions out = Pass(milliseconds(24'500), {0});
  EXPECT_EQ(EndOf(out).code(), Code::kPeerLost);
  EXPECT_THAT(EndOf(out).message(), HasSubstr("worker 1"));
}

TEST_F(CoordinatorTest, NamesWhoDidNotComeAtTheStart) {
  Hear(100, Say(TestHello(0, 10)));
  ControlActions out;
  for (int i = 0; i < 61 && Count(out, Type::kEnded) == 0; ++i) {
    now_ += milliseconds(1000);
    Append(Hear(100, Say(TestHello(0, 10))), &out);
    coordinator_->OnTimer(now_, &out);
    Append(Hear(100, EndMessage()), &out);
  }
  EXPECT_THAT(EndOf(out).message(), HasSubstr("no hello from worker 1"));
}

TEST_F(CoordinatorTest, EndsAfterByeFromAllAndAnAnswerFromAll) {
  Gather();
  EXPECT_TRUE(SendsOf(Hear(100, Bye(0, 10))).empty());
  ControlActions out = Hear(101, Bye(1, 11));
  EXPECT_EQ(First(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 0u);
  EXPECT_EQ(Count(out, Type::kEnded), 0);
  Hear(100, EndMessage());
  const ControlActions again = Pass(milliseconds(100), {});
  EXPECT_TRUE(To(100, SendsOf(again)).empty());
  EXPECT_EQ(To(101, SendsOf(again)).size(), 1u);  // has not answered
  out = Hear(101, EndMessage());
  EXPECT_TRUE(EndOf(out).ok());
}

TEST_F(CoordinatorTest, DoesNotWaitForAnAnswerForEver) {
  Gather();
  Hear(100, Bye(0, 10));
  Hear(101, Bye(1, 11));
  EXPECT_TRUE(EndOf(Pass(milliseconds(6100), {})).ok());
}

TEST_F(CoordinatorTest, WatchesOneThatIsDoneWhileOthersAreNot) {
  Gather();
  Hear(101, Bye(1, 11));
  EXPECT_EQ(presence(1), Presence::kDone);
  Pass(milliseconds(3200), {0});
  EXPECT_EQ(presence(1), Presence::kLost);
}

TEST_F(CoordinatorTest, TakesOneThatFailsForLostAndLetsItGo) {
  Gather();
  const ControlActions out = Hear(101, Bye(1, 11, Code::kInternal, "a bug"));
  const pb::End end = First(101, pb::Envelope::kEnd, SendsOf(out)).head.end();
  EXPECT_EQ(end.code(), 70u);
  EXPECT_EQ(presence(1), Presence::kLost);
}

TEST_F(CoordinatorTest, StopsInOrderWhereAllAreThere) {
  Gather();
  ControlActions out;
  coordinator_->OnStop(Code::kTerminated, now_, &out);
  EXPECT_EQ(Count(out, Type::kStop), 1);
  Hear(100, Bye(0, 10));
  out = Hear(101, Bye(1, 11));
  EXPECT_EQ(First(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 143u);
}

TEST_F(CoordinatorTest, StopsAtOnceWhereAWorkerIsMissing) {
  Gather();
  Pass(milliseconds(3200), {0});
  ControlActions out;
  coordinator_->OnStop(Code::kInterrupted, now_, &out);
  EXPECT_EQ(Count(out, Type::kStop), 0);
  EXPECT_EQ(First(100, pb::Envelope::kAbort, SendsOf(out)).head.abort().code(), 130u);
}

TEST_F(CoordinatorTest, GathersAgainAfterItsRestart) {
  Hear(100, Say(Veteran(0, 10, 5, 3)));
  const ControlActions out = Hear(301, Say(TestHello(1, 51)));  // new since shard 0 died
  const pb::Welcome welcome = First(100, pb::Envelope::kWelcome, SendsOf(out)).head.welcome();
  EXPECT_FALSE(welcome.needs_state());
  EXPECT_EQ(welcome.epoch(), 4u);
  EXPECT_TRUE(First(301, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
}

TEST_F(CoordinatorTest, PrefersTheSuccessorWhenItGathersAgain) {
  Hear(101, Say(Veteran(1, 11, 5, 1)));
  Hear(301, Say(Veteran(1, 51, 5, 2)));
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 51u);
}

TEST_F(CoordinatorTest, DoesNotPutOffOneWithStateForOneWithoutWhenItGathersAgain) {
  Hear(101, Say(Veteran(1, 11, 5, 1)));
  pb::Hello fetching = TestHello(1, 51);
  fetching.set_epoch(2);
  EXPECT_EQ(RefuseTo(301, Hear(301, Say(fetching))).then(), pb::Refuse::retry);
  EXPECT_EQ(coordinator_->workers()[1].incarnation, 11u);
}

TEST_F(CoordinatorTest, PassesNoStateOnBeforeItHasGatheredAgain) {
  pb::Hello fetching = TestHello(1, 51);
  fetching.set_epoch(2);
  Hear(301, Say(fetching));
  Message want;
  want.head.mutable_state_want()->set_rank(1);
  want.head.mutable_state_want()->set_incarnation(51);
  EXPECT_TRUE(Hear(301, want).empty());  // and the job does not end
}

TEST_F(CoordinatorTest, DoesNotGatherWithOneWhomTheFloorHasPassed) {
  Hear(101, Say(Veteran(1, 11, 4, 1)));
  pb::Hello hello = Veteran(0, 10, 6, 1);
  hello.set_floor(5);
  const pb::Refuse refuse = RefuseTo(101, Hear(100, Say(hello)));
  EXPECT_EQ(refuse.then(), pb::Refuse::retry);
  EXPECT_EQ(refuse.floor(), 5u);
  EXPECT_FALSE(coordinator_->running());
}

// As in tests/sim/recorded/1045949.events: rank 1 is gone. Rank 2 was frozen, and has applied less
// than the floor (the last round that nobody needs any more).
TEST_F(CoordinatorTest, ContinuesAfterTheStartTimeoutWithoutAWorkerThatTheFloorHasPassed) {
  ControlOptions options = TestOptions(1, 3, OnLoss::kShrink);
  const Time start_timeout = options.timings.start_timeout;
  coordinator_ = std::make_unique<Coordinator>(std::move(options),
                                               std::vector{LettersCell({Kind::kScale, 0, 0})});
  ControlActions out;
  coordinator_->Start(now_, &out);
  pb::Hello hello = Veteran(0, 10, 6, 1);
  hello.set_floor(5);
  applied_[0] = 6;
  Hear(100, Say(hello));
  Pass(start_timeout - milliseconds(200), {0});
  Hear(102, Say(Veteran(2, 12, 4, 1)));
  EXPECT_FALSE(coordinator_->running());
  const ControlActions later = Pass(milliseconds(500), {0});
  EXPECT_EQ(RefuseTo(102, later).floor(), 5u);
  EXPECT_TRUE(coordinator_->running());
  EXPECT_EQ(presence(0), Presence::kPresent);
  EXPECT_EQ(presence(2), Presence::kAbsent);
}

TEST_F(CoordinatorTest, EndsWhereItGathersOnlyNewcomersOfAJobThatHadBegun) {
  pb::Hello hello = TestHello(0, 10);
  hello.set_epoch(2);  // admitted before: it was told to fetch the state
  Hear(100, Say(hello));
  const ControlActions out = Hear(101, Say(TestHello(1, 11)));
  EXPECT_THAT(First(100, pb::Envelope::kAbort, SendsOf(out)).head.abort().sentence(),
              HasSubstr("no live worker holds the state"));
}

TEST_F(CoordinatorTest, TellsAShardItsMembers) {
  Make(true, 2);
  pb::Hello shard = TestHello(1, 70);
  shard.set_role(pb::Hello::shard);
  EXPECT_EQ(To(200, SendsOf(Hear(200, Say(shard)))).size(), 1u);  // no workers to name yet
  const pb::Members members = First(200, pb::Envelope::kMembers, SendsOf(Gather())).head.members();
  EXPECT_EQ(members.epoch(), 1u);
  EXPECT_EQ(members.steps(), 100u);
  ASSERT_EQ(members.incarnations_size(), 2);
  EXPECT_EQ(members.incarnations(1), 11u);
  // A shard that says hello again gets the members again.
  EXPECT_TRUE(
      First(201, pb::Envelope::kMembers, SendsOf(Hear(201, Say(shard)))).head.has_members());
  // The shard knows membership 8, from a previous process of shard 0: it gets number 9.
  Message pulse;
  pulse.head.mutable_pulse()->set_epoch(8);
  EXPECT_EQ(First(201, pb::Envelope::kMembers, SendsOf(Hear(201, pulse))).head.members().epoch(),
            9u);
  shard.set_rank(2);
  EXPECT_THAT(RefuseTo(202, Hear(202, Say(shard))).sentence(), HasSubstr("no server shard 2"));
}

TEST_F(CoordinatorTest, GivesAShardItsTimeToReturn) {
  Make(true, 2);
  Gather();
  const ControlActions out = Pass(milliseconds(31'000), {0, 1});
  EXPECT_THAT(EndOf(out).message(), HasSubstr("server shard 1 was lost"));
}

}  // namespace
}  // namespace tern::protocol::test

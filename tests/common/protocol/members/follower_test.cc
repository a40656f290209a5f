// Tests of Follower, the protocol machine of every shard but shard 0: it follows the decisions of
// shard 0 on membership. A pulse is a server's heartbeat; an incarnation identifies one process;
// the floor is the newest round that every member has applied.
#include "common/protocol/members/follower.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/words.h"

namespace tern::protocol {

// Changes the private state of a follower, to break its invariants.
class FollowerPeer {
 public:
  static void ForgetWelcome(Follower* follower) { follower->shard0_incarnation_ = 0; }
  static void AddPeer(Follower* follower, uint32_t rank) { follower->peers_[rank] = 1; }
  static void MakeFollowing(Follower* follower) { follower->Become(Follower::State::kFollowing); }
};

namespace test {
namespace {

using testing::HasSubstr;
using Type = ControlAction::Type;

class FollowerTest : public testing::Test {
 protected:
  FollowerTest() {
    ControlOptions options;
    options.shard = 1;
    options.shards = 2;
    options.workers = 2;
    options.incarnation = 9;
    options.data_ports = {4001};
    options.expected_hello = TestHello(0, 0);
    options.timings = TestTimings();
    follower_ = std::make_unique<Follower>(std::move(options),
                                           std::vector{LetterCell({Kind::kScale, 0, 0})});
    follower_->Start(now_, &start_actions_);
  }
  ControlActions DeliverFromShard0(const Message& message) {
    ControlActions out;
    follower_->OnMessageFromShard0(message, now_, &out);
    return out;
  }
  ControlActions Deliver(Peer from, const Message& message) {
    ControlActions out;
    follower_->OnMessage(from, message, now_, &out);
    return out;
  }
  ControlActions AdvanceTime(Time time) {
    now_ += time;
    ControlActions out;
    follower_->OnTimer(now_, &out);
    return out;
  }
  // Shard 0 (incarnation 7) welcomes the follower, and names the members: incarnations 10 and 11.
  void BecomeFollowing(uint64_t epoch = 1) {
    Message welcome;
    welcome.head.mutable_welcome()->set_incarnation(7);
    DeliverFromShard0(welcome);
    Message members;
    *members.head.mutable_members() = MembersOf(epoch, {10, 11});
    EXPECT_EQ(Count(DeliverFromShard0(members), Type::kMembers), 1);
  }
  static Message PulseMessage(uint64_t incarnation, uint64_t epoch) {
    Message pulse;
    pulse.head.mutable_pulse()->set_incarnation(incarnation);
    pulse.head.mutable_pulse()->set_epoch(epoch);
    return pulse;
  }
  static int CountHellos(const ControlActions& actions) {
    return static_cast<int>(std::count_if(actions.begin(), actions.end(), [](const auto& action) {
      return action.type == Type::kSendShard0 && action.send.message.head.has_hello();
    }));
  }

  Time now_ = milliseconds(1000);
  std::unique_ptr<Follower> follower_;
  ControlActions start_actions_;
};

TEST_F(FollowerTest, SaysAtOnceThatShard0RefusesItAndEndsWithAnotherCode) {
  follower_->SetObstacleToShard0(Status(Code::kNotAllowed, "does not know the key"));
  EXPECT_EQ(Count(AdvanceTime(milliseconds(1)), Type::kLog), 1);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(1)), Type::kLog), 0);
  const ControlActions out = AdvanceTime(TestTimings().start_timeout);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().status.code(), Code::kNotAllowed);
  EXPECT_THAT(out.back().status.message(), HasSubstr("server shard 0 does not know the key"));
}

TEST_F(FollowerTest, GreetsShard0UntilItIsWelcome) {
  EXPECT_EQ(Count(start_actions_, Type::kConnectShard0), 1);
  EXPECT_EQ(CountHellos(start_actions_), 1);
  EXPECT_EQ(CountHellos(AdvanceTime(milliseconds(100))), 1);
  BecomeFollowing();
  EXPECT_EQ(CountHellos(AdvanceTime(milliseconds(100))), 0);
}

TEST_F(FollowerTest, SaysForWhomItWaits) {
  EXPECT_EQ(follower_->WaitingFor(), "server shard 0");
  BecomeFollowing();
  EXPECT_EQ(follower_->WaitingFor(), "worker 0, worker 1");
  Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_EQ(follower_->WaitingFor(), "worker 0");
  Deliver(100, HelloMessage(TestHello(0, 10)));
  EXPECT_EQ(follower_->WaitingFor(), "");
}

TEST_F(FollowerTest, WelcomesWorkersThatAreMembers) {
  const auto refusal_to = [](Peer peer, const ControlActions& out) {
    return FirstMessageTo(peer, pb::Envelope::kRefuse, SendsOf(out)).head.refuse();
  };
  EXPECT_EQ(refusal_to(100, Deliver(100, HelloMessage(TestHello(0, 10)))).then(),
            pb::Refuse::retry);
  BecomeFollowing();
  Deliver(100, HelloMessage(TestHello(0, 10)));
  const ControlActions out = Deliver(101, HelloMessage(TestHello(1, 11)));
  const pb::Welcome welcome =
      FirstMessageTo(100, pb::Envelope::kWelcome, SendsOf(out)).head.welcome();
  EXPECT_EQ(welcome.incarnation(), 9u);
  ASSERT_EQ(welcome.data_ports_size(), 1);
  EXPECT_EQ(welcome.data_ports(0), 4001u);
  pb::Hello hello_of_other_model = TestHello(1, 11);
  hello_of_other_model.set_model_digest(5);
  EXPECT_EQ(refusal_to(102, Deliver(102, HelloMessage(hello_of_other_model))).code(), 76u);
  EXPECT_EQ(refusal_to(300, Deliver(300, HeartbeatMessage(1, 11, 0))).then(),
            pb::Refuse::retry);  // Peer 300 has sent no hello.
}

// A shard's key may speak for a shard only, so it must not take the place of a worker.
TEST_F(FollowerTest, RefusesServerShards) {
  BecomeFollowing();
  pb::Hello hello = TestHello(0, 10);
  hello.set_role(pb::Hello::shard);
  const ControlActions out = Deliver(100, HelloMessage(hello));
  const Message refusal = FirstMessageTo(100, pb::Envelope::kRefuse, SendsOf(out));
  EXPECT_THAT(refusal.head.refuse().sentence(), HasSubstr("server shard 0 says hello"));
  EXPECT_FALSE(follower_->IsPeerOfJob(100));
}

TEST_F(FollowerTest, KeepsItsFloorByHeartbeats) {
  BecomeFollowing();
  Deliver(100, HelloMessage(TestHello(0, 10)));
  Deliver(101, HelloMessage(TestHello(1, 11)));
  Deliver(100, HeartbeatMessage(0, 10, 4));
  Deliver(101, HeartbeatMessage(1, 11, 3));
  EXPECT_EQ(follower_->lane().floor(), 3u);
  const ControlActions out = AdvanceTime(milliseconds(250));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kPulse, SendsOf(out)).head.pulse().floor(), 3u);
  EXPECT_EQ(Count(out, Type::kSendShard0), 1);
}

TEST_F(FollowerTest, AsksForMembersThatItHasNotHeardOf) {
  BecomeFollowing();
  DeliverFromShard0(PulseMessage(7, 1));
  EXPECT_EQ(CountHellos(AdvanceTime(milliseconds(100))), 0);
  DeliverFromShard0(PulseMessage(7, 2));
  EXPECT_EQ(CountHellos(AdvanceTime(milliseconds(100))), 1);
}

TEST_F(FollowerTest, IgnoresOlderMembers) {
  BecomeFollowing(5);
  Message members;
  *members.head.mutable_members() = MembersOf(4, {20, 21});
  EXPECT_EQ(Count(DeliverFromShard0(members), Type::kMembers), 0);
}

// Shard 0 and all workers were started again, and the job has no checkpoints.
TEST_F(FollowerTest, BeginsTheNextRunAtItsStart) {
  const auto become_members = [this](uint64_t run, uint64_t epoch, uint64_t incarnation) {
    Message members;
    *members.head.mutable_members() = MembersOf(epoch, {incarnation, incarnation + 1});
    members.head.mutable_members()->set_run(run);
    DeliverFromShard0(members);
  };
  const auto greet = [this](uint64_t incarnation) {
    Deliver(100, HelloMessage(TestHello(0, incarnation)));
    Deliver(101, HelloMessage(TestHello(1, incarnation + 1)));
  };
  BecomeFollowing();
  become_members(50, 2, 10);
  greet(10);
  Deliver(100, HeartbeatMessage(0, 10, 4));
  Deliver(101, HeartbeatMessage(1, 11, 4));
  become_members(50, 3, 10);
  EXPECT_EQ(follower_->lane().floor(), 4u) << "the same run goes on";
  become_members(60, 3, 20);
  EXPECT_EQ(follower_->lane().floor(), 0u);
  EXPECT_EQ(follower_->WaitingFor(), "worker 0, worker 1");
  greet(20);
  EXPECT_TRUE(follower_->lane().open());
  EXPECT_EQ(follower_->lane().floor(), 0u);
}

TEST_F(FollowerTest, TellsShard0AtOnceThatItsMembersAreOlder) {
  BecomeFollowing(5);
  Message members;
  *members.head.mutable_members() = MembersOf(4, {10, 11});
  const ControlActions out = DeliverFromShard0(members);
  EXPECT_EQ(Count(out, Type::kMembers), 0);
  ASSERT_EQ(Count(out, Type::kSendShard0), 1);
  EXPECT_EQ(out[0].send.message.head.pulse().epoch(), 5u);
}

TEST_F(FollowerTest, GreetsAgainAfterARestartOfShard0) {
  BecomeFollowing();
  DeliverFromShard0(PulseMessage(8, 0));
  EXPECT_EQ(CountHellos(AdvanceTime(milliseconds(100))), 1);
  follower_->OnShard0Disconnected();
  EXPECT_EQ(Count(AdvanceTime(milliseconds(100)), Type::kConnectShard0), 1);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(2900)), Type::kConnectShard0), 0);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(200)), Type::kConnectShard0), 1);  // silent for 3 s
}

TEST_F(FollowerTest, SaysOnceThatShard0IsSilentAndThenForWhomItWaits) {
  const auto log_of = [this](Time time) {
    std::vector<std::string> log;
    for (const Time end = now_ + time; now_ < end;) {
      for (const ControlAction& action : AdvanceTime(milliseconds(100))) {
        if (action.type == Type::kLog) log.push_back(action.text);
      }
    }
    return log;
  };
  BecomeFollowing();
  EXPECT_THAT(log_of(milliseconds(12'000)),
              testing::ElementsAre("server shard 0 is silent for 3.1 s; connecting again",
                                   "still waiting for server shard 0, which is silent for 7.1 s",
                                   "still waiting for server shard 0, which is silent for 11.1 s"));
  DeliverFromShard0(PulseMessage(7, 1));
  EXPECT_THAT(log_of(milliseconds(2'900)), testing::IsEmpty());
  // A connection that is lost at once each time is no reason to say it each time.
  for (int i = 0; i < 10; ++i) {
    follower_->OnShard0Disconnected();
    EXPECT_THAT(log_of(milliseconds(100)), testing::SizeIs(i == 0 ? 1 : 0));
  }
}

TEST_F(FollowerTest, GivesShard0ItsTimeToReturn) {
  BecomeFollowing();
  EXPECT_EQ(Count(AdvanceTime(milliseconds(29'000)), Type::kEnded), 0);
  const ControlActions out = AdvanceTime(milliseconds(1'500));
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().status.code(), Code::kPeerLost);
  EXPECT_THAT(out.back().status.message(), HasSubstr("server shard 0 was lost"));
}

// The simulator found this case (tests/sim/recorded/221777.events): the process is new, and shard 0
// has not given it the place of the previous process yet.
TEST_F(FollowerTest, GivesShard0NoLongerThanThatIfShard0HasAnsweredWithoutAWelcome) {
  Message refusal;
  refusal.head.mutable_refuse()->set_then(pb::Refuse::retry);
  DeliverFromShard0(refusal);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(29'000)), Type::kEnded), 0);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(1'500)), Type::kEnded), 1);
}

TEST_F(FollowerTest, GivesShard0TheTimeOfAStartIfItWasNeverHeard) {
  EXPECT_EQ(Count(AdvanceTime(milliseconds(59'000)), Type::kEnded), 0);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(1'500)), Type::kEnded), 1);
}

TEST_F(FollowerTest, AnswersTheEndAndEnds) {
  BecomeFollowing();
  const ControlActions out = DeliverFromShard0(EndMessage(Code::kTerminated, "stopped"));
  ASSERT_EQ(Count(out, Type::kSendShard0), 1);
  EXPECT_TRUE(out.front().send.message.head.has_end());
  EXPECT_EQ(out.back().status.code(), Code::kTerminated);
  EXPECT_TRUE(AdvanceTime(milliseconds(60'000)).empty());
}

TEST_F(FollowerTest, PassesAnAbortOn) {
  BecomeFollowing();
  Deliver(100, HelloMessage(TestHello(0, 10)));
  Message abort;
  abort.head.mutable_abort()->set_code(75);
  abort.head.mutable_abort()->set_sentence("worker 1 was lost");
  const ControlActions out = DeliverFromShard0(abort);
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kAbort, SendsOf(out)).head.abort().code(), 75u);
  EXPECT_EQ(out.back().status.message(), "worker 1 was lost");
}

TEST_F(FollowerTest, EndsWithAnErrorWhateverCodeShard0Says) {
  BecomeFollowing();
  Message abort;
  abort.head.mutable_abort()->set_code(256);
  abort.head.mutable_abort()->set_sentence("gone\x1b[2J");
  const ControlActions out = DeliverFromShard0(abort);
  EXPECT_EQ(out.back().status.code(), Code::kInternal);
  EXPECT_THAT(out.back().status.message(), HasSubstr("gone\\x1b[2J"));
}

TEST_F(FollowerTest, LeavesWhereShard0RefusesIt) {
  const ControlActions out =
      DeliverFromShard0(MakeRefusal(Code::kMismatch, "another job", pb::Refuse::leave));
  EXPECT_EQ(out.back().status.code(), Code::kMismatch);
  EXPECT_THAT(out.back().status.message(), HasSubstr("another job"));
}

TEST_F(FollowerTest, TellsShard0WhyItCannotGoOnAndEndsAsShard0Says) {
  BecomeFollowing();
  const auto count_aborts = [](const ControlActions& actions) {
    return std::count_if(actions.begin(), actions.end(), [](const auto& action) {
      return action.type == Type::kSendShard0 &&
             action.send.message.head.abort().sentence() == "no disk";
    });
  };
  ControlActions out;
  follower_->OnFailure(Status(Code::kBadData, "no disk"), now_, &out);
  follower_->OnFailure(Status(Code::kBadData, "no disk"), now_, &out);
  EXPECT_EQ(count_aborts(out), 1);
  EXPECT_EQ(count_aborts(AdvanceTime(milliseconds(300))), 1)
      << "the follower repeats it until shard 0 ends the job";
  Message abort;
  abort.head.mutable_abort()->set_code(static_cast<uint32_t>(Code::kBadData));
  abort.head.mutable_abort()->set_sentence("server shard 1 cannot go on: no disk");
  const ControlActions end_actions = DeliverFromShard0(abort);
  ASSERT_EQ(Count(end_actions, Type::kEnded), 1);
}

// Its hello was answered, but the Welcome was lost.
TEST_F(FollowerTest, TellsShard0WhyItCannotGoOnOnceItIsWelcomedAgain) {
  DeliverFromShard0(PulseMessage(7, 5));
  ControlActions out;
  follower_->OnFailure(Status(Code::kBadData, "no disk"), now_, &out);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(300)), Type::kEnded), 0);
  BecomeFollowing(5);
  out = AdvanceTime(TestTimings().heartbeat);
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](const ControlAction& action) {
    return action.type == Type::kSendShard0 &&
           action.send.message.head.abort().sentence() == "no disk";
  }));
}

TEST_F(FollowerTest, WritesItsLastCheckpointAsShard0Names) {
  BecomeFollowing();
  Message end;
  end.head.mutable_end()->set_last_step(12);
  const ControlActions out = DeliverFromShard0(end);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().last_step, 12u);
}

TEST_F(FollowerTest, WritesItsLastCheckpointAsShard0NamesAfterAnError) {
  BecomeFollowing();
  Message abort;
  abort.head.mutable_abort()->set_code(75);
  abort.head.mutable_abort()->set_last_step(12);
  const ControlActions out = DeliverFromShard0(abort);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(out.back().last_step, 12u);
}

TEST_F(FollowerTest, EndsByItselfWhereItCannotGoOnAndShard0IsSilent) {
  BecomeFollowing();
  ControlActions out;
  follower_->OnFailure(Status(Code::kBadData, "no disk"), now_, &out);
  const ControlActions end_actions = AdvanceTime(milliseconds(3100));
  ASSERT_EQ(Count(end_actions, Type::kEnded), 1);
  EXPECT_EQ(end_actions.back().status.message(), "no disk");
}

TEST_F(FollowerTest, AsksShard0ToStopOnceItFollowsAgain) {
  BecomeFollowing();
  // The pulse (shard 0's heartbeat) names a membership that the follower does not know, so the
  // follower says hello again.
  DeliverFromShard0(PulseMessage(7, 5));
  ControlActions out;
  follower_->OnStop(Code::kTerminated, now_, &out);
  EXPECT_EQ(Count(out, Type::kEnded), 0);
  BecomeFollowing(5);
  out = AdvanceTime(TestTimings().heartbeat);
  const auto asks_to_stop = [](const ControlAction& action) {
    return action.type == Type::kSendShard0 && action.send.message.head.pulse().stop() == 143;
  };
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), asks_to_stop));
}

TEST_F(FollowerTest, StopsByItselfIfShard0WasNeverThere) {
  ControlActions out;
  follower_->OnStop(Code::kTerminated, now_, &out);
  ASSERT_EQ(Count(out, Type::kEnded), 1);
}

TEST_F(FollowerTest, HasHeardAWelcomeWhereItFollows) {
  BecomeFollowing();
  FollowerPeer::ForgetWelcome(follower_.get());
  EXPECT_EQ(follower_->Check().message(), "follower: following, and shard 0 has said no Welcome");
}

TEST_F(FollowerTest, SpeaksOnlyToRanksOfTheJob) {
  FollowerPeer::AddPeer(follower_.get(), 2);
  EXPECT_EQ(follower_->Check().message(), "follower: speaks to worker 2 of 2");
}

TEST_F(FollowerTest, EndsForGood) {
  Message end;
  end.head.mutable_end();
  DeliverFromShard0(end);
  EXPECT_EQ(InvariantBrokenBy([this] { FollowerPeer::MakeFollowing(follower_.get()); }),
            "follower: has ended, and cannot become following");
}

}  // namespace
}  // namespace test
}  // namespace tern::protocol

// Tests of Session: a worker's connections to all shards, and its membership in the job. A pulse is
// a server's heartbeat; an incarnation identifies one process; the floor is the newest round that
// every member has applied. LaneRef{s, l} is socket l of shard s: lane 0 is control, the others
// carry data.
#include "common/protocol/members/session/session.h"

#include <gmock/gmock.h>

#include "tests/common/protocol/members/session/session_fixture.h"

namespace tern::protocol::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Type = SessionAction::Type;
using Phase = Session::Phase;

TEST_F(SessionTest, GreetsEveryControlSocketFirst) {
  EXPECT_EQ(LanesToConnect(start_actions_), (std::vector<LaneRef>{{0, 0}, {1, 0}}));
  const auto hellos = SentMessages(pb::Envelope::kHello, start_actions_);
  ASSERT_EQ(hellos.size(), 2u);
  EXPECT_TRUE(hellos[0].message.head.hello().fresh());
  EXPECT_EQ(hellos[0].message.head.hello().incarnation(), 11u);
  EXPECT_EQ(SentMessages(pb::Envelope::kHello, AdvanceTime(milliseconds(100))).size(), 2u);
}

TEST_F(SessionTest, ConnectsDataLanesOnceShard0HasWelcomedIt) {
  EXPECT_TRUE(LanesToConnect(DeliverWelcome({1, 0}, 71)).empty());
  const SessionActions out = DeliverWelcome({0, 0}, 70);
  EXPECT_EQ(LanesToConnect(out), (std::vector<LaneRef>{{0, 1}, {1, 1}, {1, 2}}));
  EXPECT_EQ(out[0].port, 5000u);
  const auto hellos = SentMessages(pb::Envelope::kHello, out);
  // The worker has state: the initial weights.
  EXPECT_FALSE(hellos[0].message.head.hello().fresh());
}

TEST_F(SessionTest, IsReadyOnceAllLanesAreUp) {
  const SessionActions out = JoinJob();
  EXPECT_EQ(Count(out, Type::kReady), 1);
  EXPECT_EQ(session_->phase(), Phase::kRunning);
}

TEST_F(SessionTest, FetchesStateAfterGreetingEveryLane) {
  DeliverWelcome({0, 0}, 70, true);
  DeliverWelcome({1, 0}, 71, true);
  DeliverWelcome({0, 1}, 70);
  EXPECT_TRUE(SentMessages(pb::Envelope::kStateWant, DeliverWelcome({1, 1}, 71)).empty());
  EXPECT_EQ(SentMessages(pb::Envelope::kStateWant, DeliverWelcome({1, 2}, 71)).size(), 1u);
  EXPECT_EQ(session_->phase(), Phase::kFetching);
  // The request is repeated after an eighth of resend_after, then after twice as long.
  EXPECT_EQ(SentMessages(pb::Envelope::kStateWant, AdvanceTime(milliseconds(40))).size(), 1u);
  EXPECT_EQ(SentMessages(pb::Envelope::kStateWant, AdvanceTime(milliseconds(70))).size(), 0u);
  EXPECT_EQ(SentMessages(pb::Envelope::kStateWant, AdvanceTime(milliseconds(10))).size(), 1u);
  Message message;
  pb::StatePiece* piece = message.head.mutable_state_piece();
  piece->set_incarnation(11);
  piece->set_transfer(1);
  piece->set_pieces(2);
  piece->set_applied(5);
  piece->set_stop_after(8);
  message.payload = Text("abcd");
  EXPECT_EQ(SentMessages(pb::Envelope::kStateWant, Deliver({0, 0}, message)).size(), 1u);
  piece->set_piece(1);
  message.payload = Text("ef");
  SessionActions out = Deliver({0, 0}, message);
  ASSERT_EQ(Count(out, Type::kInstall), 1);
  EXPECT_EQ(View(out[0].state), "abcdef");
  EXPECT_EQ(out[0].applied, 5u);
  EXPECT_TRUE(SentMessages(pb::Envelope::kStateWant, AdvanceTime(milliseconds(300))).empty());
  out.clear();
  session_->OnInstalled(5, now_, &out);
  EXPECT_EQ(out[0].type, Type::kReady);
  EXPECT_EQ(out[0].applied, 5u);
  EXPECT_EQ(out[0].stop_after, 8u);
  EXPECT_EQ(SentMessages(pb::Envelope::kHeartbeat, out)[0].message.head.heartbeat().applied(), 5u);
}

TEST_F(SessionTest, SaysForWhomItWaits) {
  EXPECT_EQ(session_->WaitingFor(now_), "server shard 0 (alpha:1), server shard 1 (beta:2)");
  DeliverWelcome({0, 0}, 70);
  DeliverWelcome({0, 1}, 70);
  EXPECT_EQ(session_->WaitingFor(now_), "server shard 1 (beta:2)");
  DeliverEcho({1, 0});
  EXPECT_EQ(session_->WaitingFor(now_), "the welcome of server shard 1 (beta:2)");
  DeliverWelcome({1, 0}, 71);
  EXPECT_EQ(session_->WaitingFor(now_), "data sockets of server shard 1 (beta:2)");
  DeliverWelcome({1, 1}, 71);
  DeliverWelcome({1, 2}, 71);
  EXPECT_EQ(session_->phase(), Phase::kRunning);
  EXPECT_EQ(session_->WaitingFor(now_), "");
}

TEST_F(SessionTest, CountsHowLongItsHeartbeatsTakeThereAndBack) {
  JoinJob();
  AdvanceTime(milliseconds(300));
  Message echo;
  for (const int round_trip_ms : {30, 10}) {
    echo.head.mutable_echo()->set_sent_ns(Time(now_ - milliseconds(round_trip_ms)).count());
    Deliver({0, 0}, echo);
  }
  echo.head.mutable_echo()->set_sent_ns(Time(now_ + milliseconds(5)).count());
  Deliver({0, 0}, echo);  // an echo with a time in the future is ignored
  EXPECT_EQ(session_->round_trips().count, 2u);
  EXPECT_EQ(session_->round_trips().total, Time(milliseconds(40)));
  EXPECT_EQ(session_->round_trips().longest, Time(milliseconds(30)));
}

TEST_F(SessionTest, GivesItsStateToOthers) {
  JoinJob();
  Message state_want;
  state_want.head.mutable_state_want()->set_rank(0);
  state_want.head.mutable_state_want()->set_incarnation(20);
  EXPECT_EQ(Count(Deliver({0, 0}, state_want), Type::kSnapshot), 1);
  EXPECT_TRUE(Deliver({0, 0}, state_want).empty());
  SessionActions out;
  session_->OnSnapshot(Text("abcdef"), 3, &out);
  const auto pieces = SentMessages(pb::Envelope::kStatePiece, out);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(View(pieces[0].message.payload), "abcd");
  EXPECT_EQ(pieces[0].message.head.state_piece().applied(), 3u);
}

TEST_F(SessionTest, LeavesWhereItIsRefused) {
  const SessionActions out = Deliver(
      {0, 0}, MakeRefusal(Code::kNotAllowed, "rank 1 is taken by worker 1", pb::Refuse::leave));
  EXPECT_EQ(EndStatusOf(out).code(), Code::kNotAllowed);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("server shard 0: rank 1 is taken"));
  const auto byes = SentMessages(pb::Envelope::kBye, out);
  ASSERT_EQ(byes.size(), 1u) << "so that shard 0 need not wait for a timeout";
  EXPECT_EQ(byes[0].message.head.bye().code(), 77u);
  EXPECT_EQ(SentMessages(pb::Envelope::kEnd, out).size(), 1u)
      << "so that shard 0 does not wait for an answer if it ends the job";
  EXPECT_TRUE(AdvanceTime(milliseconds(1000)).empty());
}

std::string LogText(const SessionActions& actions) {
  std::string text;
  for (const SessionAction& action : actions) {
    if (action.type == Type::kLog) text += action.text + "\n";
  }
  return text;
}

TEST_F(SessionTest, SaysAtOnceThatAShardRefusesItAndEndsWithAnotherCode) {
  session_->SetObstacle(1, Status(Code::kNotAllowed, "does not know the key"));
  const SessionActions out = AdvanceTime(milliseconds(100));
  EXPECT_THAT(LogText(out), HasSubstr("server shard 1 (beta:2) does not know the key"));
  // The log says it once.
  EXPECT_THAT(LogText(AdvanceTime(milliseconds(100))), Not(HasSubstr("does not know")));
  EXPECT_EQ(Count(AdvanceTime(TestTimings().start_timeout - milliseconds(200)), Type::kEnded), 0);
  const Status status = EndStatusOf(AdvanceTime(milliseconds(1)));
  EXPECT_EQ(status.code(), Code::kNotAllowed);
  EXPECT_THAT(status.message(), HasSubstr("server shard 1 (beta:2) does not know the key"));
}

TEST_F(SessionTest, EndsWithAnotherCodeIfARestartedShardRefusesItsKeys) {
  JoinJob();
  AdvanceTime(milliseconds(2000));  // The session replaces the silent connections.
  session_->SetObstacle(0, Status(Code::kNotAllowed, "does not hold the pinned key"));
  const Status status = EndStatusOf(AdvanceTime(TestTimings().server_return_timeout));
  EXPECT_EQ(status.code(), Code::kNotAllowed);
  EXPECT_THAT(status.message(), HasSubstr("server shard 0 (alpha:1) does not hold"));
}

TEST_F(SessionTest, SaysHelloAgainWhereItIsAskedTo) {
  JoinJob();
  Deliver({1, 2}, MakeRefusal(Code::kNotAllowed, "not yet", pb::Refuse::retry));
  const auto hellos = SentMessages(pb::Envelope::kHello, AdvanceTime(milliseconds(100)));
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].lane, (LaneRef{1, 2}));
}

TEST_F(SessionTest, RejoinsAsANewIncarnationWithWhatItHas) {
  JoinJob();
  session_->SetApplied(4);
  const SessionActions out =
      Deliver({0, 0}, MakeRefusal(Code::kNotAllowed, "given up", pb::Refuse::rejoin));
  const auto hellos = SentMessages(pb::Envelope::kHello, out);
  ASSERT_EQ(hellos.size(), 2u);
  EXPECT_NE(hellos[0].message.head.hello().incarnation(), 11u);
  EXPECT_FALSE(hellos[0].message.head.hello().fresh());
  EXPECT_EQ(hellos[0].message.head.hello().applied(), 4u);
  EXPECT_EQ(Count(JoinJob(), Type::kReady), 0);  // The session has been ready since its first join.
  EXPECT_EQ(session_->phase(), Phase::kRunning);
}

TEST_F(SessionTest, EndsIfTheFloorIsBeyondItsAppliedRound) {
  JoinJob();
  session_->SetApplied(4);
  EXPECT_EQ(Count(DeliverPulse({1, 0}, 71, 4), Type::kEnded), 0);
  const SessionActions out = DeliverPulse({1, 0}, 71, 5);
  EXPECT_EQ(EndStatusOf(out).code(), Code::kPeerLost);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("round 5, but this one only 4"));
}

TEST_F(SessionTest, FindsARestartedServerAndGivesItWhatItHolds) {
  JoinJob();
  SessionActions out;
  session_->Contribute({Kind::kPush, 0, 0}, {1, 2}, InRound{1, Text("x")}, now_, &out);
  Message sum_message;
  sum_message.head.mutable_sum();
  // This outcome (the answer to a contribution) has neither a round nor a count of pushes (clock).
  EXPECT_EQ(Count(Deliver({1, 2}, sum_message), Type::kDeliver), 0);
  sum_message.head.mutable_sum()->mutable_of_round()->set_round(1);
  sum_message.payload = Text("xx");
  EXPECT_EQ(Count(Deliver({1, 2}, sum_message), Type::kDeliver), 1);
  EXPECT_EQ(LanesToConnect(DeliverPulse({1, 0}, 99)), (std::vector<LaneRef>{{1, 0}}));
  // The session is connecting already.
  EXPECT_TRUE(LanesToConnect(DeliverPulse({1, 0}, 99)).empty());
  EXPECT_EQ(LanesToConnect(DeliverWelcome({1, 0}, 99)), (std::vector<LaneRef>{{1, 1}, {1, 2}}));
  EXPECT_TRUE(SentMessages(pb::Envelope::kHeldSum, DeliverWelcome({1, 1}, 99)).empty());
  EXPECT_EQ(SentMessages(pb::Envelope::kHeldSum, DeliverWelcome({1, 2}, 99)).size(), 1u);
  Message held_confirmation;
  held_confirmation.head.mutable_held_sum()->mutable_of_round()->set_round(1);
  Deliver({1, 2}, held_confirmation);
  EXPECT_TRUE(SentMessages(pb::Envelope::kHeldSum, AdvanceTime(milliseconds(300))).empty());
}

TEST_F(SessionTest, SaysEveryFourSecondsForWhichServerItWaits) {
  JoinJob();
  std::string log;
  for (int i = 0; i < 150; ++i) {
    DeliverPulse({0, 0}, 70);
    DeliverEcho({0, 0});
    for (const SessionAction& action : AdvanceTime(milliseconds(100))) log += action.text + "\n";
  }
  constexpr char kSentence[] = "still waiting for server shard 1 (beta:2)\n";
  const size_t first = log.find(kSentence), second = log.find(kSentence, first + 1);
  EXPECT_NE(second, std::string::npos) << log;
  EXPECT_NE(log.find(kSentence, second + 1), std::string::npos) << log;
}

// The other end of a damaged connection may wait for the rest of a message that never comes.
// The shard was replaced, and its data sockets have other ports, which its welcome names.
TEST_F(SessionTest, GivesAServerItsTimeToReturn) {
  JoinJob();
  now_ += milliseconds(29'000);
  DeliverPulse({0, 0}, 70);
  const SessionActions out = AdvanceTime(milliseconds(1'500));
  EXPECT_EQ(EndStatusOf(out).code(), Code::kPeerLost);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("server shard 1 (beta:2) was lost at round 1"));
}

TEST_F(SessionTest, NamesWhomTheStartWaitsFor) {
  Message pulse;
  pulse.head.mutable_pulse()->add_absent(0);
  DeliverWelcome({0, 0}, 70);
  pulse.head.mutable_pulse()->set_incarnation(70);
  SessionActions out;
  for (int i = 0; i < 61; ++i) {
    Deliver({0, 0}, pulse);
    out = AdvanceTime(milliseconds(1'000));
  }
  EXPECT_THAT(EndStatusOf(out).message(),
              testing::AllOf(HasSubstr("server shard 1 (beta:2)"), HasSubstr("worker 0")));
}

// Servers send no Welcome before all workers have come.
TEST_F(SessionTest, DoesNotNameServersThatAnswer) {
  Message pulse;
  pulse.head.mutable_pulse()->set_incarnation(70);
  pulse.head.mutable_pulse()->add_absent(0);
  std::string log;
  SessionActions out;
  for (int i = 0; i < 610 && session_->phase() == Phase::kJoining; ++i) {
    Deliver({0, 0}, pulse);
    DeliverPulse({1, 0}, 71);
    out = AdvanceTime(milliseconds(100));
    for (const SessionAction& action : out) log += action.text + "\n";
  }
  EXPECT_THAT(log, HasSubstr("still waiting for worker 0\n"));
  EXPECT_THAT(log, testing::Not(HasSubstr("still waiting for server shard")));
  EXPECT_THAT(EndStatusOf(out).message(), testing::EndsWith("still waiting for worker 0"));
}

// The simulator found this case (tests/sim/recorded/117079.events): the link of a server is down
// while a worker opens its data links, and later again.
TEST_F(SessionTest, TheStartDoesNotFailForAServerThatIsAway) {
  DeliverWelcome({0, 0}, 70);
  DeliverWelcome({1, 0}, 71);
  const auto pass_time = [this](int seconds, bool hears_shard0) {
    for (int i = 0; i < 10 * seconds && session_->phase() == Phase::kJoining; ++i) {
      if (hears_shard0) DeliverPulse({0, 0}, 70);
      DeliverPulse({1, 0}, 71);
      AdvanceTime(milliseconds(100));
    }
  };
  for (int i = 0; i < 3; ++i) {
    pass_time(/*seconds=*/25, false);
    pass_time(/*seconds=*/5, true);
  }
  EXPECT_EQ(session_->phase(), Phase::kJoining) << "75 s without a server";
  pass_time(/*seconds=*/50, true);
  EXPECT_EQ(session_->phase(), Phase::kJoining);
  pass_time(/*seconds=*/10, true);
  EXPECT_EQ(session_->phase(), Phase::kEnded) << "the data links are missing";
}

TEST_F(SessionTest, AServerThatIsAwayAtTheStartHasTheTimeOfAnyOther) {
  DeliverWelcome({0, 0}, 70);
  const SessionActions out = AdvanceTime(milliseconds(30'100));
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("server shard 0 (alpha:1) was lost"));
}

TEST_F(SessionTest, GivesARestartedShard0ItsTimeEvenIfTheFirstSentNoPulse) {
  DeliverWelcome({0, 0}, 70);
  // Shard 0 was restarted before its first process had sent a pulse. 61 s pass, more than the start
  // timeout.
  for (int i = 0; i < 610; ++i) {
    DeliverPulse({0, 0}, 80);
    DeliverPulse({1, 0}, 71);
    AdvanceTime(milliseconds(100));
    ASSERT_EQ(session_->phase(), Phase::kJoining) << i;
  }
  SessionActions out;
  for (int i = 0; i < 30 && session_->phase() == Phase::kJoining; ++i) {
    DeliverPulse({0, 0}, 80);
    DeliverPulse({1, 0}, 71);
    out = AdvanceTime(milliseconds(100));
  }
  EXPECT_EQ(EndStatusOf(out).code(), Code::kPeerLost);
}

TEST_F(SessionTest, StaysAfterByeUntilTheEnd) {
  JoinJob();
  SessionActions out;
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  EXPECT_EQ(SentMessages(pb::Envelope::kBye, out).size(), 1u);
  for (int i = 0; i < 40; ++i) {
    DeliverPulse({0, 0}, 70);
    EXPECT_EQ(SentMessages(pb::Envelope::kBye, AdvanceTime(milliseconds(250))).size(), 1u);
  }
  out = Deliver({0, 0}, EndMessage());
  EXPECT_EQ(SentMessages(pb::Envelope::kEnd, out).size(), 1u);
  EXPECT_TRUE(EndStatusOf(out).ok());
}

TEST_F(SessionTest, SaysByeToARestartedShard0) {
  JoinJob();
  SessionActions out;
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  DeliverPulse({0, 0}, 99);
  EXPECT_EQ(SentMessages(pb::Envelope::kBye, DeliverWelcome({0, 0}, 99)).size(), 1u);
}

TEST_F(SessionTest, EndsWithSuccessIfShard0DoesNotReturnAfterItsBye) {
  JoinJob();
  SessionActions out;
  session_->Finish(Ok(), {}, {}, 100, now_, &out);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(29'000)), Type::kEnded), 0);
  EXPECT_TRUE(EndStatusOf(AdvanceTime(milliseconds(1'500))).ok());
}

TEST_F(SessionTest, EndsSoonAfterAFailure) {
  JoinJob();
  SessionActions out;
  session_->Finish(Status(Code::kBadData, "bad"), {}, {}, 100, now_, &out);
  EXPECT_EQ(SentMessages(pb::Envelope::kBye, out)[0].message.head.bye().code(), 65u);
  EXPECT_EQ(EndStatusOf(AdvanceTime(milliseconds(3'100))).code(), Code::kBadData);
}

TEST_F(SessionTest, IsNotDoneWhereTheJobEndsBeforeIt) {
  JoinJob();
  EXPECT_EQ(EndStatusOf(Deliver({0, 0}, EndMessage())).code(), Code::kPeerLost);
}

TEST_F(SessionTest, EndsWithWhatAnAbortSays) {
  JoinJob();
  Message abort;
  abort.head.mutable_abort()->set_code(75);
  abort.head.mutable_abort()->set_sentence("worker 0 was lost at round 3");
  EXPECT_EQ(EndStatusOf(Deliver({0, 0}, abort)).message(), "worker 0 was lost at round 3");
}

TEST_F(SessionTest, EndsWithAnErrorWhateverCodeAnAbortHas) {
  for (const uint32_t code : {0u, 256u, 4294967295u}) {
    MakeSession();
    JoinJob();
    Message abort;
    abort.head.mutable_abort()->set_code(code);
    abort.head.mutable_abort()->set_sentence("worker 0\nwas lost");
    const Status end_status = EndStatusOf(Deliver({0, 0}, abort));
    EXPECT_EQ(end_status.code(), Code::kInternal) << code;
    EXPECT_THAT(end_status.message(), HasSubstr("worker 0\\x0awas lost"));
    EXPECT_EQ(session_->phase(), Phase::kEnded);
  }
  MakeSession();
  EXPECT_EQ(EndStatusOf(Deliver({0, 0}, MakeRefusal(Code::kOk, "go", pb::Refuse::leave))).code(),
            Code::kInternal);
}

TEST_F(SessionTest, AsksShard0ToStopTheJobUntilItEnds) {
  JoinJob();
  SessionActions out;
  session_->Stop(Status(Code::kInterrupted, "stopped"), now_, &out);
  const auto heartbeats = SentMessages(pb::Envelope::kHeartbeat, out);
  ASSERT_EQ(heartbeats.size(), 2u) << "without waiting for the next heartbeat";
  EXPECT_EQ(heartbeats[0].message.head.heartbeat().stop(), 0u) << "only shard 0 can stop the job";
  EXPECT_EQ(heartbeats[1].message.head.heartbeat().stop(), 130u);
  for (int i = 0; i < 20; ++i) {
    DeliverPulse({0, 0}, 70);
    DeliverPulse({1, 0}, 71);
    DeliverEchoes();
    const auto repeated_messages =
        SentMessages(pb::Envelope::kHeartbeat, AdvanceTime(milliseconds(250)));
    ASSERT_EQ(repeated_messages.size(), 2u);
    EXPECT_EQ(repeated_messages[1].message.head.heartbeat().stop(), 130u);
  }
  EXPECT_EQ(session_->phase(), Phase::kRunning);
  out.clear();
  session_->Finish(Ok(), {}, {}, 40, now_, &out);
  EXPECT_EQ(SentMessages(pb::Envelope::kBye, out)[0].message.head.bye().steps(), 40u);
  EXPECT_EQ(EndStatusOf(Deliver({0, 0}, EndMessage(Code::kInterrupted, "stopped"))).code(),
            Code::kInterrupted);
}

TEST_F(SessionTest, AsksForAStopBeforeTheJobHasBegun) {
  SessionActions out;
  session_->Stop(Status(Code::kTerminated, "stopped"), now_, &out);
  const auto heartbeats = SentMessages(pb::Envelope::kHeartbeat, out);
  ASSERT_EQ(heartbeats.size(), 1u);
  EXPECT_EQ(heartbeats[0].lane, (LaneRef{0, 0}));
  EXPECT_EQ(heartbeats[0].message.head.heartbeat().stop(), 143u);
}

TEST_F(SessionTest, StopsAloneWhereShard0IsNotThere) {
  JoinJob();
  SessionActions out;
  session_->Stop(Status(Code::kTerminated, "stopped"), now_, &out);
  EXPECT_EQ(Count(AdvanceTime(milliseconds(2'900)), Type::kEnded), 0);
  out = AdvanceTime(milliseconds(200));
  EXPECT_EQ(EndStatusOf(out).code(), Code::kTerminated);
  EXPECT_EQ(SentMessages(pb::Envelope::kBye, out).size(), 1u) << "shard 0 may be back";
}

TEST_F(SessionTest, RefusesAServerWithOtherDataSockets) {
  Message message;
  message.head.mutable_welcome()->set_incarnation(70);
  const SessionActions out = Deliver({0, 0}, message);
  EXPECT_EQ(EndStatusOf(out).code(), Code::kMismatch);
  EXPECT_THAT(EndStatusOf(out).message(), HasSubstr("0 data sockets, expected 1"));
}

// A session tells its checkpoints only to shard 0, on the control lane, and only while it holds no
// state.
TEST_F(SessionTest, TellsWhatIsOnItsDisk) {
  Session::Options options;
  options.rank = 1;
  options.incarnation = 11;
  options.data_lanes = {1};
  options.servers = {"alpha:1"};
  options.hello = TestHello(1, 0);
  options.timings = TestTimings();
  options.saved_checkpoints.checkpoints.emplace_back().set_step(20);
  options.saved_checkpoints.unfit.set_sentence("two are damaged");
  options.saved_checkpoints.prepared_run = 3;
  session_ = std::make_unique<Session>(std::move(options));
  SessionActions out;
  session_->Start(now_, &out);
  const auto hellos = SentMessages(pb::Envelope::kHello, out);
  ASSERT_EQ(hellos.size(), 1u);
  const pb::Hello& hello = hellos[0].message.head.hello();
  ASSERT_EQ(hello.checkpoints_size(), 1);
  EXPECT_EQ(hello.checkpoints(0).step(), 20u);
  EXPECT_EQ(hello.unfit().sentence(), "two are damaged");
  EXPECT_EQ(hello.began(), 3u);
  session_->SetCheckpoints({});  // the job has begun, and has moved the old checkpoints away
  const auto repeated_messages = SentMessages(pb::Envelope::kHello, AdvanceTime(milliseconds(100)));
  ASSERT_EQ(repeated_messages.size(), 1u);
  EXPECT_FALSE(repeated_messages[0].message.head.hello().has_unfit());
  EXPECT_EQ(repeated_messages[0].message.head.hello().checkpoints_size(), 0);
}

}  // namespace
}  // namespace tern::protocol::test

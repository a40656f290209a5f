// In these tests shard 0, the server that decides who takes part in the job, hears none of its
// workers, for example because its own link is down. All workers may come back with their state. So
// with on_worker_loss wait or shrink, while no worker is heard, none counts as lost before
// Timings::wait_timeout has passed (20 s here).
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Presence = Coordinator::Worker::Presence;

constexpr char kNobodyIsHeardText[] = "nobody else who holds the state of the job is heard";

class CutOff : public testing::TestWithParam<OnLoss> {};

TEST_P(CutOff, GoesOnWithAllWhenTheLinkIsBack) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  const ControlActions actions_during_silence = shard0.PassTime(milliseconds(15'000), {});
  EXPECT_TRUE(Shard0::EndStatusOf(actions_during_silence).ok())
      << Shard0::EndStatusOf(actions_during_silence).message();
  EXPECT_THAT(Shard0::LogOf(actions_during_silence), HasSubstr(kNobodyIsHeardText));
  EXPECT_EQ(Count(actions_during_silence, ControlAction::Type::kMembers), 0)
      << "nobody went on without anybody";
  // The workers come back on new connections, with some time between them.
  EXPECT_EQ(MessagesTo(300, SendsOf(shard0.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)))))
                .size(),
            1u);
  const ControlActions actions_with_worker0 = shard0.PassTime(milliseconds(2'000), {0});
  EXPECT_EQ(Count(actions_with_worker0, ControlAction::Type::kMembers), 0);
  const ControlActions actions_on_return =
      shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
  EXPECT_FALSE(FirstMessageTo(301, pb::Envelope::kWelcome, SendsOf(actions_on_return))
                   .head.welcome()
                   .needs_state());
  const ControlActions actions_after_return = shard0.PassTime(milliseconds(5'000), {0, 1});
  EXPECT_TRUE(Shard0::EndStatusOf(actions_after_return).ok());
  EXPECT_EQ(shard0.workers()[0].incarnation, 10u);
  EXPECT_EQ(shard0.workers()[1].incarnation, 11u);
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
}

// How often `text` is in the log of these actions.
int CountInLog(const ControlActions& actions, const std::string& text) {
  return static_cast<int>(std::count_if(
      actions.begin(), actions.end(),
      [&](const ControlAction& action) { return action.text.find(text) != std::string::npos; }));
}

TEST_P(CutOff, SaysEveryFourSecondsForWhomItWaits) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  EXPECT_EQ(CountInLog(shard0.PassTime(milliseconds(9'000), {0, 1}), "still waiting"), 0);
  const ControlActions actions = shard0.PassTime(milliseconds(15'500), {});
  EXPECT_EQ(CountInLog(actions, "still waiting for worker 0, worker 1"), 3);
}

TEST(Awaited, ALostWorkerIsNamedEveryFourSeconds) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  const ControlActions actions = shard0.PassTime(milliseconds(15'500), {0});
  EXPECT_EQ(CountInLog(actions, "still waiting for worker 1"), 3);
  EXPECT_EQ(CountInLog(actions, "still waiting for worker 0"), 0);
}

TEST(Awaited, AWorkerThatHasNotCalledIsNamedWhileTheJobStarts) {
  Shard0 shard0(OnLoss::kFail);
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  EXPECT_EQ(CountInLog(shard0.PassTime(milliseconds(9'000), {0}), "still waiting for worker 1"), 2);
}

TEST_P(CutOff, DoesNotBlameWorkersForItsOwnSilentLink) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.PassTime(milliseconds(15'000), {});  // This is longer than the job's progress_timeout.
  for (const uint32_t rank : {0, 1})
    shard0.Deliver(300 + rank, HelloMessage(HelloWithState(rank, 10 + rank, 4, 1)));
  const ControlActions actions_after_return =
      shard0.PassTime(milliseconds(100), {});  // no heartbeat has come yet
  EXPECT_THAT(Shard0::LogOf(actions_after_return), Not(HasSubstr("lost")));
}

TEST_P(CutOff, LosesADeadWorkerOnceAnotherIsHeardAgain) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.PassTime(milliseconds(10'000), {});
  shard0.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)));
  EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(2'800), {0})), Not(HasSubstr("lost")));
  EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(500), {0})),
              HasSubstr("worker 1 (node1, pid 0) was lost"));
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost);
}

// Worker 1 died just before the link went down. Worker 1's new process asks for the rank.
TEST_P(CutOff, DoesNotTakeADeadWorkerForALiveOne) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.Deliver(301, HelloMessage(TestHello(1, 51)));
  shard0.PassTime(milliseconds(5'000), {});
  shard0.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)));
  EXPECT_EQ(Shard0::RefuseTo(301, shard0.Deliver(301, HelloMessage(TestHello(1, 51)))).then(),
            pb::Refuse::retry);
  shard0.PassTime(milliseconds(3'500), {0});
  const ControlActions out = shard0.Deliver(301, HelloMessage(TestHello(1, 51)));
  EXPECT_TRUE(
      FirstMessageTo(301, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
}

TEST_P(CutOff, DoesNotWaitForEver) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  EXPECT_TRUE(Shard0::EndStatusOf(shard0.PassTime(milliseconds(19'500), {})).ok());
  const Status end_status = Shard0::EndStatusOf(shard0.PassTime(milliseconds(1'000), {}));
  EXPECT_EQ(end_status.code(), Code::kPeerLost);
  EXPECT_THAT(end_status.message(), HasSubstr("silent for 20."));
}

TEST_P(CutOff, EndsAtOnceWhenAllWereReplacedByNewProcesses) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.PassTime(milliseconds(3'500), {});
  const ControlActions actions_on_first_hello = shard0.Deliver(300, HelloMessage(TestHello(0, 50)));
  EXPECT_TRUE(FirstMessageTo(300, pb::Envelope::kWelcome, SendsOf(actions_on_first_hello))
                  .head.welcome()
                  .needs_state());
  EXPECT_TRUE(Shard0::EndStatusOf(shard0.PassTime(milliseconds(1'000), {})).ok())
      << "worker 1 may have the state";
  const ControlActions actions_on_second_hello =
      shard0.Deliver(301, HelloMessage(TestHello(1, 51)));
  EXPECT_EQ(Shard0::AbortTo(300, actions_on_second_hello).code(), 75u);
  EXPECT_THAT(Shard0::AbortTo(301, actions_on_second_hello).sentence(),
              testing::AllOf(HasSubstr("worker 1 (node1, pid 0) was started again"),
                             HasSubstr("no live worker holds the state")));
}

TEST_P(CutOff, LetsANewcomerWaitForOneWhoHoldsTheState) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.PassTime(milliseconds(3'500), {});
  shard0.Deliver(300, HelloMessage(TestHello(0, 50)));
  Message state_request;
  state_request.head.mutable_state_want()->set_rank(0);
  state_request.head.mutable_state_want()->set_incarnation(50);
  shard0.Deliver(300, state_request);
  shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
  EXPECT_TRUE(
      FirstMessageTo(301, pb::Envelope::kStateWant, SendsOf(shard0.Deliver(300, state_request)))
          .head.has_state_want());
}

TEST_P(CutOff, StopsAtOnceWhereASignalAsksForIt) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.PassTime(milliseconds(5'000), {});
  EXPECT_EQ(Shard0::EndStatusOf(shard0.Stop(Code::kTerminated)).code(), Code::kTerminated);
}

TEST_P(CutOff, WaitsForNobodyOnceTheJobStops) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  shard0.Stop(Code::kTerminated);
  EXPECT_EQ(Shard0::EndStatusOf(shard0.PassTime(milliseconds(4'000), {})).code(),
            Code::kTerminated);
}

INSTANTIATE_TEST_SUITE_P(Each, CutOff, testing::Values(OnLoss::kWait, OnLoss::kShrink),
                         [](const auto& info) { return NameOf(info.param); });

TEST(CutOffUnderFail, EndsTheJobAsBefore) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  const Status end_status = Shard0::EndStatusOf(shard0.PassTime(milliseconds(9'500), {}));
  EXPECT_EQ(end_status.code(), Code::kPeerLost);
}

// A worker that was cut off for a few seconds learns from its first hello that the job has ended.
TEST(CutOffUnderFail, ALostWorkerIsToldThatTheJobHasEnded) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(3'500), {0});
  ASSERT_EQ(shard0.workers()[1].presence, Presence::kLost);
  shard0.Deliver(100, EndMessage());
  EXPECT_TRUE(Shard0::EndStatusOf(shard0.PassTime(milliseconds(4'000), {})).ok())
      << "it waits for worker 1";
  const ControlActions out = shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
  EXPECT_THAT(Shard0::AbortTo(301, out).sentence(), HasSubstr("worker 1 (node1, pid 0) was lost"));
  EXPECT_EQ(Shard0::EndStatusOf(shard0.Deliver(301, EndMessage())).code(), Code::kPeerLost);
}

// A process that was killed will not answer.
TEST(CutOffUnderFail, NobodyWaitsForAClosedConnection) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  shard0.FindUnreachable(101);
  shard0.PassTime(milliseconds(2'500), {0});
  ASSERT_EQ(shard0.workers()[1].presence, Presence::kLost);
  EXPECT_EQ(Shard0::EndStatusOf(shard0.Deliver(100, EndMessage())).code(), Code::kPeerLost);
}

// While shard 0 still heard worker 1, it gave up worker 0. Then it hears neither. Worker 0's
// process still has the state, and may bring the state back.
TEST(CutOffUnderWait, ALostWorkerMayBringTheStateBack) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(3'500), {1});
  ASSERT_EQ(shard0.workers()[0].presence, Presence::kLost);
  shard0.PassTime(milliseconds(3'500), {});
  EXPECT_TRUE(Shard0::EndStatusOf(shard0.Deliver(301, HelloMessage(TestHello(1, 51)))).ok());
  const ControlActions actions_on_return =
      shard0.Deliver(300, HelloMessage(HelloWithState(0, 12, 4, 1)));
  EXPECT_FALSE(FirstMessageTo(300, pb::Envelope::kWelcome, SendsOf(actions_on_return))
                   .head.welcome()
                   .needs_state());
}

// A process that says that it leaves counts as lost at once.
TEST(CutOffUnderWait, AWorkerThatLeavesDoesNotBringItsStateBack) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  EXPECT_TRUE(
      Shard0::EndStatusOf(shard0.Deliver(100, ByeMessage(0, 10, Code::kInternal, "a bug"))).ok());
  const Status end_status =
      Shard0::EndStatusOf(shard0.Deliver(101, ByeMessage(1, 11, Code::kInternal, "a bug")));
  EXPECT_THAT(end_status.message(), HasSubstr("no live worker holds the state"));
}

// If servers hold the state, a worker's new process is as good as its previous one.
TEST(CutOffWithoutRounds, ANewProcessShowsThatTheLinkIsBack) {
  for (const OnLoss on_loss : {OnLoss::kWait, OnLoss::kShrink}) {
    ControlOptions options = TestOptions(1, 2, on_loss);
    options.workers_hold_state = false;
    Shard0 shard0(std::move(options));
    shard0.GatherWorkers();
    shard0.PassTime(milliseconds(500), {0, 1});
    shard0.PassTime(milliseconds(5'000), {});
    const ControlActions out = shard0.Deliver(300, HelloMessage(TestHello(0, 50)));
    EXPECT_FALSE(
        FirstMessageTo(300, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().needs_state());
    EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(2'500), {0})), Not(HasSubstr("lost")));
    shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
    EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
    EXPECT_EQ(shard0.workers()[1].incarnation, 11u);
  }
}

// Worker 1 was lost before the link went down. Its successor is the first that is heard again; the
// others have not had time to be.
TEST(CutOffWithoutRounds, ANewProcessOfALostRankBlamesNobody) {
  for (const OnLoss on_loss : {OnLoss::kWait, OnLoss::kShrink}) {
    ControlOptions options = TestOptions(1, 2, on_loss);
    options.workers_hold_state = false;
    Shard0 shard0(std::move(options));
    shard0.GatherWorkers();
    shard0.PassTime(milliseconds(3'500), {0});
    ASSERT_EQ(shard0.workers()[1].presence, Presence::kLost);
    shard0.PassTime(milliseconds(5'000), {});
    shard0.Deliver(301, HelloMessage(TestHello(1, 51)));
    EXPECT_THAT(Shard0::LogOf(shard0.PassTime(milliseconds(2'500), {1})), Not(HasSubstr("lost")));
    EXPECT_EQ(shard0.workers()[0].presence, Presence::kPresent);
  }
}

TEST(CutOffUnderWait, ALostWorkerThatLeavesDoesNotReturn) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(3'500), {1});
  ASSERT_EQ(shard0.workers()[0].presence, Presence::kLost);
  EXPECT_TRUE(
      Shard0::EndStatusOf(shard0.Deliver(101, ByeMessage(1, 11, Code::kInternal, "a bug"))).ok());
  EXPECT_THAT(
      Shard0::EndStatusOf(shard0.Deliver(100, ByeMessage(0, 10, Code::kPeerLost, "cut off")))
          .message(),
      HasSubstr("no live worker holds the state"));
}

// The parameter: whether the servers hold the state and write the checkpoints; else the workers do.
class CutOffWithCheckpoints : public testing::TestWithParam<bool> {
 protected:
  CutOffWithCheckpoints() : shard0_(OptionsOfJob(GetParam())) {
    shard0_.GatherWorkers();
    shard0_.PassTime(milliseconds(500), {0, 1});
  }
  static ControlOptions OptionsOfJob(bool servers_hold_state) {
    ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
    if (servers_hold_state) {
      options.begins_from_shards = true;
      options.shard_keeps_state = {true};
      options.find_saved_checkpoints = [] {
        return SavedCheckpoints{{}, {}, 0, {CheckpointAt(15, 7)}};
      };
    } else {
      options.can_resume = true;
    }
    return options;
  }
  // The hello of a new process that has checkpoints of steps 10 and 20, but no state.
  static pb::Hello HelloOfNewProcess(uint32_t rank, uint64_t incarnation) {
    pb::Hello hello = TestHello(rank, incarnation);
    for (const uint64_t step : {10, 20}) {
      pb::Checkpoint* checkpoint = hello.add_checkpoints();
      checkpoint->set_run(7);
      checkpoint->set_step(step);
      checkpoint->set_round(step);
    }
    return hello;
  }

  Shard0 shard0_;
};

TEST_P(CutOffWithCheckpoints, DoesNotGoBackWhileTheStateMayReturn) {
  const ControlActions actions_during_silence = shard0_.PassTime(milliseconds(10'000), {});
  EXPECT_THAT(Shard0::LogOf(actions_during_silence), Not(HasSubstr("go back")));
  shard0_.Deliver(300, HelloMessage(HelloWithState(0, 10, 4, 1)));
  shard0_.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
  EXPECT_THAT(Shard0::LogOf(shard0_.PassTime(milliseconds(2'000), {0, 1})),
              Not(HasSubstr("go back")));
  EXPECT_TRUE(shard0_.coordinator().running());
}

TEST_P(CutOffWithCheckpoints, GoesBackAsSoonAsAllWereReplaced) {
  shard0_.PassTime(milliseconds(3'500), {});
  shard0_.Deliver(300, HelloMessage(HelloOfNewProcess(0, 50)));
  const ControlActions actions_on_second_hello =
      shard0_.Deliver(301, HelloMessage(HelloOfNewProcess(1, 51)));
  EXPECT_THAT(Shard0::LogOf(actions_on_second_hello),
              HasSubstr("no live worker holds the state of the job; all go"));
  EXPECT_EQ(FirstMessageTo(300, pb::Envelope::kGoBack, SendsOf(actions_on_second_hello))
                .head.go_back()
                .incarnation(),
            50u);
  const ControlActions actions_on_new_hello =
      shard0_.Deliver(302, HelloMessage(HelloOfNewProcess(0, 60)));
  EXPECT_TRUE(shard0_.coordinator().running()) << Shard0::LogOf(actions_on_new_hello);
  const pb::Welcome welcome =
      FirstMessageTo(301, pb::Envelope::kWelcome, SendsOf(actions_on_new_hello)).head.welcome();
  EXPECT_EQ(GetParam() ? welcome.begin() : welcome.resume().step(), GetParam() ? 15u : 20u);
}

// Who holds the state of the job, and where it can go back to.
enum class HeldState {
  kLocalized,
  kWithCheckpoints,
  kCentral,
  kCentralWithCheckpoints,
  kWithoutRounds
};

std::string NameOfHeld(HeldState held) {
  constexpr const char* kNames[] = {"Localized", "WithCheckpoints", "Central",
                                    "CentralWithCheckpoints", "WithoutRounds"};
  return kNames[static_cast<size_t>(held)];
}

class CutOffOfEachJob : public testing::TestWithParam<std::tuple<OnLoss, HeldState>> {
 protected:
  static ControlOptions OptionsOfJob() {
    const auto [on_loss, job] = GetParam();
    ControlOptions options = TestOptions(1, 2, on_loss);
    const bool is_central = job == HeldState::kCentral || job == HeldState::kCentralWithCheckpoints;
    options.can_resume =
        job == HeldState::kWithCheckpoints || job == HeldState::kCentralWithCheckpoints;
    options.begins_from_shards = is_central;
    options.workers_hold_state = job != HeldState::kWithoutRounds;
    if (is_central || job == HeldState::kWithoutRounds) {
      options.shard_keeps_state = {true};
      options.find_saved_checkpoints = [] { return SavedCheckpoints(); };
    }
    return options;
  }
};

// The link is down for longer than dead_after. The same processes come back, one of them later than
// the other.
TEST_P(CutOffOfEachJob, NobodyIsLostAndNothingIsDoneAgain) {
  Shard0 shard0(OptionsOfJob());
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  const uint64_t beginning = shard0.coordinator().job().beginning;
  ControlActions out = shard0.PassTime(milliseconds(15'000), {});
  for (const uint32_t rank : {0, 1}) {
    Shard0::Append(shard0.Deliver(300 + rank, HelloMessage(HelloWithState(rank, 10 + rank, 4, 1))),
                   &out);
    Shard0::Append(shard0.PassTime(milliseconds(900), {0}), &out);
  }
  Shard0::Append(shard0.PassTime(milliseconds(5'000), {0, 1}), &out);
  EXPECT_THAT(Shard0::LogOf(out), Not(HasSubstr("lost")));
  EXPECT_THAT(Shard0::LogOf(out), Not(HasSubstr("go back")));
  EXPECT_TRUE(shard0.coordinator().running());
  EXPECT_EQ(shard0.coordinator().job().beginning, beginning);
  EXPECT_EQ(Count(out, ControlAction::Type::kMembers), 0);
  for (const uint32_t rank : {0, 1}) {
    EXPECT_EQ(shard0.workers()[rank].incarnation, 10 + rank);
    EXPECT_EQ(shard0.workers()[rank].presence, Presence::kPresent);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, CutOffOfEachJob,
    testing::Combine(testing::Values(OnLoss::kWait, OnLoss::kShrink),
                     testing::Values(HeldState::kLocalized, HeldState::kWithCheckpoints,
                                     HeldState::kCentral, HeldState::kCentralWithCheckpoints,
                                     HeldState::kWithoutRounds)),
    [](const auto& info) {
      return NameOf(std::get<0>(info.param)) + NameOfHeld(std::get<1>(info.param));
    });

INSTANTIATE_TEST_SUITE_P(Each, CutOffWithCheckpoints, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfServers" : "OfWorkers"; });

}  // namespace
}  // namespace tern::protocol::test

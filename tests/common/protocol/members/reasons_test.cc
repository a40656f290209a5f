// Tests of the reason with which a job ends because of one worker: an error of that worker, or a
// signal that the worker received.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Type = ControlAction::Type;

class Reasons : public testing::TestWithParam<OnLoss> {};

TEST_P(Reasons, OfLastingErrorsEndTheJob) {
  for (const Code code : {Code::kMismatch, Code::kBadJob, Code::kDiverged}) {
    Shard0 shard0(GetParam());
    shard0.GatherWorkers();
    const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11, code, "for a reason"));
    const pb::Abort abort = Shard0::AbortTo(100, out);
    EXPECT_EQ(abort.code(), static_cast<uint32_t>(code));
    EXPECT_EQ(abort.sentence(), "worker 1 (node1, pid 0) ended the job: for a reason");
    ControlActions end_actions = shard0.Deliver(100, EndMessage());
    Shard0::Append(shard0.Deliver(101, EndMessage()), &end_actions);
    EXPECT_EQ(Shard0::EndStatusOf(end_actions).code(), code);
  }
}

TEST_P(Reasons, CountUntilTheLastBye) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.Deliver(101, ByeMessage(1, 11));
  const ControlActions out =
      shard0.Deliver(100, ByeMessage(0, 10, Code::kMismatch, "the replicas differ"));
  EXPECT_EQ(Shard0::AbortTo(101, out).code(), 76u);
}

TEST_P(Reasons, CountBeforeTheJobBegins) {
  Shard0 shard0(GetParam());
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  const Status end_status = Shard0::EndStatusOf(
      shard0.Deliver(100, ByeMessage(0, 10, Code::kCannotWrite, "a read-only folder")));
  EXPECT_EQ(Shard0::AbortTo(100, shard0.Deliver(100, ByeMessage(0, 10))).code(), 74u);
  EXPECT_TRUE(end_status.ok()) << "the worker has time to answer before shard 0 ends";
}

TEST_P(Reasons, AreAlsoAcceptedOnANewConnection) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  const Message bye = ByeMessage(1, 11, Code::kMismatch, "the replicas differ");
  EXPECT_EQ(Shard0::RefuseTo(301, shard0.Deliver(301, bye)).then(), pb::Refuse::retry);
  shard0.Deliver(301, HelloMessage(HelloWithState(1, 11, 4, 1)));
  EXPECT_EQ(Shard0::AbortTo(100, shard0.Deliver(301, bye)).code(), 76u);
}

TEST_P(Reasons, ASignalToOneWorkerStopsTheJob) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  Message heartbeat = HeartbeatMessage(1, 11, 4);
  heartbeat.head.mutable_heartbeat()->set_stop(130);
  const ControlActions out = shard0.Deliver(101, heartbeat);
  EXPECT_EQ(Count(out, Type::kStop), 1);
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("worker 1 (node1, pid 0) was asked to stop"));
  EXPECT_EQ(Count(shard0.Deliver(101, heartbeat), Type::kStop), 0)
      << "the worker repeats it until the end";
  shard0.Deliver(100, StoppedByeMessage(0, 10));
  const ControlActions end_actions = shard0.Deliver(101, StoppedByeMessage(1, 11));
  EXPECT_EQ(FirstMessageTo(101, pb::Envelope::kEnd, SendsOf(end_actions)).head.end().code(), 130u);
}

TEST_P(Reasons, ASignalToOneWorkerEndsAJobThatHasNotBegun) {
  Shard0 shard0(GetParam());
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  Message heartbeat = HeartbeatMessage(0, 10, 0);
  heartbeat.head.mutable_heartbeat()->set_stop(143);
  EXPECT_EQ(Shard0::AbortTo(100, shard0.Deliver(100, heartbeat)).code(), 143u);
}

// All processes get the signal, and one of them does not live to see the end.
TEST_P(Reasons, ALossWhileTheJobStopsDoesNotChangeTheReason) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.Stop(Code::kTerminated);
  ControlActions out = shard0.PassTime(milliseconds(3'500), {0});
  Shard0::Append(shard0.Deliver(100, StoppedByeMessage(0, 10)), &out);
  Shard0::Append(shard0.Deliver(100, EndMessage()), &out);
  EXPECT_EQ(Shard0::EndStatusOf(out).code(), Code::kTerminated)
      << Shard0::EndStatusOf(out).message();
}

// It comes during the last evaluation: the weights are complete, and a scheduler need not start the
// job again.
TEST_P(Reasons, ASignalAfterTheLastStepChangesNothing) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  shard0.Deliver(100, ByeMessage(0, 10));
  shard0.Stop(Code::kTerminated);
  ControlActions out = shard0.Deliver(101, ByeMessage(1, 11));
  Shard0::Append(shard0.Deliver(100, EndMessage()), &out);
  Shard0::Append(shard0.Deliver(101, EndMessage()), &out);
  EXPECT_EQ(Count(out, Type::kEnded), 1);
  EXPECT_EQ(Shard0::EndStatusOf(out).code(), Code::kOk) << Shard0::EndStatusOf(out).message();
}

// The same where train.stop_when ends the job before its last step.
TEST_P(Reasons, ASignalAfterTheStepAtWhichTheJobStopsItselfChangesNothing) {
  Shard0 shard0(GetParam());
  shard0.GatherWorkers();
  const auto bye = [](uint32_t rank) {
    Message message = StoppedByeMessage(rank, 10 + rank);
    pb::Bye* const fields = message.head.mutable_bye();
    fields->mutable_figures()->mutable_evaluations()->set_last_step(fields->steps());
    return message;
  };
  shard0.Deliver(100, bye(0));
  shard0.Stop(Code::kTerminated);
  const ControlActions out = shard0.Deliver(101, bye(1));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 0u);
}

// A program's job has no length, so that no number of steps is all of them.
TEST_P(Reasons, ASignalStopsAJobWithoutALength) {
  Shard0 shard0(GetParam());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    pb::Hello hello = TestHello(rank, 10 + rank);
    hello.set_steps(0);
    shard0.Deliver(100 + rank, HelloMessage(hello));
  }
  shard0.Stop(Code::kTerminated);
  shard0.Deliver(100, ByeMessage(0, 10));
  ControlActions out = shard0.Deliver(101, ByeMessage(1, 11));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 143u);
}

INSTANTIATE_TEST_SUITE_P(Each, Reasons,
                         testing::Values(OnLoss::kFail, OnLoss::kWait, OnLoss::kShrink),
                         [](const auto& info) { return NameOf(info.param); });

// A job of two workers and shard 1, which runs.
Shard0 JobOfTwoShards() {
  Shard0 shard0(OnLoss::kFail, 2);
  shard0.GatherWorkers();
  pb::Hello hello = TestHello(1, 21);
  hello.set_role(pb::Hello::shard);
  shard0.Deliver(200, HelloMessage(hello));
  EXPECT_TRUE(shard0.coordinator().running());
  return shard0;
}
// Both workers answer, and the silent shard is not waited for.
void ExpectEnds(Shard0& shard0, Code code) {
  ControlActions out = shard0.Deliver(100, EndMessage());
  Shard0::Append(shard0.Deliver(101, EndMessage()), &out);
  Shard0::Append(shard0.PassTime(milliseconds(100), {}), &out);
  EXPECT_EQ(Shard0::EndStatusOf(out).code(), code) << Shard0::EndStatusOf(out).message();
}

TEST(ReasonsOfAStop, AreKeptIfAShardFallsSilentMeanwhile) {
  Shard0 shard0 = JobOfTwoShards();
  EXPECT_EQ(Count(shard0.Stop(Code::kTerminated), Type::kStop), 1);
  const ControlActions out = shard0.PassTime(milliseconds(3'200), {0, 1});
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 143u);
  EXPECT_THAT(Shard0::AbortTo(100, out).sentence(),
              HasSubstr("stopped by a signal; server shard 1 is silent for 3."));
  ExpectEnds(shard0, Code::kTerminated);
}

TEST(ReasonsOfAStop, EndAJobAtOnceWhoseShardIsSilent) {
  Shard0 shard0 = JobOfTwoShards();
  EXPECT_EQ(Shard0::AbortTo(100, shard0.PassTime(milliseconds(3'200), {0, 1})).code(), 0u);
  const ControlActions out = shard0.Stop(Code::kInterrupted);
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 130u);
  EXPECT_EQ(Shard0::AbortTo(100, out).sentence(),
            "stopped by a signal while server shard 1 was silent");
  ExpectEnds(shard0, Code::kInterrupted);
}

TEST(ReasonsOfAStop, LeaveAShardThatIsHeardItsTime) {
  Shard0 shard0 = JobOfTwoShards();
  ControlActions out = shard0.Stop(Code::kTerminated);
  Message pulse;
  pulse.head.mutable_pulse()->set_incarnation(21);
  for (int i = 0; i < 8; ++i) {
    Shard0::Append(shard0.PassTime(milliseconds(1'000), {0, 1}), &out);
    Shard0::Append(shard0.Deliver(200, pulse), &out);
  }
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 0u);
}

// A damaged image, or a disk that takes no output.
class ReasonsOfADisk : public testing::TestWithParam<Code> {
 protected:
  Message ByeOf(uint32_t rank) const { return ByeMessage(rank, 10 + rank, GetParam(), "its disk"); }
};

TEST_P(ReasonsOfADisk, EndAJobThatDoesNotGoOnWithoutAnybody) {
  for (const OnLoss on_loss : {OnLoss::kFail, OnLoss::kWait}) {
    Shard0 shard0(on_loss);
    shard0.GatherWorkers();
    const ControlActions out = shard0.Deliver(101, ByeOf(1));
    EXPECT_EQ(Shard0::AbortTo(100, out).code(), static_cast<uint32_t>(GetParam()));
  }
}

// Each worker has its own copy of the data and its own disk, so damage at one does not concern the
// others. The last one's is the reason even if there are checkpoints to go back to.
TEST_P(ReasonsOfADisk, UnderShrinkEndTheJobOnlyWhereNobodyIsLeft) {
  for (const bool can_resume : {false, true}) {
    ControlOptions options = TestOptions(1, 2, OnLoss::kShrink);
    options.can_resume = can_resume;
    Shard0 shard0(std::move(options));
    shard0.GatherWorkers();
    EXPECT_THAT(Shard0::LogOf(shard0.Deliver(101, ByeOf(1))),
                HasSubstr("going on with 1 of 2 workers"));
    const ControlActions out = shard0.Deliver(100, ByeOf(0));
    EXPECT_EQ(Shard0::AbortTo(100, out).code(), static_cast<uint32_t>(GetParam()));
  }
}

// Worker 0 has done all, and has written what the other could not.
TEST_P(ReasonsOfADisk, UnderShrinkDoNotFailAJobThatIsDone) {
  Shard0 shard0(OnLoss::kShrink);
  shard0.GatherWorkers();
  shard0.Deliver(100, ByeMessage(0, 10));
  shard0.Deliver(101, ByeOf(1));
  EXPECT_EQ(Shard0::EndStatusOf(shard0.Deliver(100, EndMessage())).code(), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(Each, ReasonsOfADisk, testing::Values(Code::kBadData, Code::kCannotWrite),
                         [](const auto& info) {
                           return info.param == Code::kBadData ? "BadData" : "CannotWrite";
                         });

// A heartbeat of worker 0 that reports failed checkpoints, and a pulse of shard 1 that does.
Message BeatWithFailures(uint64_t num_failed) {
  Message message = HeartbeatMessage(0, 10, 0);
  message.head.mutable_heartbeat()->mutable_counters()->set_failed_checkpoints(num_failed);
  return message;
}
Message PulseWithFailures(uint64_t num_failed) {
  Message message;
  message.head.mutable_pulse()->set_failed_checkpoints(num_failed);
  return message;
}

TEST(FailedCheckpoints, AreLoggedFirstAndWheneverTheirNumberHasDoubled) {
  Shard0 shard0(OnLoss::kWait);
  shard0.GatherWorkers();
  std::vector<uint64_t> logged;
  for (uint64_t num_failed = 0; num_failed <= 9; ++num_failed) {
    const std::string log = Shard0::LogOf(shard0.Deliver(100, BeatWithFailures(num_failed)));
    if (log.find("could not write") == std::string::npos) continue;
    logged.push_back(num_failed);
    EXPECT_THAT(log, HasSubstr("worker 0 (node0, pid 0) could not write " +
                               std::to_string(num_failed) + " checkpoint"));
    EXPECT_THAT(Shard0::LogOf(shard0.Deliver(100, BeatWithFailures(num_failed))),
                testing::Not(HasSubstr("could not write")));
  }
  EXPECT_EQ(logged, (std::vector<uint64_t>{1, 2, 4, 8}));
}

TEST(FailedCheckpoints, OfAllShardsAreAddedUp) {
  ControlOptions options = TestOptions(2, 2, OnLoss::kWait);
  options.find_saved_checkpoints = [] {
    SavedCheckpoints saved;
    saved.num_failed = 4;
    return saved;
  };
  Shard0 shard0(std::move(options));
  pb::Hello hello = TestHello(1, 50);
  hello.set_role(pb::Hello::shard);
  shard0.Deliver(200, HelloMessage(hello));
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 4u);
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(200, PulseWithFailures(3))),
              HasSubstr("server shard 1 could not write 3 checkpoints so far"));
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 7u);
  shard0.Deliver(999, PulseWithFailures(5));
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 7u) << "a stranger sent this pulse";
}

// Without rounds, every worker would be at round 1.
TEST(LossOfAWorker, IsPlacedByItsStepInAJobWithoutRounds) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kWait);
  options.workers_hold_state = false;
  Shard0 shard0(std::move(options));
  shard0.GatherWorkers();
  Message beat = HeartbeatMessage(1, 11, 0);
  beat.head.mutable_heartbeat()->mutable_counters()->set_job_step(41);
  shard0.Deliver(101, beat);
  const std::string log = Shard0::LogOf(shard0.PassTime(milliseconds(3'500), {0}));
  EXPECT_THAT(log, HasSubstr("worker 1 (node1, pid 0) is suspect: silent for 1.6 s, at step 42"));
  EXPECT_THAT(log, HasSubstr("worker 1 (node1, pid 0) was lost at step 42: silent for 3.1 s"));
}

// How often `log` has `text`.
int CountIn(const std::string& log, const std::string& text) {
  int count = 0;
  for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
  return count;
}

// A broken supervisor starts a process again at once, a thousand times a second.
TEST(LossOfAWorker, FillsNoLogIfItsProcessComesAndGoesAllTheTime) {
  for (const OnLoss on_loss : {OnLoss::kWait, OnLoss::kShrink}) {
    Shard0 shard0(on_loss);
    shard0.GatherWorkers();
    std::string log;
    for (uint64_t incarnation = 20; incarnation < 1'020; ++incarnation) {
      const Message hello = HelloMessage(TestHello(1, incarnation));
      log +=
          Shard0::LogOf(shard0.Deliver(101, ByeMessage(1, incarnation == 20 ? 11 : incarnation - 1,
                                                       Code::kPeerLost, "it fell")));
      log += Shard0::LogOf(shard0.Deliver(101, hello));
    }
    EXPECT_EQ(CountIn(log, "it left: it fell"), 10) << NameOf(on_loss) << log.substr(0, 4'000);
    EXPECT_EQ(CountIn(log, "worker 1 (node1, pid 0) has come back"), 9)
        << NameOf(on_loss) << ": the first coming was the start";
    shard0.PassTime(milliseconds(1'000), {0});
    EXPECT_THAT(
        Shard0::LogOf(shard0.Deliver(101, ByeMessage(1, 1'019, Code::kPeerLost, "it fell"))),
        HasSubstr("(and 990 more before)"));
  }
}

}  // namespace
}  // namespace tern::protocol::test

#include "tools/run/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Failure ExitedFailure(const std::string& process, int code, const std::string& sentence = "") {
  return {process, "", 7, {code, 0}, sentence, "logs/" + process, false};
}
Failure KilledFailure(const std::string& process, int signal) {
  return {process, "", 7, {0, signal}, "", "logs/" + process, false};
}

setup::ProgressUpdate EndedUpdate(int code, const std::string& sentence = "") {
  setup::ProgressUpdate update;
  update.has_ended = true;
  update.code = code;
  update.sentence = sentence;
  return update;
}

int ExitCodeOf(const Status& status) { return ExitCode(status); }

TEST(Verdict, ASuccessfulJobIsOk) {
  EXPECT_TRUE(JudgeRun({}, EndedUpdate(0), {}).ok());
  EXPECT_TRUE(JudgeRun({KilledFailure("worker 1", 9)}, EndedUpdate(0), {}).ok())
      << "it was restarted, and the job recovered";
}

TEST(Verdict, TheProgramThatTheJobsEndNamesIsTheRootCause) {
  std::vector<Failure> failures = {ExitedFailure("worker 0", 1), ExitedFailure("worker 1", 2)};
  for (Failure& failure : failures) failure.is_users_program = true;
  const Status first = JudgeRun(failures, std::nullopt, {});
  EXPECT_EQ(ExitCodeOf(first), 1);
  EXPECT_THAT(first.message(), HasSubstr("root cause: worker 0 "));
  const Status named = JudgeRun(failures, EndedUpdate(75, "worker 1 (host, pid 7) left"), {});
  EXPECT_EQ(ExitCodeOf(named), 2);
  EXPECT_THAT(named.message(), HasSubstr("root cause: worker 1 "));
}

TEST(Verdict, AStopOfProgramsAfterTheJobsEndIsAStop) {
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, EndedUpdate(0), {.signal = 2, .ended_programs = true})), 130);
}

TEST(Verdict, AnOrderlyStopIsNoFailure) {
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, EndedUpdate(143, "stopped"), {15})), 143);
  // The server itself got SIGINT (code 130). A worker may exit before the server does.
  EXPECT_EQ(ExitCodeOf(JudgeRun({ExitedFailure("worker 0", 130)}, EndedUpdate(130), {})), 130);
}

TEST(Verdict, TheRootCauseIsTheFirstFailureThatIsNoConsequence) {
  const Status verdict =
      JudgeRun({ExitedFailure("worker 0", 75, "worker 1 was lost"),
                ExitedFailure("worker 1", 65, "no such file"), ExitedFailure("worker 2", 70)},
               EndedUpdate(75, "worker 1 was lost"), {});
  EXPECT_EQ(ExitCodeOf(verdict), 65);
  EXPECT_THAT(verdict.message(),
              AllOf(HasSubstr("root cause: worker 1 (process 7) exited with code 65: no such file"),
                    HasSubstr("logs/worker 1"),
                    HasSubstr("then the job ended with code 75: worker 1 was lost"),
                    Not(HasSubstr("worker 2"))));
}

TEST(Verdict, AServerWithoutItsAddressIsTheRootCauseOfRefusedWorkers) {
  const Failure server = ExitedFailure("server 0", 69, "port 7500 is in use");
  for (const int code : {76, 77}) {
    const Failure worker = ExitedFailure("worker 0", code, "belongs to another run");
    const Status verdict = JudgeRun({worker, server}, std::nullopt, {});
    EXPECT_EQ(ExitCodeOf(verdict), 69);
    EXPECT_THAT(verdict.message(), HasSubstr("root cause: server 0 "));
    EXPECT_EQ(ExitCodeOf(JudgeRun({worker}, std::nullopt, {})), code);
  }
  EXPECT_EQ(ExitCodeOf(JudgeRun({ExitedFailure("worker 0", 65), server}, std::nullopt, {})), 65);
}

TEST(Verdict, AKilledProcessTellsNoReasonSoTheCodeIsTheJobs) {
  const Status killed_worker_status =
      JudgeRun({KilledFailure("worker 1", 9)}, EndedUpdate(75, "silent for 3.0 s"), {});
  EXPECT_EQ(ExitCodeOf(killed_worker_status), 75);
  EXPECT_THAT(killed_worker_status.message(),
              HasSubstr("worker 1 (process 7) was killed by signal 9 (Killed)"));
  EXPECT_EQ(ExitCodeOf(JudgeRun({KilledFailure("server 0", 11)}, std::nullopt, {})), 75);
  // Code 143: SIGTERM was sent to this worker alone, which is no orderly stop of the job.
  EXPECT_EQ(ExitCodeOf(JudgeRun({ExitedFailure("worker 1", 143)}, EndedUpdate(75), {})), 75);
  EXPECT_EQ(ExitCodeOf(JudgeRun({ExitedFailure("worker 1", 3)}, std::nullopt, {})), 75);
}

TEST(Verdict, WithoutAFailureTheServersSentenceIsTheRootCause) {
  const Status verdict = JudgeRun({ExitedFailure("worker 0", 75, "said later")},
                                  EndedUpdate(75, "worker 1 is silent"), {});
  EXPECT_EQ(ExitCodeOf(verdict), 75);
  EXPECT_THAT(verdict.message(), HasSubstr("root cause: server 0 ended it: worker 1 is silent"));
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, EndedUpdate(76, "replicas differ"), {})), 76);
}

TEST(Verdict, AConsequenceIsTheRootCauseIfThereIsNothingElse) {
  const Status verdict =
      JudgeRun({ExitedFailure("worker 0", 75, "server 0 was lost"), ExitedFailure("worker 1", 75)},
               std::nullopt, {});
  EXPECT_EQ(ExitCodeOf(verdict), 75);
  EXPECT_THAT(verdict.message(), HasSubstr("server 0 was lost"));
}

// It may end before shard 0, whose report comes after its own last checkpoint.
TEST(Verdict, ReportsAServerWithoutItsLastCheckpoint) {
  const Status verdict =
      JudgeRun({ExitedFailure("server 1", 74, "a full disk")}, EndedUpdate(0), {});
  EXPECT_EQ(ExitCodeOf(verdict), 74);
  EXPECT_THAT(verdict.message(), HasSubstr("root cause: server 1 "));
  EXPECT_TRUE(JudgeRun({ExitedFailure("worker 1", 74)}, EndedUpdate(0), {}).ok())
      << "the others went on";
}

TEST(Verdict, ReportsACrashAfterTheEnd) {
  Failure crash = KilledFailure("worker 0", 11);
  crash.job_was_over = true;
  const Status verdict = JudgeRun({crash}, EndedUpdate(0), {});
  EXPECT_EQ(ExitCodeOf(verdict), 70);
  EXPECT_THAT(verdict.message(), HasSubstr("afterwards a process crashed"));
}

TEST(Verdict, ReportsAnErrorAfterTheEnd) {
  Failure failure = ExitedFailure("worker 0", 74, "cannot write worker.0.json");
  failure.job_was_over = true;
  const Status verdict = JudgeRun({failure}, EndedUpdate(0), {});
  EXPECT_EQ(ExitCodeOf(verdict), 74);
  EXPECT_THAT(verdict.message(), HasSubstr("afterwards a process failed"));
}

TEST(Verdict, AReasonThatEndedTheJobIsTheCodeOfTheRun) {
  for (const int code : {65, 74, 76, 78, 79}) {
    const Status verdict =
        JudgeRun({ExitedFailure("worker 1", code, "its reason"), ExitedFailure("worker 0", code)},
                 EndedUpdate(code, "worker 1 ended the job: its reason"), {});
    EXPECT_EQ(ExitCodeOf(verdict), code);
    EXPECT_THAT(verdict.message(), HasSubstr("its reason"));
    EXPECT_EQ(ExitCodeOf(JudgeRun({ExitedFailure("worker 1", code)}, std::nullopt, {})), code);
  }
}

TEST(Verdict, AForcedStopReturnsTheSignal) {
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, std::nullopt, {15})), 143);
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, std::nullopt, {2})), 130);
}

TEST(Verdict, LossesDuringAForcedStopAreNoFailures) {
  const setup::ProgressUpdate worker_loss =
      EndedUpdate(75, "worker 0 was lost at round 1: it left");
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, worker_loss, {15, true})), 143);
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, worker_loss, {15, false})), 75)
      << "lost while it stopped in order";
  EXPECT_EQ(ExitCodeOf(JudgeRun({}, EndedUpdate(76, "replicas differ"), {15, true})), 76);
  EXPECT_EQ(ExitCodeOf(JudgeRun({KilledFailure("worker 1", 11)}, worker_loss, {15, true})), 75);
}

}  // namespace
}  // namespace tern::tools

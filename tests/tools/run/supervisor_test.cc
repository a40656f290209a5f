// The supervisor with shell scripts as the processes of a job.
#include "tools/run/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "common/base/text.h"

namespace tern::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : folder_(testing::TempDir() + "tern_supervisor_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
    EXPECT_EQ(pipe2(progress_pipe_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    EXPECT_EQ(mkfifo((folder_ + "/go").c_str(), 0600), 0);
  }
  ~SupervisorTest() override {
    for (const int pipe_fd : progress_pipe_) close(pipe_fd);
    std::filesystem::remove_all(folder_);
  }

  // Adds a member that runs a shell script, in which $D is the test's folder and `say` writes a
  // progress line. The first member is shard 0, the server that reports progress.
  void AddMember(const std::string& script, bool job_waits = true) {
    Supervisor::Member member;
    member.spec.name =
        options_.members.empty() ? "server 0" : Cat("worker ", options_.members.size() - 1);
    member.spec.program = "/bin/sh";
    member.spec.arguments = {
        "-c", Cat("D=", folder_, "; say() { echo \"$1\" >&", progress_pipe_[1], "; }\n", script)};
    member.spec.stdout_path = folder_ + "/" + member.spec.name + ".out";
    member.spec.stderr_path = folder_ + "/" + member.spec.name + ".err";
    member.spec.inherited_fds = {progress_pipe_[1]};
    member.job_waits = job_waits;
    member.is_worker = !options_.members.empty();
    member.grace = member.grace_if_irreplaceable = seconds(60);
    options_.members.push_back(member);
  }
  // Runs the supervisor and returns its output.
  std::string RunSupervisor(uint32_t max_restarts, Time max_report_delay) {
    options_.max_restarts = max_restarts;
    options_.max_report_delay = max_report_delay;
    options_.progress_fd = progress_pipe_[0];
    testing::internal::CaptureStdout();
    {
      TerminalLine stdout_line(STDOUT_FILENO);
      setup::Screen screen(stdout_line);
      StopSignals signals(StopSignals::SecondSignal::kReport);
      Supervisor supervisor(options_, signals, screen);
      const Status run_status = supervisor.Run();
      EXPECT_TRUE(run_status.ok()) << run_status.message();
      verdict_ = supervisor.verdict();
      restarts_ = supervisor.restarts();
      newest_progress_ = supervisor.newest_progress();
    }
    return testing::internal::GetCapturedStdout();
  }

  std::string folder_;
  std::array<int, 2> progress_pipe_{};
  Supervisor::Options options_;
  Status verdict_;
  uint32_t restarts_ = 0;
  std::string newest_progress_;
};

// The command by which shard 0 reports that the job has ended without an error.
constexpr const char* kReportSuccessCommand = R"(say '{"event":"ended","code":0,"sentence":""}')";

TEST_F(SupervisorTest, SupervisesAJobToItsEnd) {
  AddMember(kReportSuccessCommand);
  AddMember("exit 0");
  const std::string out = RunSupervisor(0, seconds(60));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
  EXPECT_EQ(newest_progress_, R"({"event":"ended","code":0,"sentence":""})");
  EXPECT_THAT(out, HasSubstr("worker 0 is process "));
}

TEST_F(SupervisorTest, RestartsAProcessThatExitedWhileTheJobRuns) {
  AddMember(Cat("read word < $D/go\n", kReportSuccessCommand));
  AddMember("if [ -e $D/lived ]; then echo go > $D/go; else touch $D/lived; exit 75; fi");
  const std::string out = RunSupervisor(1, milliseconds(20));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
  EXPECT_EQ(restarts_, 1u);
  EXPECT_THAT(out, HasSubstr("exited with code 75\n  it is started again (1 of 1)"));
}

TEST_F(SupervisorTest, SaysWhenAllRestartsAreUsedUp) {
  AddMember("read word < $D/go; exit 75");
  AddMember("if [ -e $D/lived ]; then echo go > $D/go; fi; touch $D/lived; exit 75");
  options_.members[1].grace = options_.members[1].grace_if_irreplaceable = milliseconds(1);
  const std::string out = RunSupervisor(1, milliseconds(20));
  EXPECT_FALSE(verdict_.ok());
  EXPECT_THAT(out, HasSubstr("\n  it is not started again: all restarts (1) are used up\n"));
}

// What a host's connection takes along: processes that are lost as soon as they are started.
class LossyStarter final : public ProcessStarter {
 public:
  explicit LossyStarter(int num_losses) : num_losses_(num_losses) {}
  Result<std::unique_ptr<MemberProcess>> Start(const ProcessSpec& spec) override {
    if (spec.host.empty() || num_losses_ == 0) return local_.Start(spec);
    --num_losses_;
    return std::unique_ptr<MemberProcess>(std::make_unique<LostProcess>());
  }

 private:
  class LostProcess final : public MemberProcess {
    pid_t pid() const override { return 0; }
    int event_fd() const override { return -1; }
    std::optional<Exit> TryWait() override { return Exit{0, SIGKILL, true}; }
    void Signal(int /*signal*/) override {}
    std::string LastSentence() const override { return "node1: Connection refused"; }
  };

  LocalStarter local_;
  int num_losses_;
};

TEST_F(SupervisorTest, TheProcessesOfALostHostTakeOneRestart) {
  LossyStarter starter(3);
  options_.starter = &starter;
  AddMember(
      Cat("until [ -e $D/0 -a -e $D/1 -a -e $D/2 ]; do sleep 0.01; done; ", kReportSuccessCommand));
  for (int rank = 0; rank < 3; ++rank) {
    AddMember(Cat("touch $D/", rank));
    options_.members.back().spec.host = "node1";
  }
  const std::string out = RunSupervisor(1, milliseconds(200));
  EXPECT_TRUE(verdict_.ok()) << out << verdict_.message();
  EXPECT_EQ(restarts_, 1u);
}

TEST_F(SupervisorTest, SaysOnceThatARestartedWorkerTrainsAgain) {
  AddMember(Cat("read pid < $D/go\nsay \"$(cat $D/old)\"\n",
                R"(for step in 0 7 8; do
                   say '{"event":"progress","processes":[{"pid":'$pid',"step":'$step'}]}'; done
                )",
                kReportSuccessCommand));
  AddMember(R"(line='{"event":"progress","processes":[{"pid":'$$',"step":5}]}'
               if [ -e $D/old ]; then echo $$ > $D/go; else echo "$line" > $D/old; exit 75; fi)");
  const std::string out = RunSupervisor(1, milliseconds(20));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
  const std::string sentence = "worker 0 is back and trains on: it has done step 7\n";
  EXPECT_THAT(out, HasSubstr(sentence));
  EXPECT_THAT(out, Not(HasSubstr("step 5"))) << "which the process before had done";
  EXPECT_THAT(out, Not(HasSubstr("step 8")));
}

TEST_F(SupervisorTest, SaysWhomTheProcessesWaitForIfTheJobDoesNotBegin) {
  const std::string awaits = "echo 'W0727 10:00:00.1 7 a.cc:1] still waiting for ";
  options_.start_notice_after = milliseconds(1);
  AddMember(Cat(awaits, "worker 0, worker 1' >&2; read word < $D/go\n", kReportSuccessCommand));
  // The supervisor prints to the file that its descriptor 1 names.
  AddMember(Cat(awaits,
                "server shard 0 (127.0.0.1:7500)' >&2; "
                "while ! grep -q 'not begun' /proc/$PPID/fd/1; do sleep 0.01; done; "
                "echo go > $D/go"));
  AddMember(Cat(awaits, "server shard 0 (127.0.0.1:7500)' >&2"));
  const std::string out = RunSupervisor(0, seconds(60));
  EXPECT_THAT(out, HasSubstr("the job has not begun yet\n"));
  const std::string sentence = ": still waiting for server shard 0 (127.0.0.1:7500)\n";
  EXPECT_THAT(out, HasSubstr(sentence));
  EXPECT_EQ(out.find(sentence), out.rfind(sentence)) << "of two workers, once:\n" << out;
}

TEST_F(SupervisorTest, SaysWhichProgramsTheServerWaitsFor) {
  options_.start_notice_after = milliseconds(1);
  AddMember(
      Cat("echo 'W0727 10:00:00.1 7 a.cc:1] still waiting for worker 0' >&2; "
          "read word < $D/go\n",
          kReportSuccessCommand));
  AddMember("while ! grep -q 'not begun' /proc/$PPID/fd/1; do sleep 0.01; done; echo go > $D/go");
  options_.members[1].spec.is_users_program = true;
  const std::string out = RunSupervisor(0, seconds(60));
  EXPECT_THAT(out,
              HasSubstr("the job has not begun yet\n  server 0: still waiting for worker 0\n"));
}

TEST_F(SupervisorTest, SaysWhatTheWorkersSayWhileShard0ReportsNothing) {
  options_.silence.notice_after = milliseconds(1);
  AddMember(Cat(R"(say '{"event":"progress","workers":2,"present":2}'; read word < $D/go)", "\n",
                kReportSuccessCommand));
  const std::string lost = "server shard 0 (127.0.0.1:7500) is lost: silent for 1.5 s";
  AddMember(Cat("echo 'W0727 10:00:00.1 7 a.cc:1] ", lost,
                "' >&2; while ! grep -q 'reported nothing' /proc/$PPID/fd/1; do sleep 0.01; done; "
                "echo go > $D/go"));
  AddMember(Cat("echo 'W0727 10:00:00.1 7 a.cc:1] ", lost, "' >&2"));
  const std::string out = RunSupervisor(0, seconds(60));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
  EXPECT_THAT(out, ContainsRegex("server 0 has reported nothing for [0-9]+ s\n  worker "));
  // A slow machine may show it again.
  const std::string notice = "reported nothing";
  const std::string once = out.substr(0, out.find(notice, out.find(notice) + notice.size()));
  EXPECT_EQ(once.find(lost), once.rfind(lost)) << "of two workers, once:\n" << out;
}

TEST_F(SupervisorTest, AfterAStopSignalASilentShard0DoesNotKeepTheJob) {
  options_.silence.end_after = milliseconds(200);
  ASSERT_EQ(mkfifo((folder_ + "/never").c_str(), 0600), 0);
  // Shard 0 and a worker hang.
  const std::string hang = "trap '' TERM INT; while true; do read word < $D/never; done";
  AddMember(Cat(R"(say '{"event":"progress","workers":2,"present":2}'; echo > $D/go; )", hang));
  AddMember("trap 'exit 130' TERM; read word < $D/go; kill -INT $PPID; read word < $D/never");
  AddMember(hang);
  const std::string out = RunSupervisor(0, seconds(60));
  EXPECT_EQ(verdict_.code(), Code::kInterrupted) << verdict_.message();
  EXPECT_THAT(out,
              ContainsRegex("server 0 has reported nothing for [0-9]+ s since the stop signal"));
}

TEST_F(SupervisorTest, DoesNotRestartAProcessThatExitedBecauseTheJobEnded) {
  // The worker may exit before shard 0 reports that the job was aborted.
  AddMember(
      R"(read word < $D/go; say '{"event":"ended","code":75,"sentence":"worker 1 is silent"}'; exit 75)");
  AddMember("echo go > $D/go; echo 'sh: worker 1 is silent' >&2; exit 75");
  RunSupervisor(5, seconds(60));
  EXPECT_EQ(restarts_, 0u);
  EXPECT_EQ(verdict_.code(), Code::kPeerLost);
  EXPECT_THAT(verdict_.message(), HasSubstr("root cause: server 0 ended it: worker 1 is silent"));
}

TEST_F(SupervisorTest, CountsRestartsOfAllProcessesThenEndsTheJob) {
  AddMember("exec sleep 1000");
  AddMember("kill -9 $$");
  AddMember("exec sleep 1000");
  RunSupervisor(2, milliseconds(20));
  EXPECT_EQ(restarts_, 2u);
  EXPECT_EQ(verdict_.code(), Code::kPeerLost);
  EXPECT_THAT(verdict_.message(), HasSubstr("root cause: worker 0 (process "));
}

TEST_F(SupervisorTest, DoesNotRestartAProcessForWhichTheJobDoesNotWait) {
  AddMember("exec sleep 1000");
  AddMember("echo 'sh: no such data' >&2; exit 65", false);
  RunSupervisor(5, Time(0));
  EXPECT_EQ(restarts_, 0u);
  EXPECT_EQ(verdict_.code(), Code::kBadData);
  EXPECT_THAT(verdict_.message(), HasSubstr("exited with code 65: no such data"));
}

TEST_F(SupervisorTest, DoesNotRestartAProcessThatWouldFailAgain) {
  for (const int code : {64, 65, 74, 76, 78, 79}) {
    options_.members.clear();
    AddMember("exec sleep 1000");
    AddMember(Cat("echo 'sh: no room' >&2; exit ", code));
    AddMember("exec sleep 1000");
    for (Supervisor::Member& member : options_.members) member.grace_if_irreplaceable = Time(0);
    const std::string out = RunSupervisor(5, milliseconds(20));
    EXPECT_EQ(restarts_, 0u);
    EXPECT_EQ(ExitCode(verdict_), code);
    EXPECT_THAT(verdict_.message(), HasSubstr("no room"));
    EXPECT_THAT(out, testing::Not(HasSubstr("started again")));
  }
}

TEST_F(SupervisorTest, DoesNotWaitOnceAllWorkersAreGone) {
  AddMember(
      R"(say '{"event":"progress","workers":1,"present":1}'; echo begun > $D/go; exec sleep 1000)");
  AddMember("read word < $D/go; kill -9 $$");
  options_.members.back().grace_if_irreplaceable = Time(0);
  RunSupervisor(0, milliseconds(20));  // ends at once, not after the grace period of a minute
  EXPECT_EQ(verdict_.code(), Code::kPeerLost);
  EXPECT_THAT(verdict_.message(), HasSubstr("root cause: worker 0"));
}

TEST_F(SupervisorTest, AFailureAfterTheEndOfTheJobFailsTheRun) {
  AddMember(Cat(kReportSuccessCommand, "; echo ended > $D/go"));
  AddMember("read word < $D/go; echo 'sh: cannot write worker.0.json' >&2; exit 74");
  RunSupervisor(0, Time(0));
  EXPECT_EQ(verdict_.code(), Code::kCannotWrite);
  EXPECT_THAT(verdict_.message(), HasSubstr("cannot write worker.0.json"));
}

TEST_F(SupervisorTest, AFailureSeenBeforeTheEndOfTheJobFailsTheRunUnlessTheJobLostTheWorker) {
  for (const int present : {0, 1}) {
    options_.members.clear();
    // Shard 0 waits until the supervisor has reaped the worker (its pid is gone), then reports the
    // end.
    AddMember(Cat("read pid < $D/go; while [ -e /proc/$pid ]; do sleep 0.01; done\n",
                  R"(say '{"event":"ended","code":0,"sentence":"","workers":1,"present":)", present,
                  "}'"));
    AddMember("echo $$ > $D/go; echo 'sh: cannot write worker.0.json' >&2; exit 74");
    RunSupervisor(0, seconds(60));
    EXPECT_EQ(verdict_.code(), present == 1 ? Code::kCannotWrite : Code::kOk);
  }
}

// The job is so short that shard 0 first reports at its end which process of the program trained.
TEST_F(SupervisorTest, AFailureOfAProgramAtTheEndOfAShortJobFailsTheRun) {
  AddMember(Cat("read pid < $D/go; while [ -e /proc/$pid ]; do sleep 0.01; done\n",
                R"(say '{"event":"ended","code":0,"sentence":"","rounds":5,"samples":5,)",
                R"("workers":1,"present":1,"processes":[{"step":5,"pid":11}]}')"));
  AddMember("echo $$ > $D/go; exit 9");
  options_.members[1].spec.is_users_program = true;
  RunSupervisor(0, seconds(60));
  EXPECT_EQ(static_cast<int>(verdict_.code()), 9) << verdict_.message();
}

TEST_F(SupervisorTest, AFailureOfAWorkerThatAUserHasReplacedDoesNotFailTheRun) {
  // A worker is its own process, or one that a program of the user's has started (process 11); its
  // replacement is process 99.
  for (const bool is_program : {false, true}) {
    for (const bool is_replaced : {false, true}) {
      options_.members.clear();
      const std::string pid = is_program ? "11" : "$pid", end_pid = is_replaced ? "99" : pid;
      const std::string at_work =
          R"(,"rounds":5,"samples":5,"workers":1,"present":1,"processes":[{"step":5,"pid":)";
      AddMember(Cat(R"(read pid < $D/go; say '{"event":"progress")", at_work, "'", pid,
                    "'}]}'; while ! grep -q 'step ' /proc/$PPID/fd/1; do sleep 0.01; done\n",
                    "kill -9 $pid; while [ -e /proc/$pid ]; do sleep 0.01; done\n",
                    R"(say '{"event":"ended","code":0,"sentence":"")", at_work, "'", end_pid,
                    "'}]}'"));
      AddMember("echo $$ > $D/go; exec sleep 1000");
      options_.members[1].spec.is_users_program = is_program;
      RunSupervisor(0, seconds(60));
      EXPECT_EQ(verdict_.code(), is_replaced ? Code::kOk : Code::kInternal) << is_program;
    }
  }
}

TEST_F(SupervisorTest, GivesTheOthersTimeToEndOnceTheJobHasBegun) {
  // Shard 0 needs 0.3 s to notice and report the loss, longer than max_report_delay (20 ms).
  AddMember(R"(say '{"event":"progress","workers":1,"present":1}'; echo begun > $D/go; sleep 0.3
say '{"event":"ended","code":75,"sentence":"worker 0 was lost"}'; exit 75)");
  AddMember("read word < $D/go; kill -9 $$", false);
  RunSupervisor(0, milliseconds(20));
  EXPECT_EQ(verdict_.code(), Code::kPeerLost);
  EXPECT_THAT(verdict_.message(), testing::AllOf(HasSubstr("root cause: worker 0"),
                                                 HasSubstr("then the job ended with code 75")));
}

TEST_F(SupervisorTest, IgnoresWhatShard0ReportsAfterItWasToldToEnd) {
  ASSERT_EQ(mkfifo((folder_ + "/never").c_str(), 0600), 0);
  AddMember(R"(trap 'say "{\"event\":\"ended\",\"code\":143}"; exit 143' TERM
echo go > $D/go; read word < $D/never)");
  AddMember("read word < $D/go; exit 65");
  RunSupervisor(0, Time(0));
  EXPECT_EQ(verdict_.code(), Code::kBadData);
  EXPECT_THAT(newest_progress_, HasSubstr("143"));
}

TEST_F(SupervisorTest, AProgramThatExitsWellBeforeTheJobsEndHasFailed) {
  options_.max_end_delay = milliseconds(20);
  AddMember("exec sleep 1000");
  AddMember("exit 0");
  options_.members[1].spec.is_users_program = true;
  RunSupervisor(5, Time(0));
  EXPECT_EQ(restarts_, 0u);
  EXPECT_EQ(verdict_.code(), Code::kUsage);
  EXPECT_THAT(verdict_.message(), HasSubstr("exited with code 0: it ended before the job did"));
}

TEST_F(SupervisorTest, AProgramMayExitWellShortlyBeforeTheReportOfTheEnd) {
  AddMember(Cat("read word < $D/go; sleep 0.1; ", kReportSuccessCommand));
  AddMember("echo go > $D/go");
  options_.members[1].spec.is_users_program = true;
  const std::string out = RunSupervisor(0, Time(0));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
  EXPECT_EQ(out.find("ended before"), std::string::npos) << out;
}

TEST_F(SupervisorTest, AProgramsCodeAfterAFailedEndIsItsOwn) {
  AddMember(
      R"(say '{"event":"ended","code":75,"sentence":"worker 1 (host, pid 1) left"}'; echo go > $D/go)");
  AddMember("read word < $D/go; exit 75");
  AddMember("sleep 0.2; exit 1");
  options_.members[1].spec.is_users_program = options_.members[2].spec.is_users_program = true;
  RunSupervisor(0, Time(0));
  EXPECT_EQ(ExitCode(verdict_), 1);
  EXPECT_THAT(verdict_.message(), HasSubstr("root cause: worker 1 ("));
}

TEST_F(SupervisorTest, IgnoresGarbageOnTheProgressPipe) {
  AddMember(Cat("say '{\"event\":'; say ''; say '[1]'; say 'x'\n", kReportSuccessCommand));
  RunSupervisor(0, Time(0));
  EXPECT_TRUE(verdict_.ok()) << verdict_.message();
}

TEST_F(SupervisorTest, AProgramThatCannotStartEndsTheOthers) {
  AddMember("echo $$ > $D/pid; exec sleep 1000");
  AddMember("true");
  options_.members.back().spec.program = folder_ + "/none";
  options_.progress_fd = progress_pipe_[0];
  TerminalLine stdout_line(STDOUT_FILENO);
  setup::Screen screen(stdout_line);
  StopSignals signals(StopSignals::SecondSignal::kReport);
  Supervisor supervisor(options_, signals, screen);
  EXPECT_EQ(supervisor.Run().code(), Code::kAddress);
}

}  // namespace
}  // namespace tern::tools

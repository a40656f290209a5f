// Tests of StopSignals, which turns SIGTERM, SIGINT and SIGHUP into events. Each test runs in a
// process of its own, which sends signals to itself or to a child that it forks.
#include "common/base/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

namespace tern {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

class StopSignalsDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void Require(bool condition, int line) {
  if (condition) return;
  fprintf(stderr, "line %d failed\n", line);
  _exit(1);
}
#define REQUIRE(condition) Require(condition, __LINE__)

bool WaitUntilReadable(int fd) {
  pollfd poll_item{fd, POLLIN, 0};
  return poll(&poll_item, 1, 10000) == 1;
}

bool IsReadableNow(int fd) {
  pollfd poll_item{fd, POLLIN, 0};
  return poll(&poll_item, 1, 0) == 1;
}

[[noreturn]] void FirstSignalIsAnEvent(int signal, Code code) {
  alarm(20);
  StopSignals stop_signals;
  REQUIRE(stop_signals.signal() == 0 && stop_signals.TakeSignal() == 0 &&
          stop_signals.status().ok());
  REQUIRE(!IsReadableNow(stop_signals.fd()));
  kill(getpid(), signal);
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  REQUIRE(stop_signals.signal() == signal);
  REQUIRE(stop_signals.status().code() == code);
  REQUIRE(stop_signals.TakeSignal() == signal);
  REQUIRE(stop_signals.TakeSignal() == 0);
  REQUIRE(!IsReadableNow(stop_signals.fd()));
  REQUIRE(stop_signals.signal() == signal);
  _exit(ExitCode(stop_signals.status()));
}

TEST_F(StopSignalsDeathTest, SigtermIsAnEvent) {
  EXPECT_EXIT(FirstSignalIsAnEvent(SIGTERM, Code::kTerminated), ExitedWithCode(143), "");
}

TEST_F(StopSignalsDeathTest, SigintIsAnEvent) {
  EXPECT_EXIT(FirstSignalIsAnEvent(SIGINT, Code::kInterrupted), ExitedWithCode(130), "");
}

[[noreturn]] void AHangupCountsAsSigterm() {
  alarm(20);
  signal(SIGHUP, SIG_DFL);
  StopSignals stop_signals;
  kill(getpid(), SIGHUP);
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  REQUIRE(stop_signals.TakeSignal() == SIGTERM);
  REQUIRE(stop_signals.signal() == SIGTERM);
  REQUIRE(stop_signals.status().code() == Code::kTerminated);
  REQUIRE(stop_signals.status().message().find("SIGHUP") != std::string::npos);
  kill(getpid(), SIGHUP);
  while (true) pause();
}

TEST_F(StopSignalsDeathTest, SighupCountsAsSigterm) {
  EXPECT_EXIT(AHangupCountsAsSigterm(), ExitedWithCode(143), "");
}

[[noreturn]] void AHangupThatIsIgnoredStaysSo() {
  alarm(20);
  signal(SIGHUP, SIG_IGN);  // This is what nohup does.
  StopSignals stop_signals;
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGINT);  // If SIGHUP counted, this would be the second signal.
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  REQUIRE(stop_signals.TakeSignal() == SIGINT);
  REQUIRE(stop_signals.signal() == SIGINT);
  _exit(0);
}

TEST_F(StopSignalsDeathTest, SighupUnderNohupIsIgnored) {
  EXPECT_EXIT(AHangupThatIsIgnoredStaysSo(), ExitedWithCode(0), "");
}

[[noreturn]] void AUserSignalAsksToReread() {
  alarm(20);
  StopSignals stop_signals;
  REQUIRE(!stop_signals.TakeReread());
  kill(getpid(), SIGUSR2);
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  REQUIRE(stop_signals.TakeSignal() == 0 && stop_signals.signal() == 0);
  REQUIRE(stop_signals.TakeReread());
  REQUIRE(!stop_signals.TakeReread());
  REQUIRE(!IsReadableNow(stop_signals.fd()));
  _exit(0);
}

TEST_F(StopSignalsDeathTest, Sigusr2AsksToReadFilesAgain) {
  EXPECT_EXIT(AUserSignalAsksToReread(), ExitedWithCode(0), "");
}

[[noreturn]] void AUserSignalAsksForACheckpoint() {
  alarm(20);
  StopSignals stop_signals;
  kill(getpid(), SIGUSR1);
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  REQUIRE(stop_signals.TakeSignal() == 0 && stop_signals.signal() == 0);
  REQUIRE(stop_signals.TakeCheckpoint() && !stop_signals.TakeCheckpoint());
  REQUIRE(!stop_signals.TakeReread());
  _exit(0);
}

TEST_F(StopSignalsDeathTest, Sigusr1AsksForACheckpoint) {
  EXPECT_EXIT(AUserSignalAsksForACheckpoint(), ExitedWithCode(0), "");
}

[[noreturn]] void SecondSignalEnds(int first, int second) {
  alarm(20);
  StopSignals stop_signals;
  kill(getpid(), first);
  REQUIRE(WaitUntilReadable(stop_signals.fd()));
  kill(getpid(), second);
  while (true) pause();  // simulates a process that hangs
}

TEST_F(StopSignalsDeathTest, ASecondSignalEndsAProcessThatHangs) {
  EXPECT_EXIT(SecondSignalEnds(SIGTERM, SIGTERM), ExitedWithCode(143), "");
  EXPECT_EXIT(SecondSignalEnds(SIGTERM, SIGINT), ExitedWithCode(130), "");
}

// Whether `signal` was sent to the process, but is not delivered yet.
bool IsPending(pid_t process, int signal) {
  std::ifstream status_file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status_file, line);) {
    if (line.starts_with("ShdPnd:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// If a user signals all processes of a job, a child receives the signal directly, and once more
// from its parent (the supervisor). The two signals must count as one request to stop. Only a later
// signal of the parent ends the child, which hangs.
[[noreturn]] void ParentsSignalIsTheSameRequest() {
  alarm(20);
  std::array<int, 2> ready_pipe{};
  REQUIRE(pipe(ready_pipe.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    StopSignals stop_signals;
    char byte = 0;
    REQUIRE(write(ready_pipe[1], &byte, 1) == 1);
    kill(getpid(), SIGTERM);
    REQUIRE(WaitUntilReadable(stop_signals.fd()));
    REQUIRE(stop_signals.TakeSignal() == SIGTERM);
    REQUIRE(write(ready_pipe[1], &byte, 1) == 1);
    while (true) pause();  // simulates a process that hangs
  }
  char byte = 0;
  REQUIRE(read(ready_pipe[0], &byte, 1) == 1 && read(ready_pipe[0], &byte, 1) == 1);
  kill(child, SIGTERM);  // the parent's first signal
  while (IsPending(child, SIGTERM)) usleep(1000);
  kill(child, SIGINT);  // the parent's second signal
  int wait_status = 0;
  REQUIRE(waitpid(child, &wait_status, 0) == child);
  _exit(WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1);
}

TEST_F(StopSignalsDeathTest, ASignalOfTheParentAndOneOfAnotherProcessCountAsOne) {
  EXPECT_EXIT(ParentsSignalIsTheSameRequest(), ExitedWithCode(130), "");
}

[[noreturn]] void FurtherSignalsAreReported() {
  alarm(20);
  StopSignals stop_signals(StopSignals::SecondSignal::kReport);
  for (const int signal : {SIGINT, SIGTERM, SIGINT}) {
    kill(getpid(), signal);
    REQUIRE(WaitUntilReadable(stop_signals.fd()));
    REQUIRE(stop_signals.TakeSignal() == signal);
  }
  REQUIRE(stop_signals.signal() == SIGINT);
  _exit(0);
}

TEST_F(StopSignalsDeathTest, ReportsFurtherSignalsOnRequest) {
  EXPECT_EXIT(FurtherSignalsAreReported(), ExitedWithCode(0), "");
}

[[noreturn]] void RaiseAfterDestructor() {
  alarm(20);
  { StopSignals stop_signals; }
  kill(getpid(), SIGTERM);
  while (true) pause();
}

TEST_F(StopSignalsDeathTest, RestoresTheSignalMask) {
  EXPECT_EXIT(RaiseAfterDestructor(), KilledBySignal(SIGTERM), "");
}

[[noreturn]] void ChildIsUnblocked() {
  alarm(20);
  StopSignals stop_signals;
  const pid_t child = fork();
  if (child == 0) {
    StopSignals::Unblock();
    execl("/bin/sleep", "sleep", "20", nullptr);
    _exit(99);
  }
  kill(child, SIGTERM);
  int wait_status = 0;
  REQUIRE(waitpid(child, &wait_status, 0) == child);
  _exit(WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 100);
}

TEST_F(StopSignalsDeathTest, UnblocksForAChild) {
  EXPECT_EXIT(ChildIsUnblocked(), ExitedWithCode(SIGTERM), "");
}

}  // namespace
}  // namespace tern

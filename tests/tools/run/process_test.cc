#include "tools/run/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "common/base/signals.h"
#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::tools {
namespace {

using e2e::ReadFile;
using testing::HasSubstr;

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() : folder_(testing::TempDir() + "tern_process_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
  }
  ~ProcessTest() override { std::filesystem::remove_all(folder_); }

  ProcessSpec ShellSpec(const std::string& script) const {
    ProcessSpec spec;
    spec.name = "shell";
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.stdout_path = folder_ + "/out";
    spec.stderr_path = folder_ + "/err";
    return spec;
  }
  static std::unique_ptr<Process> StartProcess(const ProcessSpec& spec) {
    auto process = Process::Start(spec);
    EXPECT_TRUE(process.ok()) << process.status().message();
    return process.ok() ? std::move(*process) : nullptr;
  }
  static Exit WaitForExit(Process& process) {
    pollfd exit_poll{process.event_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&exit_poll, 1, 60'000), 1) << "it still runs";
    return process.TryWait().value_or(Exit{-1, 0});
  }

  std::string folder_;
};

TEST_F(ProcessTest, ReportsItsExitCode) {
  auto process = StartProcess(ShellSpec("exit 42"));
  const Exit exit = WaitForExit(*process);
  EXPECT_EQ(exit.code, 42);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(Describe(exit), "exited with code 42");
  EXPECT_EQ(process->TryWait()->code, 42) << "asked again";
}

TEST_F(ProcessTest, ReportsTheSignalThatKilledIt) {
  auto process = StartProcess(ShellSpec("kill -9 $$"));
  EXPECT_EQ(Describe(WaitForExit(*process)), "was killed by signal 9 (Killed)");
}

TEST_F(ProcessTest, RunsInItsOwnGroupWithoutStdin) {
  auto process =
      StartProcess(ShellSpec("ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat; cat"));
  EXPECT_EQ(WaitForExit(*process).code, 0) << "cat reads the end of the file at once";
  EXPECT_EQ(atoi(ReadFile(folder_ + "/out").c_str()), process->pid());
  EXPECT_NE(getpgrp(), process->pid());
}

TEST_F(ProcessTest, DiesWithItsParent) {
  // The test forks a parent process, and the parent starts a child. Then the test kills the parent.
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t parent_pid = fork();
  if (parent_pid == 0) {
    auto process = Process::Start(ShellSpec("exec sleep 1000"));
    const pid_t pid = process.ok() ? (*process)->pid() : 0;
    if (write(pipe_ends[1], &pid, sizeof pid) < 0) _exit(1);
    pause();
    _exit(0);
  }
  pid_t child_pid = 0;
  ASSERT_EQ(read(pipe_ends[0], &child_pid, sizeof child_pid),
            static_cast<ssize_t>(sizeof child_pid));
  ASSERT_GT(child_pid, 0);
  kill(parent_pid, SIGKILL);
  waitpid(parent_pid, nullptr, 0);
  EXPECT_TRUE(e2e::WaitUntil([&] {
    const std::string proc_stat = ReadFile(Cat("/proc/", child_pid, "/stat"));
    return proc_stat.empty() || proc_stat.find(") Z ") != std::string::npos;
  }));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(ProcessTest, IsKilledByItsDestructor) {
  auto process = StartProcess(ShellSpec("exec sleep 1000"));
  const pid_t pid = process->pid();
  process.reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ProcessTest, ReceivesSignalsThatItsParentBlocks) {
  const StopSignals blocked_signals;
  auto process = StartProcess(ShellSpec("exec sleep 1000"));
  process->Signal(SIGTERM);
  EXPECT_EQ(WaitForExit(*process).signal, SIGTERM);
}

// In the mask of /proc, bit N - 1 is signal N.
TEST_F(ProcessTest, KeepsUserSignalsForAProgramThatTakesThem) {
  const StopSignals blocked_signals;
  ProcessSpec spec = ShellSpec("");  // A shell itself clears its mask.
  spec.program = "/bin/grep";
  spec.arguments = {"SigBlk", "/proc/self/status"};
  for (const bool takes_user_signals : {false, true}) {
    spec.takes_user_signals = takes_user_signals;
    WaitForExit(*StartProcess(spec));
    const uint64_t user_signals = 1u << (SIGUSR1 - 1) | 1u << (SIGUSR2 - 1);
    EXPECT_EQ(strtoull(ReadFile(spec.stdout_path).c_str() + strlen("SigBlk:"), nullptr, 16),
              takes_user_signals ? user_signals : 0);
  }
}

TEST_F(ProcessTest, AddsOnlyUnsetVariablesToTheEnvironment) {
  ASSERT_EQ(setenv("TERN_TEST_SET", "ours", 1), 0);
  ASSERT_EQ(unsetenv("TERN_TEST_UNSET"), 0);
  ProcessSpec spec = ShellSpec("echo $TERN_TEST_SET $TERN_TEST_UNSET");
  spec.environment = {"TERN_TEST_SET=theirs", "TERN_TEST_UNSET=theirs"};
  WaitForExit(*StartProcess(spec));
  EXPECT_EQ(ReadFile(spec.stdout_path), "ours theirs\n");
  unsetenv("TERN_TEST_SET");
}

TEST_F(ProcessTest, InheritsOnlyTheGivenDescriptor) {
  std::array<int, 2> inherited_pipe{}, closed_pipe{};
  ASSERT_EQ(pipe2(inherited_pipe.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(closed_pipe.data(), O_CLOEXEC), 0);
  ProcessSpec spec =
      ShellSpec(Cat("echo hello >&", inherited_pipe[1], "; echo no >&", closed_pipe[1]));
  spec.inherited_fds = {inherited_pipe[1]};
  const Exit exit = WaitForExit(*StartProcess(spec));
  EXPECT_NE(exit.code, 0) << "the other one is closed";
  std::array<char, 16> received{};
  EXPECT_EQ(read(inherited_pipe[0], received.data(), received.size()), 6);
  EXPECT_STREQ(received.data(), "hello\n");
  for (const int fd : {inherited_pipe[0], inherited_pipe[1], closed_pipe[0], closed_pipe[1]})
    close(fd);
}

// A descriptor without FD_CLOEXEC, as a shell may leave it open, reaches no child either.
TEST_F(ProcessTest, InheritsNoDescriptorThatThisProcessInherited) {
  const int leaked_fd = open("/dev/null", O_WRONLY);
  ASSERT_GE(leaked_fd, 0);
  auto process = StartProcess(ShellSpec("ls /proc/self/fd"));
  EXPECT_EQ(WaitForExit(*process).code, 0);
  close(leaked_fd);
  EXPECT_EQ(ReadFile(folder_ + "/out"), "0\n1\n2\n3\n") << "3 is the folder that ls reads";
}

TEST_F(ProcessTest, WritesItsOutputThroughNoLink) {
  const ProcessSpec spec = ShellSpec("echo ours; echo ours >&2");
  const std::string target = folder_ + "/theirs";
  std::ofstream(target) << "theirs";
  std::filesystem::create_symlink(target, spec.stdout_path);
  std::filesystem::create_symlink(target, spec.stderr_path);
  WaitForExit(*StartProcess(spec));
  EXPECT_EQ(ReadFile(spec.stdout_path), "ours\n");
  EXPECT_EQ(ReadFile(spec.stderr_path), "ours\n");
  EXPECT_EQ(ReadFile(target), "theirs");
  std::filesystem::remove(spec.stderr_path);
  std::filesystem::create_symlink(target, spec.stderr_path);
  ProcessSpec restarted_spec = spec;
  restarted_spec.appends_output = true;
  const auto process = Process::Start(restarted_spec);
  EXPECT_EQ(process.status().code(), Code::kCannotWrite);
  EXPECT_THAT(process.status().message(), HasSubstr("err: it is a symbolic link"));
  EXPECT_EQ(ReadFile(target), "theirs");
}

TEST_F(ProcessTest, LastSentenceIsItsErrorSentence) {
  auto process = StartProcess(
      ShellSpec("echo 'W0727 10:00:00.1 7 a.cc:1] warned' >&2; echo 'sh: the port is taken' >&2; "
                "echo trailer >&2"));
  WaitForExit(*process);
  EXPECT_EQ(process->LastSentence(), "the port is taken");
}

TEST_F(ProcessTest, LastSentenceIsOtherwiseTheFailedCheckOrTheLastLine) {
  auto crashed_process = StartProcess(ShellSpec(
      "echo 'F0727 10:00:00.1 7 a.cc:1] Check failed: x == 1' >&2; echo '/lib/x.so(+0x1)' >&2"));
  WaitForExit(*crashed_process);
  EXPECT_EQ(crashed_process->LastSentence(), "Check failed: x == 1");
  auto warning_process = StartProcess(
      ShellSpec("echo one >&2; echo 'W0727 10:00:00.1 7 a.cc:1] the disk is slow' >&2; "
                "echo 'I0727 10:00:00.2 7 a.cc:1] worker 1 takes part' >&2; echo >&2"));
  WaitForExit(*warning_process);
  EXPECT_EQ(warning_process->LastSentence(), "the disk is slow");
  auto silent_process = StartProcess(ShellSpec("true"));
  WaitForExit(*silent_process);
  EXPECT_EQ(silent_process->LastSentence(), "");
}

TEST_F(ProcessTest, LastSentenceLacksTheCarriageReturnOfSsh) {
  auto process = StartProcess(ShellSpec(R"(printf 'a: Permission denied (publickey).\r\n' >&2)"));
  WaitForExit(*process);
  EXPECT_EQ(process->LastSentence(), "a: Permission denied (publickey).");
}

TEST_F(ProcessTest, LastSentenceKeepsWhatItsProgramHasEscaped) {
  auto process = StartProcess(ShellSpec(R"(printf 'sh: it begins with "a\\x0a\033"\n' >&2)"));
  WaitForExit(*process);
  EXPECT_EQ(process->LastSentence(), R"(it begins with "a\x0a\x1b")");
}

TEST_F(ProcessTest, LastSentenceIgnoresEarlierProcesses) {
  ProcessSpec spec = ShellSpec("echo 'sh: first' >&2");
  WaitForExit(*StartProcess(spec));
  spec.appends_output = true;
  spec.arguments = {"-c", "true"};
  auto second_process = StartProcess(spec);
  WaitForExit(*second_process);
  EXPECT_EQ(second_process->LastSentence(), "");
  EXPECT_EQ(ReadFile(spec.stderr_path), "sh: first\n") << "the file keeps both lives";
}

TEST_F(ProcessTest, ReportsAProgramThatCannotRun) {
  ProcessSpec spec = ShellSpec("");
  spec.program = folder_ + "/none";
  const auto missing_program = Process::Start(spec);
  ASSERT_FALSE(missing_program.ok());
  EXPECT_EQ(missing_program.status().code(), Code::kAddress);
  EXPECT_THAT(missing_program.status().message(), HasSubstr("/none: No such file or directory"));
  spec = ShellSpec("");
  spec.stderr_path = folder_ + "/no/folder/err";
  EXPECT_EQ(Process::Start(spec).status().code(), Code::kCannotWrite);
}

TEST_F(ProcessTest, FindsProgramsInPath) {
  EXPECT_TRUE(FindProgram("sh").ok());
  const auto missing_program = FindProgram("tern_no_such_program");
  ASSERT_FALSE(missing_program.ok());
  EXPECT_EQ(missing_program.status().code(), Code::kAddress);
  EXPECT_THAT(missing_program.status().message(),
              HasSubstr("cannot find the program tern_no_such_program"));
}

TEST_F(ProcessTest, FindsAUsersProgram) {
  EXPECT_EQ(*FindUsersProgram("/bin/sh"), "/bin/sh");
  EXPECT_THAT(*FindUsersProgram("sh"), testing::EndsWith("/sh"));
  for (const std::string name : {"tern_no_such_program", "/tern_no_such_program", "", "/bin"}) {
    const auto missing_program = FindUsersProgram(name);
    ASSERT_FALSE(missing_program.ok()) << name;
    EXPECT_EQ(missing_program.status().code(), Code::kUsage);
    EXPECT_THAT(missing_program.status().message(), HasSubstr("saw the program "));
  }
}

TEST_F(ProcessTest, SetsVariablesOfTheEnvironment) {
  ProcessSpec spec = ShellSpec("echo $HOME $TERN_TEST_NEW");
  spec.set_environment = {"HOME=/elsewhere", "TERN_TEST_NEW=first"};
  spec.environment = {"TERN_TEST_NEW=second"};
  const auto process = StartProcess(spec);
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(WaitForExit(*process).code, 0);
  EXPECT_EQ(ReadFile(spec.stdout_path), "/elsewhere first\n");
}

TEST_F(ProcessTest, SignalsReachWhatAUsersProgramHasStarted) {
  for (const bool is_signalled : {true, false}) {
    ProcessSpec spec = ShellSpec(Cat("sleep 1000 & echo $!; ", is_signalled ? "wait" : "exit 3"));
    spec.is_users_program = true;
    const auto process = StartProcess(spec);
    ASSERT_NE(process, nullptr);
    ASSERT_TRUE(e2e::WaitUntil([&] { return ReadFile(spec.stdout_path).ends_with('\n'); }));
    if (is_signalled) process->Signal(SIGTERM);
    const Exit exit = WaitForExit(*process);
    EXPECT_EQ(exit.signal, is_signalled ? SIGTERM : 0);
    EXPECT_EQ(exit.code, is_signalled ? 0 : 3);
    const std::string stat_path = Cat("/proc/", atoi(ReadFile(spec.stdout_path).c_str()), "/stat");
    EXPECT_TRUE(e2e::WaitUntil([&] {
      const std::string stat = ReadFile(stat_path);
      return stat.empty() || stat.find(") Z ") != std::string::npos;
    }));
  }
}

// An empty element of PATH means the current folder, to which others may be able to write.
TEST_F(ProcessTest, FindsNoProgramInTheCurrentFolder) {
  const std::string program = folder_ + "/tern_planted";
  std::ofstream(program) << "#!/bin/sh\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::filesystem::path earlier_folder = std::filesystem::current_path();
  const std::string earlier_path = getenv("PATH");
  std::filesystem::current_path(folder_);
  for (const std::string path : {":", "::/bin", ".", "./"}) {
    setenv("PATH", path.c_str(), 1);
    EXPECT_FALSE(FindProgram("tern_planted").ok()) << path;
  }
  setenv("PATH", (":" + folder_).c_str(), 1);
  EXPECT_EQ(*FindProgram("tern_planted"), program);
  setenv("PATH", earlier_path.c_str(), 1);
  std::filesystem::current_path(earlier_folder);
}

}  // namespace
}  // namespace tern::tools

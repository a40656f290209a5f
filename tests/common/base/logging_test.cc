// Logging can be initialized only once per process, so each test runs in its own process.
#include "common/base/logging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/daemon_log.h"
#include "common/base/host_name.h"

namespace tern {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

class LoggingDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    // The name must be the same in the child process, which runs SetUp again.
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(::testing::TempDir()) / "tern_logging" / info->name();
    if (!::testing::internal::InDeathTestChild()) std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::vector<std::filesystem::path> LogFiles() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_))
      files.push_back(entry.path());
    return files;
  }

  std::filesystem::path dir_;
};

std::string ReadFile(const std::filesystem::path& file) {
  std::ostringstream contents;
  contents << std::ifstream(file).rdbuf();
  return contents.str();
}

LogOptions OptionsIn(const std::string& dir) {
  return {.program = "tern_worker", .role = "worker", .rank = 1, .log_dir = dir};
}

[[noreturn]] void LogLines(const std::string& dir, const std::string& text) {
  if (!InitLogging(OptionsIn(dir)).ok()) _exit(1);
  LOG(INFO) << "all is well " << text;
  LOG(WARNING) << "beware " << text;
  _exit(0);  // ends like a killed process: no buffer is written
}

TEST_F(LoggingDeathTest, WritesOneFilePerRankAndWarningsToStderr) {
  EXPECT_EXIT(LogLines(dir_, "once"), ExitedWithCode(0),
              AllOf(HasSubstr("beware once"), Not(HasSubstr("all is well"))));
  ASSERT_EQ(LogFiles().size(), 1u);
  EXPECT_THAT(LogFiles()[0].filename(),
              AllOf(::testing::ResultOf([](const auto& p) { return p.string(); },
                                        ::testing::StartsWith("tern_worker.worker.1."))));
  EXPECT_THAT(ReadFile(LogFiles()[0]),
              AllOf(HasSubstr("all is well once"), HasSubstr("beware once")));
}

// The limit of the size of files ends the file in the middle of the second line.
[[noreturn]] void LogBeyondALimit(const std::string& dir) {
  signal(SIGXFSZ, SIG_IGN);
  if (!InitLogging(OptionsIn(dir)).ok()) _exit(1);
  const auto entry = std::filesystem::directory_iterator(dir);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit full = limit;
  full.rlim_cur = std::filesystem::file_size(entry->path()) + 150;
  setrlimit(RLIMIT_FSIZE, &full);
  LOG(INFO) << "cut off " << std::string(200, 'x');
  LOG(INFO) << "lost";
  setrlimit(RLIMIT_FSIZE, &limit);
  LOG(INFO) << "there is room again";
  _exit(0);
}

TEST_F(LoggingDeathTest, ALineAfterOneThatWasCutOffIsALineOfItsOwn) {
  EXPECT_EXIT(LogBeyondALimit(dir_), ExitedWithCode(0), "");
  std::istringstream log(ReadFile(LogFiles().at(0)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], ::testing::EndsWith("x"));
  EXPECT_THAT(lines[2], AllOf(::testing::StartsWith("I"), HasSubstr("there is room again")));
}

[[noreturn]] void LogNormalEvents(const std::string& dir) {
  LogOptions options = OptionsIn(dir);
  options.format = [](const LogLine& line, const std::string& role, uint32_t rank) {
    std::ostringstream text;
    text << role << rank << '|' << line.level << '|' << line.file << '|' << line.message;
    for (const auto& [name, number] : line.numbers) text << '|' << name << '=' << number;
    return text.str();
  };
  if (!InitLogging(options).ok()) _exit(1);
  LogInfo("only in the file", Print::kNo, {{"step", 7}});
  LogInfo("worker 1 is here", Print::kYes);
  LOG(WARNING) << "beware";
  _exit(0);
}

TEST_F(LoggingDeathTest, PrintsNormalEventsAsTextAndFormatsTheLinesOfTheFile) {
  EXPECT_EXIT(
      LogNormalEvents(dir_), ExitedWithCode(0),
      AllOf(::testing::ContainsRegex("I[0-9]+ [^\n]*logging_test.cc:[0-9]+] worker 1 is here"),
            ::testing::ContainsRegex("W[0-9]+ [^\n]*] beware"),
            Not(HasSubstr("only in the file"))));
  ASSERT_EQ(LogFiles().size(), 1u);
  EXPECT_THAT(ReadFile(LogFiles()[0]),
              HasSubstr("worker1|INFO|logging_test.cc|only in the file|step=7\n"
                        "worker1|INFO|logging_test.cc|worker 1 is here\n"
                        "worker1|WARNING|logging_test.cc|beware\n"));
}

TEST_F(LoggingDeathTest, AppendsAfterARestart) {
  EXPECT_EXIT(LogLines(dir_, "first"), ExitedWithCode(0), "");
  EXPECT_EXIT(LogLines(dir_, "second"), ExitedWithCode(0), "");
  ASSERT_EQ(LogFiles().size(), 1u);
  EXPECT_THAT(ReadFile(LogFiles()[0]), AllOf(HasSubstr("well first"), HasSubstr("well second")));
}

[[noreturn]] void LogInTwoProcesses(const std::string& dir) {
  alarm(20);
  int ready_pipe[2], exit_pipe[2];
  if (pipe(ready_pipe) != 0 || pipe(exit_pipe) != 0) _exit(1);
  char byte = 0;
  if (fork() == 0) {
    if (!InitLogging(OptionsIn(dir)).ok()) _exit(1);
    (void)!write(ready_pipe[1], &byte, 1);
    close(exit_pipe[1]);
    (void)!read(exit_pipe[0], &byte, 1);  // waits until the other process has ended
    _exit(0);
  }
  if (read(ready_pipe[0], &byte, 1) != 1) _exit(2);
  LogLines(dir, "second process");
}

TEST_F(LoggingDeathTest, ASecondProcessOfARankGetsItsOwnFile) {
  EXPECT_EXIT(LogInTwoProcesses(dir_), ExitedWithCode(0), "");
  EXPECT_EQ(LogFiles().size(), 2u);
}

[[noreturn]] void PrintErrorOfInitLogging(const std::string& dir) {
  const Status status = InitLogging(OptionsIn(dir));
  fprintf(stderr, "%s\n", status.message().c_str());
  _exit(ExitCode(status));
}

TEST_F(LoggingDeathTest, ReportsADirectoryThatCannotBeWritten) {
  EXPECT_EXIT(PrintErrorOfInitLogging("/proc/none"), ExitedWithCode(74),
              "cannot write the log /proc/none");
}

// Puts a link to the file "theirs" in place of the log.
[[noreturn]] void LogThroughALink(const std::filesystem::path& dir) {
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "theirs") << "theirs";
  std::filesystem::create_symlink(dir / "theirs",
                                  dir / ("tern_worker.worker.1." + HostName() + ".log"));
  PrintErrorOfInitLogging(dir);
}

TEST_F(LoggingDeathTest, WritesThroughNoLink) {
  EXPECT_EXIT(LogThroughALink(dir_), ExitedWithCode(74),
              AllOf(HasSubstr("the log: cannot write"), HasSubstr("it is a symbolic link")));
  EXPECT_EQ(ReadFile(dir_ / "theirs"), "theirs");
}

[[noreturn]] void FailACheck() {
  if (!InitLogging(OptionsIn("")).ok()) _exit(1);
  CHECK_EQ(1, 2) << "numbers are broken";
  _exit(0);
}

TEST_F(LoggingDeathTest, AFailedCheckExitsWithSeventy) {
  EXPECT_EXIT(FailACheck(), ExitedWithCode(70), "numbers are broken");
}

// Makes stderr a pipe that takes nothing.
void BlockStderr() {
  alarm(60);
  int fds[2];
  if (pipe(fds) != 0 || fcntl(fds[1], F_SETFL, O_NONBLOCK) != 0) _exit(1);
  while (write(fds[1], "x", 1) == 1) continue;
  if (fcntl(fds[1], F_SETFL, 0) != 0 || dup2(fds[1], STDERR_FILENO) < 0) _exit(1);
}

[[noreturn]] void LogWhereNobodyReads(const std::string& dir) {
  BlockStderr();
  LogLines(dir, "unread");
}

TEST_F(LoggingDeathTest, WritesTheFileAlthoughStderrTakesNothing) {
  EXPECT_EXIT(LogWhereNobodyReads(dir_), ExitedWithCode(0), "");
  EXPECT_THAT(ReadFile(LogFiles().at(0)), HasSubstr("beware unread"));
}

[[noreturn]] void FailACheckWhereNobodyReads(const std::string& dir) {
  BlockStderr();
  if (!InitLogging(OptionsIn(dir)).ok()) _exit(1);
  CHECK_EQ(1, 2) << "numbers are broken";
  _exit(0);
}

TEST_F(LoggingDeathTest, AFailedCheckExitsAlthoughStderrTakesNothing) {
  EXPECT_EXIT(FailACheckWhereNobodyReads(dir_), ExitedWithCode(70), "");
  EXPECT_THAT(ReadFile(LogFiles().at(0)), HasSubstr("numbers are broken"));
}

[[noreturn]] void InitLoggingTwice() {
  if (!InitLogging(OptionsIn("")).ok()) _exit(1);
  _exit(ExitCode(InitLogging(OptionsIn(""))));
}

TEST_F(LoggingDeathTest, RefusesASecondInitialization) {
  EXPECT_EXIT(InitLoggingTwice(), ExitedWithCode(70), "");
}

}  // namespace
}  // namespace tern

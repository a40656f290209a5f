// Tests of the command line of tern_server and tern_worker.
#include "setup/command_line.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <new>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Calls ParseCommandLine with these arguments of tern_worker, and restores all gflags afterwards.
Result<CommandLine> ParseWorkerArguments(std::vector<std::string> arguments) {
  const gflags::FlagSaver flag_saver;
  arguments.insert(arguments.begin(), "tern_worker");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return ParseCommandLine(static_cast<int>(arguments.size()), argv.data(), "worker",
                          "the version\n");
}

// Expects that parsing fails with a message that contains `expected_message`.
void ExpectUsageError(const std::vector<std::string>& arguments,
                      const std::string& expected_message) {
  const Result<CommandLine> command_line = ParseWorkerArguments(arguments);
  ASSERT_FALSE(command_line.ok()) << testing::PrintToString(arguments);
  EXPECT_EQ(command_line.status().code(), Code::kUsage);
  EXPECT_THAT(command_line.status().message(), HasSubstr(expected_message));
}

TEST(CommandLine, ReadsValuesAfterTheFlagOrAfterAnEqualsSign) {
  const Result<CommandLine> command_line =
      ParseWorkerArguments({"--job", "a.yaml", "--rank=3", "--log_dir", "logs", "--check",
                            "--progress_fd=2", "--trace=20"});
  ASSERT_TRUE(command_line.ok()) << command_line.status().message();
  EXPECT_EQ(command_line->job_path, "a.yaml");
  EXPECT_EQ(command_line->rank, 3u);
  EXPECT_EQ(command_line->log_dir, "logs");
  EXPECT_TRUE(command_line->check_only);
  EXPECT_EQ(command_line->progress_fd, 2);
  EXPECT_EQ(command_line->trace_steps, 20u);
}

TEST(CommandLine, KeepsAllOverridesInOrder) {
  const Result<CommandLine> command_line =
      ParseWorkerArguments({"--set", "train.steps=5", "--job=a.yaml", "--set=seed=2", "--rank", "0",
                            "--set", "train.steps=6"});
  ASSERT_TRUE(command_line.ok()) << command_line.status().message();
  EXPECT_THAT(command_line->overrides, ElementsAre("train.steps=5", "seed=2", "train.steps=6"));
  EXPECT_FALSE(command_line->check_only);
  EXPECT_EQ(command_line->log_dir, "");
  EXPECT_EQ(command_line->progress_fd, -1);
}

TEST(CommandLine, RefusesUnknownFlagsAndSaysWhatTheyProbablyMean) {
  ExpectUsageError({"--job", "a", "--rank", "0", "--jbo", "b"},
                   "there is no flag --jbo; did you mean --job?");
  ExpectUsageError({"a.yaml"},
                   "saw 'a.yaml', which is one argument too many; the job file goes "
                   "after --job");
  ExpectUsageError({"-"}, "saw '-'");
  ExpectUsageError({"--"}, "--job FILE is missing");
}

TEST(CommandLine, RefusesGflagsFlagsThatEndTheProcess) {
  ExpectUsageError({"--flagfile=/nowhere", "--job", "a", "--rank", "0"},
                   "there is no flag --flagfile");
  ExpectUsageError({"--fromenv=job", "--job", "a", "--rank", "0"}, "there is no flag --fromenv");
}

TEST(CommandLine, RefusesValuesOfAnotherType) {
  ExpectUsageError({"--job", "a", "--rank", "one"}, "--rank: saw 'one'; allowed: a whole number");
  ExpectUsageError({"--job", "a", "--rank=1.5"}, "--rank: saw '1.5'");
  ExpectUsageError({"--job", "a", "--rank=0", "--trace=1001"}, "--trace: saw '1001'");
  ExpectUsageError({"--job", "a", "--rank=99999999999"}, "--rank: saw '99999999999'");
  ExpectUsageError({"--job", "a", "--rank", "0", "--check=perhaps"}, "--check takes no value");
}

TEST(CommandLine, RequiresJobRankAndFlagValues) {
  ExpectUsageError({}, "--job FILE is missing");
  ExpectUsageError({"--rank", "0"}, "--job FILE is missing");
  ExpectUsageError({"--job", "a"}, "--rank N is missing: the number of this worker in the job");
  ExpectUsageError({"--job", "a", "--rank"}, "--rank needs a value after it");
  ExpectUsageError({"--job", "a", "--rank", "0", "--set"}, "--set needs a value after it");
}

TEST(CommandLine, RefusesADescriptorThatIsNotOpen) {
  ExpectUsageError({"--job", "a", "--rank", "0", "--progress_fd", "987"},
                   "--progress_fd 987: no file descriptor with that number is open");
}

TEST(CommandLine, ReadsFailpointsOfItsDaemon) {
  const Result<CommandLine> command_line = ParseWorkerArguments(
      {"--job", "a", "--rank", "0", "--fail", "disk.write=full@3", "--fail=net.send=drop"});
  ASSERT_TRUE(command_line.ok()) << command_line.status().message();
  ASSERT_EQ(command_line->failpoints.size(), 2u);
  EXPECT_EQ(command_line->failpoints[0].text, "disk.write=full@3");
  EXPECT_EQ(command_line->failpoints[1].text, "net.send=drop");
  ExpectUsageError({"--job", "a", "--rank", "0", "--fail", "thread.lane=hang"},
                   "--fail thread.lane=hang: tern_worker has no place 'thread.lane'");
  ExpectUsageError({"--job", "a", "--rank", "0", "--fail"}, "--fail needs a value after it");
  EXPECT_EXIT((void)ParseWorkerArguments({"--fail", "list"}), testing::ExitedWithCode(0), "");
}

TEST(CommandLine, PrintsItsVersionAndExitsWithZero) {
  EXPECT_EXIT((void)ParseWorkerArguments({"--version"}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT((void)ParseWorkerArguments({"--help"}), testing::ExitedWithCode(0), "");
}

CommandLine MakeCommandLine(const std::string& job, uint32_t rank) {
  CommandLine command_line;
  command_line.job_path = job;
  command_line.rank = rank;
  command_line.check_only = true;  // Only checks the job, so no log file is opened.
  return command_line;
}

TEST(StartDaemon, ChecksTheRankAgainstTheJob) {
  const SmallJobFile file;
  EXPECT_TRUE(StartDaemon(MakeCommandLine(file.path(), 1), "worker").ok());
  const auto worker_setup = StartDaemon(MakeCommandLine(file.path(), 2), "worker");
  ASSERT_FALSE(worker_setup.ok());
  EXPECT_EQ(worker_setup.status().code(), Code::kBadJob);
  EXPECT_EQ(worker_setup.status().message(),
            "--rank 2: the job has 2 workers, so the rank is at most 1");
  const auto server_setup = StartDaemon(MakeCommandLine(file.path(), 1), "server");
  ASSERT_FALSE(server_setup.ok());
  EXPECT_EQ(server_setup.status().message(),
            "--rank 1: the job has 1 server, so the rank is at most 0");
}

// Nothing is written to the folder before the check: not even the lock.
TEST(StartDaemon, RefusesAnOutputFolderWithALinkInPlaceOfAFolder) {
  const SmallJobFile file;
  const std::string folder = file.path() + ".out";
  std::filesystem::create_directories(folder + "/theirs");
  std::filesystem::create_directory_symlink(folder + "/theirs", folder + "/checkpoints");
  CommandLine command_line = MakeCommandLine(file.path(), 0);
  command_line.check_only = false;
  command_line.overrides = {"output_dir=" + folder};
  const auto setup = StartDaemon(command_line, "worker", [](const pb::Job&) -> Status {
    ADD_FAILURE() << "the start goes on";
    return Status(Code::kInternal, "");
  });
  EXPECT_EQ(setup.status().code(), Code::kCannotWrite);
  EXPECT_THAT(setup.status().message(), HasSubstr("/checkpoints: it is a symbolic link"));
  std::filesystem::remove_all(folder);
}

TEST(StartDaemon, AppliesOverridesBeforeItChecksTheRank) {
  const SmallJobFile file;
  CommandLine command_line = MakeCommandLine(file.path(), 3);
  command_line.overrides = {"workers.count=4"};
  const auto setup = StartDaemon(command_line, "worker");
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  EXPECT_EQ((*setup)->plan.workers, 4u);
}

TEST(StartDaemon, RaisesTheLimitOfOpenFiles) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max - 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const SmallJobFile file;
  EXPECT_TRUE(StartDaemon(MakeCommandLine(file.path(), 0), "server").ok());
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST(StartDaemon, ReturnsTheErrorsOfTheJob) {
  const SmallJobFile file;
  CommandLine command_line = MakeCommandLine(file.path(), 0);
  command_line.overrides = {"train.stesp=4"};
  EXPECT_EQ(StartDaemon(command_line, "worker").status().code(), Code::kBadJob);
  EXPECT_EQ(StartDaemon(MakeCommandLine(file.path() + ".none", 0), "worker").status().code(),
            Code::kBadData);
}

TEST(RunWithinMemory, SaysThatThereIsNoMore) {
  EXPECT_EQ(RunWithinMemory([] { return Status(Code::kAddress, "taken"); }).code(), Code::kAddress);
  const Status status = RunWithinMemory([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("no more memory"));
}

TEST(ReportExit, ReturnsTheExitCodeAndPrintsTheMessage) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ReportExit("tern_worker", Status(Code::kAddress, "the port is taken")), 69);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tern_worker: the port is taken\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(ReportExit("tern_worker", Ok()), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tern::setup

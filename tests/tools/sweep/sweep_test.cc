// `tern sweep` with real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tests/e2e/place_variables.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> SweepOfFour(const TestJob& job) {
  return {
      "sweep", job.job_file(), "--grid",       "train.schedule.learning_rate=0.01,0.001", "--seeds",
      "2",     "--set",        "train.steps=5"};
}

TEST(Sweep, AfterAKillItGoesOnAndEndsWithOneTable) {
  TestJob job;
  TestProgram& killed = job.StartTern(SweepOfFour(job));
  ASSERT_TRUE(killed.WaitForOut("run 3 of 4"));
  killed.Signal(SIGKILL);
  EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
  const std::string first_summary =
      job.output_dir() + "/sweep/learning_rate=0.01,seed=1/summary.json";
  const fs::file_time_type first_end = fs::last_write_time(first_summary);

  TestProgram& sweep = job.StartTern(SweepOfFour(job));
  EXPECT_EQ(sweep.Wait(), 0) << sweep.err();
  EXPECT_THAT(sweep.out(),
              AllOf(HasSubstr("run 1 of 4, learning_rate=0.01,seed=1: was done before, accuracy"),
                    HasSubstr("run 2 of 4, learning_rate=0.01,seed=2: was done before"),
                    HasSubstr("run 4 of 4, learning_rate=0.001,seed=2: accuracy"),
                    HasSubstr("accuracy %"), HasSubstr(" +- ")));
  EXPECT_EQ(fs::last_write_time(first_summary), first_end);
  const std::string csv = ReadFile(job.output_dir() + "/sweep/sweep.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << csv;
}

TEST(Sweep, AFailedRunDoesNotEndTheOthersAndIsTheExitCode) {
  TestJob job;
  TestProgram& sweep =
      job.StartTern({"sweep", job.job_file(), "--grid", "train.schedule.learning_rate=1e30,0.01",
                     "--set", "train.steps=5"});
  EXPECT_EQ(sweep.Wait(), 79);
  EXPECT_THAT(sweep.out(), AllOf(HasSubstr("run 1 of 2, learning_rate=1e30: failed with code 79"),
                                 HasSubstr("run 2 of 2, learning_rate=0.01: accuracy")));
  EXPECT_THAT(sweep.err(), AllOf(HasSubstr("1 of 2 runs failed; the first, learning_rate=1e30"),
                                 HasSubstr("not finite")));
}

// The variables say where the sweep is, and each run is the one of its own folder.
TEST(Sweep, ItsRunsAreThoseOfItsGridWhateverTheEnvironmentSays) {
  TestJob job({.steps = 2});
  const std::string folder = job.folder() + "/elsewhere";
  const PlaceVariables variables(folder, "3", Cat("127.0.0.1:", job.port(0)));
  TestProgram& sweep = job.StartTern({"sweep", job.job_file(), "--grid", "workers.count=1,2"});
  EXPECT_EQ(sweep.Wait(), 0) << sweep.err();
  for (const int count : {1, 2}) {
    const std::string summary = ReadFile(Cat(folder, "/sweep/count=", count, "/summary.json"));
    const auto json = nlohmann::json::parse(summary, nullptr, false);
    ASSERT_TRUE(json.is_object()) << summary;
    EXPECT_EQ(json.value("workers", 0), count);
    EXPECT_EQ(json.value("rounds", 0), 2);
  }
  EXPECT_FALSE(fs::exists(folder + "/summary.json"));
}

TEST(Sweep, AStopSignalEndsItInOrder) {
  TestJob job(EndlessJobOptions());
  TestProgram& sweep = job.StartTern({"sweep", job.job_file(), "--seeds", "2"});
  ASSERT_TRUE(sweep.WaitForOut("run 1 of 2"));
  sweep.Signal(SIGTERM);
  EXPECT_EQ(sweep.Wait(), 143);
  EXPECT_THAT(sweep.err(), HasSubstr("goes on after the runs that are done"));
  EXPECT_THAT(sweep.out(), Not(HasSubstr("run 2 of 2")));
}

TEST(Sweep, RefusesWhatCannotRunBeforeItStartsAnything) {
  TestJob job;
  const auto expect_refused = [&](std::vector<std::string> arguments, int code,
                                  const std::string& sentence) {
    arguments.insert(arguments.begin(), {"sweep", job.job_file()});
    TestProgram& sweep = job.StartTern(arguments);
    EXPECT_EQ(sweep.Wait(), code);
    EXPECT_THAT(sweep.err(), HasSubstr(sentence));
    EXPECT_EQ(sweep.out(), "");
  };
  expect_refused({}, 64, "saw neither --grid nor --seeds");
  expect_refused({"--grid", "seed=1,2", "--seeds", "2"}, 64, "itself sets seed");
  expect_refused({"--grid", "exchange.codec=fp32,ternray"}, 78, "did you mean ternary");
  expect_refused({"--grid", "a=1", "--grid", "a=2"}, 64, "saw the key a twice");
  EXPECT_FALSE(fs::exists(job.output_dir()));
}

TEST(Sweep, WritesThroughNoLinkThatTheUserDidNotName) {
  TestJob job;
  const std::string target = job.folder() + "/theirs", out = job.folder() + "/chosen";
  fs::create_directories(target);
  fs::create_directories(job.output_dir());
  fs::create_directory_symlink(target, job.output_dir() + "/sweep");
  std::vector<std::string> arguments = {"sweep", job.job_file(), "--seeds",
                                        "1",     "--set",        "train.steps=2"};
  TestProgram& refused = job.StartTern(arguments);
  EXPECT_EQ(refused.Wait(), 74);
  EXPECT_THAT(refused.err(), HasSubstr("/sweep: it is a symbolic link"));
  EXPECT_TRUE(fs::is_empty(target));

  fs::create_directory_symlink(target, out);
  arguments.insert(arguments.end(), {"--out", out});
  TestProgram& sweep = job.StartTern(arguments);
  EXPECT_EQ(sweep.Wait(), 0) << sweep.err();
  EXPECT_TRUE(fs::exists(target + "/sweep.csv"));
  fs::rename(target + "/seed=1", job.folder() + "/run");
  fs::create_directory_symlink(job.folder() + "/run", target + "/seed=1");
  TestProgram& refused_run = job.StartTern(arguments);
  EXPECT_EQ(refused_run.Wait(), 74);
  EXPECT_THAT(refused_run.err(), HasSubstr("/seed=1: it is a symbolic link"));
}

TEST(Sweep, RefusesAFolderOfAnotherJob) {
  TestJob job;
  const std::vector<std::string> arguments = {"sweep", job.job_file(), "--seeds", "1", "--set"};
  for (const int steps : {2, 3}) {
    std::vector<std::string> own_arguments = arguments;
    own_arguments.push_back(Cat("train.steps=", steps));
    TestProgram& sweep = job.StartTern(own_arguments);
    EXPECT_EQ(sweep.Wait(), steps == 2 ? 0 : 76) << sweep.err();
    if (steps == 3) {
      EXPECT_THAT(sweep.err(), HasSubstr("a run of another job is in this folder"));
    }
  }
}

}  // namespace
}  // namespace tern::e2e

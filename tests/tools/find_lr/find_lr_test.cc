// `tern find_lr` with real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/job_fixture.h"
#include "tests/e2e/place_variables.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string RunFolder(const TestJob& job) { return job.output_dir() + "/find_lr"; }

TestProgram& FindLr(TestJob& job, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"find_lr", job.job_file()});
  return job.StartTern(arguments);
}

// The number behind `text` in `output`; 0 if there is none.
double NumberBehind(const std::string& output, const std::string& text) {
  const size_t place = output.find(text);
  return place == std::string::npos ? 0 : std::atof(output.c_str() + place + text.size());
}

TEST(FindLr, SuggestsARateOfAJobThatDivergesAtTheHighestRates) {
  TestJob job({.steps = 1'000'000});
  TestProgram& find_lr = FindLr(job, {"--steps", "60", "--to", "1e5", "--trial_steps", "12"});
  EXPECT_EQ(find_lr.Wait(), 0) << find_lr.err();
  EXPECT_THAT(
      find_lr.out(),
      AllOf(HasSubstr("training for up to 60 steps, with learning rates from 1e-05 to"),
            HasSubstr("smoothed loss"), HasSubstr("where the smoothed loss had risen halfway"),
            HasSubstr("trial 3: training for 12 steps with the learning rate ")));
  const double rate = NumberBehind(find_lr.out(), "--set train.schedule.learning_rate=");
  EXPECT_GT(rate, 1e-4);
  EXPECT_LT(rate, 1);
  const std::string csv = ReadFile(RunFolder(job) + "/find_lr.csv");
  const auto num_lines = std::count(csv.begin(), csv.end(), '\n');
  EXPECT_GT(num_lines, 20);
  EXPECT_LT(num_lines, 61);  // It ended before its last step.
  EXPECT_THAT(ReadFile(RunFolder(job) + "/find_lr.svg"), HasSubstr("suggested: "));
  const std::string trial = ReadFile(RunFolder(job) + "/trial_2/curve.csv");
  EXPECT_EQ(std::count(trial.begin(), trial.end(), '\n'), 13) << trial;
  EXPECT_THAT(ReadFile(RunFolder(job) + "/run.stderr"), HasSubstr("the job failed"));
}

// With a factor of 0 for all tensors nothing learns, at any rate.
TEST(FindLr, KeepsTheFactorsOfSingleTensors) {
  TestJob job({.steps = 3});
  TestProgram& find_lr = FindLr(job, {"--steps", "30", "--to", "1", "--trial_steps", "0", "--set",
                                      "train.schedule.rules=[{tensors: '*', times: 0}]"});
  EXPECT_EQ(find_lr.Wait(), 64) << find_lr.out();
  EXPECT_THAT(find_lr.err(), HasSubstr("so no rate is suggested"));
}

// The step after which tensors stay as they are counts steps of the job, which is longer.
TEST(FindLr, TrainsAllTensorsToTheEnd) {
  TestJob job({.steps = 300});
  TestProgram& find_lr =
      FindLr(job, {"--steps", "30", "--to", "1", "--trial_steps", "0", "--set",
                   "train.schedule.rules=[{tensors: '*', times: 1, until_step: 2}]"});
  EXPECT_EQ(find_lr.Wait(), 0) << find_lr.err();
  EXPECT_THAT(ReadFile(RunFolder(job) + "/job.yaml"), Not(HasSubstr("until_step")));
}

// Its warm-up, whose steps are ssgd's, is longer than the test.
TEST(FindLr, TrainsOdsgdFromTheBeginning) {
  TestJob job({.steps = 300});
  TestProgram& find_lr = FindLr(
      job, {"--steps", "30", "--to", "1", "--trial_steps", "0", "--set", "train.algorithm=odsgd"});
  EXPECT_EQ(find_lr.Wait(), 0) << find_lr.err();
  EXPECT_THAT(ReadFile(RunFolder(job) + "/job.yaml"), HasSubstr("warmup_steps: 0\n"));
}

TEST(FindLr, LeavesTheJobsOwnResultsAlone) {
  TestJob job({.steps = 3});
  TestProgram& run = job.StartTern({"run", job.job_file()});
  ASSERT_EQ(run.Wait(), 0) << run.err();
  const std::string weights = job.Weights();
  const std::string curve = ReadFile(job.output_dir() + "/curve.csv");
  TestProgram& find_lr = FindLr(
      job, {"--steps", "40", "--from", "1e-3", "--to", "0.1", "--trial_steps", "0", "--set",
            "train.schedule.linear_scaling_batch=4", "--set", "train.schedule.warmup_steps=9",
            "--set", "checkpoints.every_steps=5", "--set", "evaluation.every_steps=7"});
  EXPECT_EQ(find_lr.Wait(), 0) << find_lr.err();
  // The job's batch is 8, so its rate is twice the key's value.
  const double rate = NumberBehind(find_lr.out(), "suggested learning rate: ");
  const double value = NumberBehind(find_lr.out(), "--set train.schedule.learning_rate=");
  EXPECT_NEAR(rate / value, 2, 0.15);
  EXPECT_THAT(find_lr.out(), HasSubstr("linear_scaling_batch multiplies that key's value by 2"));
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_EQ(ReadFile(job.output_dir() + "/curve.csv"), curve);
  EXPECT_FALSE(fs::exists(RunFolder(job) + "/weights.safetensors"));
  EXPECT_FALSE(fs::exists(RunFolder(job) + "/checkpoints"));
  EXPECT_FALSE(fs::exists(RunFolder(job) + "/trial_1"));
  const std::string csv = ReadFile(RunFolder(job) + "/find_lr.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 41) << csv;
}

TEST(FindLr, RunsInItsOwnFolderWhateverTheEnvironmentSays) {
  TestJob job({.steps = 3});
  const std::string folder = job.folder() + "/elsewhere";
  const PlaceVariables variables(folder, "2", "127.0.0.1:" + std::to_string(job.port(0)));
  TestProgram& find_lr =
      FindLr(job, {"--steps", "20", "--from", "1e-3", "--to", "0.1", "--trial_steps", "0"});
  EXPECT_EQ(find_lr.Wait(), 0) << find_lr.err();
  EXPECT_TRUE(fs::exists(folder + "/find_lr/find_lr.csv"));
  EXPECT_TRUE(fs::exists(folder + "/find_lr/summary.json"));
  for (const char* name : {"/summary.json", "/curve.csv", "/weights.safetensors"})
    EXPECT_FALSE(fs::exists(folder + name)) << name;
}

TEST(FindLr, RefusesBeforeItStartsAnything) {
  TestJob job;
  const auto expect_refused = [&](const std::vector<std::string>& arguments, int code,
                                  const std::string& sentence) {
    TestProgram& find_lr = FindLr(job, arguments);
    EXPECT_EQ(find_lr.Wait(), code);
    EXPECT_THAT(find_lr.err(), HasSubstr(sentence));
    EXPECT_EQ(find_lr.out(), "");
  };
  expect_refused({"--steps", "19"}, 64, "--steps: saw 19; allowed: a whole number, 20 to 100000");
  expect_refused({"--steps", "many"}, 64, "--steps: saw 'many'");
  expect_refused({"--trial_steps", "1"}, 64, "--trial_steps: saw 1; allowed: 0, or 10 to");
  expect_refused({"--trial_steps", "100001"}, 64, "--trial_steps: saw '100001'");
  expect_refused({"--from", "0"}, 64, "--from: saw '0'; allowed: a number above 0");
  expect_refused({"--to", "inf"}, 64, "--to: saw 'inf'");
  expect_refused({"--from", "1", "--to", "0.1"}, 64, "--from must be below --to");
  expect_refused({"--set", "exchange.codec=ternray"}, 78, "did you mean ternary");
  expect_refused({"--set", "train.algorithm=asgd"}, 78, "saw asgd, which has no rounds");
  expect_refused({"--set", "train.algorithm=psgd", "--set", "train.psgd.p=32"}, 64,
                 "psgd has a loss that all workers share every 32 steps, and the range test needs "
                 "20; allowed: at least 640");
  expect_refused({"--set", "train.compute=wait"}, 78, "saw wait; the range test needs net");
  EXPECT_FALSE(fs::exists(job.output_dir()));
}

TEST(FindLr, WritesThroughNoLink) {
  TestJob job;
  const std::string target = job.folder() + "/theirs";
  fs::create_directories(target);
  fs::create_directories(job.output_dir());
  fs::create_directory_symlink(target, RunFolder(job));
  TestProgram& find_lr = FindLr(job, {"--steps", "30", "--trial_steps", "0"});
  EXPECT_EQ(find_lr.Wait(), 74);
  EXPECT_THAT(find_lr.err(), HasSubstr("/find_lr: it is a symbolic link"));
  EXPECT_TRUE(fs::is_empty(target));
}

TEST(FindLr, PassesOnWhyTheRunFailed) {
  TestJob job;
  TestProgram& find_lr = FindLr(job, {"--set", "data.dir=/nowhere"});
  EXPECT_EQ(find_lr.Wait(), 65);
  EXPECT_THAT(find_lr.err(), AllOf(HasSubstr("the job failed; root cause: "), HasSubstr("/nowhere"),
                                   Not(HasSubstr("\\x0a"))));
  EXPECT_THAT(find_lr.out(), Not(HasSubstr("suggested")));
}

TEST(FindLr, ATestThatDivergesAtOnceIsAnError) {
  TestJob job;
  TestProgram& find_lr = FindLr(job, {"--from", "1e4", "--to", "1e5"});
  EXPECT_EQ(find_lr.Wait(), 79);
  EXPECT_THAT(find_lr.err(),
              AllOf(HasSubstr("losses, expected at least 20"), HasSubstr("the run ended: ")));
}

}  // namespace
}  // namespace tern::e2e

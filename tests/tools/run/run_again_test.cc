// `tern run` in the folder of an earlier or running job: the run resumes the job, is refused, or
// keeps earlier results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

size_t OccurrencesOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t begin = text.find(part); begin != std::string::npos;
       begin = text.find(part, begin + 1))
    ++count;
  return count;
}

// The N of every line of the output that begins with "step N/".
std::vector<uint64_t> StepsShown(const std::string& out) {
  std::vector<uint64_t> steps;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("step ")) steps.push_back(std::stoull(line.substr(5)));
  }
  return steps;
}

std::string HostName() {
  std::array<char, 256> buffer{};
  EXPECT_EQ(gethostname(buffer.data(), buffer.size() - 1), 0);
  return buffer.data();
}

TEST(RunAgain, AResumedRunCountsStepsOfTheJob) {
  JobOptions options;
  options.steps = 90;
  options.yaml = "checkpoints: {every_steps: 10}\n";
  TestJob job(options);
  TestProgram& first_run = job.StartTern({"run", job.job_file(), "--set", "train.steps=30"});
  ASSERT_EQ(first_run.Wait(), 0) << first_run.err();
  EXPECT_THAT(first_run.out(),
              AllOf(Not(HasSubstr("goes on")), HasSubstr("steps                 30\n")));
  TestProgram& second_run = job.StartTern({"run", job.job_file()});
  ASSERT_EQ(second_run.Wait(), 0) << second_run.err();
  EXPECT_THAT(second_run.out(),
              AllOf(HasSubstr("goes on from step 30 with other settings: train.steps was 30, is "
                              "now 90\n"),
                    HasSubstr("steps                 90 (last went on from step 30)\n")));
  for (const uint64_t step : StepsShown(second_run.out())) EXPECT_GT(step, 30u);
  const nlohmann::json summary = job.Output("summary.json");
  EXPECT_EQ(summary["rounds"], 90);
  EXPECT_EQ(summary["steps"], 90);
  EXPECT_EQ(summary["from_step"], 30);
  EXPECT_EQ(summary["samples"], 60 * 8) << "of this run";
}

TEST(RunAgain, ARunOfADoneJobNamesChangedKeysAndSaysThatThereIsNothingToTrain) {
  JobOptions options;
  options.steps = 20;
  options.yaml = "checkpoints: {every_steps: 10}\n";
  TestJob job(options);
  ASSERT_EQ(job.StartTern({"run", job.job_file()}).Wait(), 0);
  TestProgram& second_run = job.StartTern(
      {"run", job.job_file(), "--free_ports", "--set", "train.schedule.learning_rate=0.125"});
  ASSERT_EQ(second_run.Wait(), 0) << second_run.err();
  EXPECT_THAT(second_run.out(),
              testing::ContainsRegex("goes on from step 20 with other settings: "
                                     "train.schedule.learning_rate was [0-9.]+, is now 0.125\n"
                                     "nothing to train: the job has 20 steps, and they are done"));
}

TEST(RunAgain, AJobThatLostAWorkerStillReportsItsResult) {
  JobOptions options = EndlessJobOptions(
      "faults: {on_worker_loss: shrink, heartbeat_ms: 50, suspect_after_s: 0.3, "
      "dead_after_s: 0.6}\n");
  options.workers = 3;
  options.min_workers = 2;
  options.batch_total = 12;
  TestJob job(options);
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  const pid_t worker_pid = TestJob::PidOf(tern, "worker 0");
  ASSERT_GT(worker_pid, 0);
  kill(worker_pid, SIGKILL);
  // Progress lines are 5 s apart. If the loss of worker 0 failed the job, the job would end before
  // the second line.
  ASSERT_TRUE(
      WaitUntil([&] { return OccurrencesOf(tern.out(), "workers 2/3") >= 2 || !tern.running(); }));
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(), 143) << tern.err();
  EXPECT_THAT(tern.out(),
              AllOf(HasSubstr("servers, workers      1, 2 of 3 (without worker 0)\n"),
                    HasSubstr("test accuracy         "), HasSubstr("training loss         "),
                    HasSubstr("replicas              agree, hash ")));
  const nlohmann::json summary = job.Output("summary.json");
  EXPECT_EQ(summary["workers"], 3);
  EXPECT_EQ(summary["present"], 2);
  EXPECT_EQ(summary["lost"], nlohmann::json::array({0}));
  EXPECT_EQ(summary["test_samples"], 60);
  EXPECT_TRUE(summary.contains("parameters_hash"));
}

TEST(RunAgain, RefusesAFolderInUseBeforeItWritesAnything) {
  TestJob job(EndlessJobOptions());
  TestProgram& first_run = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  const std::string worker_err = job.OutputBytes("logs/worker.0.stderr");
  const std::vector<std::string> arguments = {"run", job.job_file(), "--free_ports", "--set",
                                              "seed=2"};
  TestProgram& second_run = job.StartTern(arguments);
  EXPECT_EQ(second_run.Wait(), 69);
  EXPECT_EQ(second_run.out(), "") << "nothing is started";
  EXPECT_THAT(second_run.err(),
              AllOf(HasSubstr("the folder " + job.output_dir() + " is in use by job 'test'"),
                    HasSubstr(Cat("process ", first_run.pid(), " on ", HostName(), ", since ")),
                    HasSubstr("--set output_dir=")));
  EXPECT_EQ(job.OutputBytes("logs/worker.0.stderr"), worker_err);
  EXPECT_FALSE(std::filesystem::exists(job.output_dir() + "/summary.json"));
  first_run.Signal(SIGTERM);
  EXPECT_EQ(first_run.Wait(), 143) << first_run.err();
  EXPECT_EQ(job.Output("summary.json")["code"], 143);
  // The first `tern run` and its server had locked the folder. Both have ended.
  std::vector<std::string> short_run_arguments = arguments;
  short_run_arguments.insert(short_run_arguments.end(), {"--set", "train.steps=3"});
  EXPECT_EQ(job.StartTern(short_run_arguments).Wait(), 0);
}

TEST(RunAgain, OneOfTwoSimultaneousRunsIsRefused) {
  TestJob job(EndlessJobOptions());
  TestProgram* refused_run = &job.StartTern({"run", job.job_file(), "--free_ports"});
  TestProgram* accepted_run = &job.StartTern({"run", job.job_file(), "--free_ports"});
  ASSERT_TRUE(WaitUntil([&] { return !refused_run->running() || !accepted_run->running(); }))
      << "both run";
  if (!accepted_run->running()) std::swap(refused_run, accepted_run);
  EXPECT_EQ(refused_run->Wait(), 69);
  EXPECT_THAT(refused_run->err(),
              HasSubstr(Cat("is in use by job 'test', process ", accepted_run->pid())));
  ASSERT_TRUE(job.WaitForTraining());
  accepted_run->Signal(SIGTERM);
  EXPECT_EQ(accepted_run->Wait(), 143) << accepted_run->err();
  EXPECT_EQ(job.Output("summary.json")["code"], 143);
}

// Starts a job that goes on while it waits for a lost worker 1.
TestProgram& StartWithoutWorker1(TestJob& job) {
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  if (!job.WaitForTraining()) return tern;
  kill(TestJob::PidOf(tern, "worker 1"), SIGKILL);
  EXPECT_TRUE(tern.WaitForOut("worker 1 (process "));
  EXPECT_TRUE(job.WaitForLog("server", 0, "waiting for its return"));
  return tern;
}
// Expects that a worker that is started by hand replaces the lost one, then stops the job.
void ExpectGoesOnWithWorker1(TestJob& job, TestProgram& tern) {
  TestProgram& replacement = job.StartWorker(1);
  EXPECT_TRUE(job.WaitForLog("server", 0, "has come back"));
  EXPECT_TRUE(tern.WaitForOut(" img/s  waiting "));
  EXPECT_TRUE(tern.running()) << tern.err();
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(), 143) << tern.err();
  EXPECT_EQ(replacement.Wait(), 143) << replacement.err();
}
constexpr const char* kWaits = "faults: {on_worker_loss: wait, wait_timeout_s: 120}\n";

TEST(RunAgain, ARunWithTheAddressesOfAnotherOneLeavesThatAlone) {
  TestJob job(EndlessJobOptions(kWaits));
  TestProgram& first_run = StartWithoutWorker1(job);
  TestProgram& second_run =
      job.StartTern({"run", job.job_file(), "--set", Cat("output_dir=", job.folder(), "/second")});
  EXPECT_EQ(second_run.Wait(), 69);
  EXPECT_THAT(second_run.err(), AllOf(HasSubstr("root cause: server 0 "), HasSubstr("is in use")));
  ExpectGoesOnWithWorker1(job, first_run);
}

TEST(RunAgain, AWorkerOfAnotherRunIsRefusedAndStopsNothing) {
  TestJob job(EndlessJobOptions(kWaits));
  TestProgram& tern = StartWithoutWorker1(job);
  TestProgram& worker = job.Start("other_run", "/usr/bin/env",
                                  {"TERN_LAUNCH=5", TestJob::BinaryPath("tern_worker"), "--job",
                                   job.job_file(), "--rank", "1", "--log_dir", job.folder()});
  EXPECT_EQ(worker.Wait(), 77);
  EXPECT_THAT(worker.err(),
              HasSubstr("refused by server shard 0: worker 1 belongs to another run"));
  ExpectGoesOnWithWorker1(job, tern);
}

TEST(RunAgain, RefusesTheFolderOfAServerThatWasStartedByHand) {
  TestJob job;
  TestProgram& server = job.StartServer(0);
  ASSERT_TRUE(job.WaitForLog("server", 0, "the job as this server"));
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--free_ports"});
  EXPECT_EQ(tern.Wait(), 69);
  EXPECT_EQ(tern.out(), "");
  EXPECT_THAT(tern.err(), HasSubstr(Cat("process ", server.pid(), " on ")));
  // Once the server is killed, a job may use the folder again.
  server.Signal(SIGKILL);
  EXPECT_EQ(server.Wait(), 128 + SIGKILL);
  EXPECT_EQ(job.StartTern({"run", job.job_file(), "--free_ports"}).Wait(), 0);
}

TEST(RunAgain, AFailedRunKeepsSummaryAndWeightsOfAnEarlierSuccess) {
  TestJob job({.steps = 5});
  TestProgram& successful_run = job.StartTern({"run", job.job_file()});
  ASSERT_EQ(successful_run.Wait(), 0) << successful_run.err();
  const std::string summary = job.OutputBytes("summary.json"), weights = job.Weights();
  const std::string of_server = job.OutputBytes("server.0.json");
  TestProgram& failed_run =
      job.StartTern({"run", job.job_file(), "--set", "data.dir=" + job.folder() + "/nothing"});
  EXPECT_EQ(failed_run.Wait(20), 65) << failed_run.err();
  EXPECT_EQ(job.OutputBytes("summary.json"), summary);
  EXPECT_EQ(job.OutputBytes("server.0.json"), of_server);
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_EQ(job.Output("summary.failed.json")["code"], 65);
  EXPECT_NE(job.Output("server.0.failed.json")["code"], 0);
  EXPECT_THAT(failed_run.out(),
              AllOf(HasSubstr("the summary is in " + job.output_dir() + "/summary.failed.json"),
                    HasSubstr("still those of an earlier run"), Not(HasSubstr("rounds  ")),
                    Not(HasSubstr(" 0.0 s"))))
      << "no table of zeros";
  TestProgram& later_run = job.StartTern({"run", job.job_file(), "--set", "seed=2"});
  ASSERT_EQ(later_run.Wait(), 0) << later_run.err();
  EXPECT_NE(job.OutputBytes("summary.json"), summary);
  EXPECT_FALSE(job.Weights() == weights);
  EXPECT_NE(job.OutputBytes("server.0.json"), of_server);
  for (const char* name : {"/summary.failed.json", "/server.0.failed.json"})
    EXPECT_FALSE(std::filesystem::exists(job.output_dir() + name));
}

}  // namespace
}  // namespace tern::e2e

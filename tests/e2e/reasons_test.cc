// Tests that if a process ends with an error that would occur again after a restart, the whole job
// ends with that error at once, and no process is restarted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Options of a job. If `on_loss` is "wait", the job waits ten minutes for a lost worker.
JobOptions OptionsOf(const std::string& on_loss, const std::string& yaml = "") {
  JobOptions options;
  options.yaml = Cat("faults: {on_worker_loss: ", on_loss, "}\n", yaml);
  return options;
}

// Creates a folder that has the name of one of the job's output files. Then no process, not even
// root's, can rename a file to that name.
void MakeUnwritable(const TestJob& job, const std::string& name) {
  fs::create_directories(Cat(job.output_dir(), "/", name, "/in_the_way"));
}

void ExpectAllEndWithMessage(TestJob& job, int code, const std::string& message) {
  job.ExpectAllEnd(code);
  for (TestProgram* program : {&job.server(0), &job.worker(0), &job.worker(1)})
    EXPECT_THAT(program->err(), HasSubstr(message));
}

class WeightsThatCannotBeWritten : public testing::TestWithParam<std::string> {};

TEST_P(WeightsThatCannotBeWritten, EndTheJobWith74) {
  TestJob job(OptionsOf(GetParam()));
  MakeUnwritable(job, "weights.safetensors");
  job.StartAll();
  ExpectAllEndWithMessage(job, 74, "weights.safetensors: Is a directory");
  EXPECT_EQ(job.Output("server.0.json")["code"], 74);
}

INSTANTIATE_TEST_SUITE_P(Each, WeightsThatCannotBeWritten,
                         testing::Values("fail", "wait", "shrink"),
                         [](const auto& info) { return info.param; });

// The job's output_dir is on each host's own disk. That of worker 0 is full.
class OneDiskThatIsFull : public testing::TestWithParam<std::string> {};

TEST_P(OneDiskThatIsFull, AnotherWorkerWritesTheWeights) {
  TestJob job(OptionsOf(GetParam()));
  MakeUnwritable(job, "weights.safetensors");
  const std::string other_dir = job.folder() + "/other";
  job.StartServer(0);
  job.StartWorker(0);
  job.StartWorker(1, {"--set", "output_dir=" + other_dir});
  job.ExpectAllEnd(0);
  EXPECT_FALSE(ReadFile(other_dir + "/weights.safetensors").empty());
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("weights.safetensors: Is a directory"));
  const auto summary = job.Output("server.0.json");
  EXPECT_EQ(summary["weights_path"], other_dir + "/weights.safetensors");
  EXPECT_EQ(summary["weights_rank"], 1);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("of worker 1, because worker 0: cannot rename "));
}

INSTANTIATE_TEST_SUITE_P(Each, OneDiskThatIsFull, testing::Values("fail", "shrink"),
                         [](const auto& info) { return info.param; });

TEST(FullDisk, AtTheEndIsTheRunsRootCauseAndNoProcessIsRestarted) {
  TestJob job(OptionsOf("wait"));
  MakeUnwritable(job, "weights.safetensors");
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--restarts", "3"});
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(), HasSubstr("weights.safetensors: Is a directory"));
  EXPECT_EQ(job.Output("summary.json")["code"], 74);
  EXPECT_EQ(job.Output("summary.json")["restarts"], 0);
}

// With `ulimit -f`, a write beyond the limit is an error. The program ignores the signal (SIGXFSZ)
// that would kill it.
TEST(FullDisk, AFileSizeLimitActsLikeIt) {
  TestJob job(OptionsOf("wait", "checkpoints: {every_steps: 10}\n"));
  job.StartServer(0);
  job.StartWorker(1);
  TestProgram& worker =
      job.Start("worker.0", "/bin/sh",
                {"-c", "ulimit -f 512; exec \"$0\" \"$@\"", TestJob::BinaryPath("tern_worker"),
                 "--job", job.job_file(), "--rank", "0", "--log_dir", job.log_dir()});
  EXPECT_EQ(worker.Wait(), 74);
  EXPECT_THAT(worker.err(), HasSubstr("File too large"));
  job.ExpectAllEnd(74);
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("cannot write the checkpoint of step 10"))
      << "which alone does not end the job";
}

// A stopped job that cannot write its checkpoint fails, because the user relies on the checkpoint.
TEST(FullDisk, ACheckpointOfAStopThatCannotBeWrittenEndsWith74) {
  JobOptions options = OptionsOf("fail", "checkpoints: {every_steps: 1000000}\n");
  options.steps = 1000000;
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  const std::string folder = job.output_dir() + "/checkpoints/worker.1";
  fs::rename(folder, folder + ".moved");
  std::ofstream(folder).flush();  // a file, where the program needs a folder
  job.server(0).Signal(SIGTERM);
  ExpectAllEndWithMessage(job, 74, "the checkpoint of step ");
  EXPECT_FALSE(job.Weights().empty()) << "they are written all the same";
}

TEST(FullDisk, CheckpointsThatCannotBeWrittenAreCountedAndShownEverywhere) {
  const uint16_t metrics_port = FreeMetricsPort();
  JobOptions options =
      OptionsOf("wait", Cat("checkpoints: {every_steps: 5, shard_every_steps: 2}\nmetrics: {port: ",
                            metrics_port, "}\n"));
  options.steps = 1000000;
  TestJob job(options);
  TestProgram& tern = job.StartTern({"run", job.job_file(), "--set", "train.parameters=central"});
  const std::string folder = job.output_dir() + "/checkpoints", file = job.folder() + "/file";
  for (const char* daemon : {"worker.0", "worker.1", "shard.0.lane.1"})
    ASSERT_TRUE(WaitUntil([&] { return fs::exists(Cat(folder, "/", daemon, "/run.json")); }));
  std::ofstream(file).flush();
  // From now on there is a file where the daemons need a folder.
  ASSERT_EQ(renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE), 0);
  const auto failures_of = [](uint16_t port, const std::string& series) {
    return MetricOf(GetMetrics(port), series);
  };
  EXPECT_TRUE(WaitUntil([&] {
    return failures_of(metrics_port, "tern_server_checkpoint_failures_total{lane=\"1\"}") >= 3;
  }));
  EXPECT_TRUE(WaitUntil([&] {
    return failures_of(metrics_port + 100, "tern_worker_checkpoint_failures_total") >= 1;
  }));
  EXPECT_TRUE(tern.WaitForOut("a checkpoint could not be written"));
  EXPECT_TRUE(job.WaitForLog("server", 0, "worker 0 ("));
  EXPECT_TRUE(job.WaitForLog("server", 0, " so far; its log says why"));
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(), 74) << "the checkpoint of the stop is missing";
  EXPECT_GT(job.Output("summary.json")["failed_checkpoints"], 3);
  EXPECT_THAT(tern.out(), HasSubstr(" COULD NOT BE WRITTEN"));
}

TEST(FullDisk, ASummaryThatCannotBeWrittenEndsWith74) {
  TestJob job(OptionsOf("fail"));
  MakeUnwritable(job, "server.0.json");
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(), HasSubstr("server.0.json: Is a directory"));
}

TEST(FullDisk, CountersThatCannotBeWrittenEndWith74) {
  TestJob job(OptionsOf("fail"));
  MakeUnwritable(job, "worker.1.json");
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  EXPECT_EQ(tern.Wait(), 74);
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("root cause: worker 1"), HasSubstr("worker.1.json: Is a directory")));
}

TEST(FullDisk, LogsThatCannotBeWrittenEndWith74) {
  TestJob job;
  std::ofstream(job.folder() + "/taken").flush();
  TestProgram& server = job.StartServer(0, {"--log_dir", job.folder() + "/taken/logs"});
  EXPECT_EQ(server.Wait(), 74);
  EXPECT_THAT(server.err(), AllOf(HasSubstr("cannot write the log"), HasSubstr("Not a directory")));
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--set", Cat("output_dir=", job.folder(), "/taken/out")});
  EXPECT_EQ(tern.Wait(), 74);
}

TEST(Diverged, IsTheRunsRootCauseAndNoProcessIsRestarted) {
  JobOptions options = OptionsOf("wait");
  options.steps = 1000000;
  TestJob job(options);
  TestProgram& tern = job.StartTern(
      {"run", job.job_file(), "--restarts", "3", "--set", "train.schedule.learning_rate=1e30"});
  EXPECT_EQ(tern.Wait(), 79);
  EXPECT_THAT(tern.err(),
              AllOf(HasSubstr("is not finite at round"), HasSubstr("lower the learning rate")));
  EXPECT_EQ(job.Output("summary.json")["restarts"], 0);
}

TEST(Diverged, InTheLastStepIsFoundByTheLastEvaluation) {
  JobOptions options = OptionsOf("fail");
  options.steps = 1;
  TestJob job(options);
  job.StartAll({"--set", "train.schedule.learning_rate=1e30"});
  ExpectAllEndWithMessage(job, 79, "the loss on the test set is not finite after step 1");
  EXPECT_FALSE(fs::exists(job.output_dir() + "/weights.safetensors"));
}

}  // namespace
}  // namespace tern::e2e

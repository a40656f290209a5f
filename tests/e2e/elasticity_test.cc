// Tests of rounds that close without some workers: backup workers, `on_worker_loss: shrink`, and
// workers that join later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr uint64_t kEndlessSteps = 100000000;

JobOptions ShrinkOptions(uint64_t steps, const std::string& train = "") {
  return {.servers = 2,
          .workers = 3,
          .min_workers = 2,
          .steps = steps,
          .batch_total = 12,
          .yaml = Cat("faults: {on_worker_loss: shrink, heartbeat_ms: 50, "
                      "suspect_after_s: 0.5, dead_after_s: 1}\n",
                      train)};
}

void KillAndWait(TestProgram& program) {
  program.Signal(SIGKILL);
  ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
}

// Stops a job with a signal and expects an orderly end. These jobs have an endless number of steps,
// so that no test depends on the speed of the machine.
void ExpectOrderlyStop(TestJob& job) {
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["code"], 143);
  EXPECT_EQ(summary["test_samples"], 60) << "those who are left evaluate all of the test set";
}

// Expects all results of a job of three workers that ended without worker `lost_rank`.
void ExpectResultsWithout(const TestJob& job, uint32_t lost_rank) {
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["test_samples"], 60) << "those who are left evaluate all of the test set";
  EXPECT_TRUE(summary.contains("accuracy") && summary.contains("train_loss"));
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["parameters_hash"].get<std::string>().size(), 16u);
  EXPECT_EQ(summary["present"], 2);
  EXPECT_EQ(summary["lost"], nlohmann::json::array({lost_rank}));
  EXPECT_THAT(job.Log("server", 0),
              ContainsRegex("2 of 3 \\(without worker " + std::to_string(lost_rank) + "\\)"));
  EXPECT_FALSE(job.Weights().empty());
}

TEST(Shrink, GoesOnWithoutAKilledWorker) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  const uint64_t rounds_before = job.Progress()["rounds"];
  ASSERT_TRUE(WaitUntil([&] { return job.Progress()["rounds"] > rounds_before + 20; }));
  job.server(0).Signal(SIGTERM);
  for (TestProgram* program : {&job.server(0), &job.server(1), &job.worker(0), &job.worker(2)})
    EXPECT_EQ(program->Wait(), 143);
  ExpectResultsWithout(job, 1);
}

TEST(Shrink, WithoutTheLowestRankItStillEndsWithAllResults) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(0));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  job.server(1).Signal(SIGTERM);
  for (TestProgram* program : {&job.server(0), &job.server(1), &job.worker(1), &job.worker(2)})
    EXPECT_EQ(program->Wait(), 143);
  ExpectResultsWithout(job, 0);
}

// Waits for ten more rounds.
void TrainOn(TestJob* job) {
  const uint64_t rounds_before = job->Progress()["rounds"];
  ASSERT_TRUE(job->WaitForRound(rounds_before + 10));
}

TEST(Shrink, BeginsWithFewAndLetsManyComeAndGo) {
  TestJob job({.servers = 2,
               .workers = 8,
               .min_workers = 3,
               .steps = kEndlessSteps,
               .batch_total = 16,
               .yaml = "faults: {on_worker_loss: shrink, start_timeout_s: 4, heartbeat_ms: 50, "
                       "suspect_after_s: 0.5, dead_after_s: 1}\n"});
  const auto join = [&job](const std::vector<uint32_t>& ranks) {
    for (const uint32_t rank : ranks) job.StartWorker(rank);
    for (const uint32_t rank : ranks)
      ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round")) << rank;
  };
  const auto train_with = [&job](uint32_t num_workers) {
    ASSERT_TRUE(job.WaitForLog(
        "worker", 6,
        Cat(num_workers, " of 8 workers contribute: the global batch is ", 2 * num_workers)));
    TrainOn(&job);
  };
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard);
  for (const uint32_t rank : {1u, 2u, 5u, 6u}) job.StartWorker(rank);
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 4 of 8 workers"));
  train_with(4);
  join({0, 7});
  train_with(6);
  for (const uint32_t rank : {0u, 1u, 2u}) KillAndWait(job.worker(rank));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 3 of 8 workers"));
  train_with(3);
  join({0, 1, 2, 3, 4});
  train_with(8);
  ExpectOrderlyStop(job);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["present"], 8);
}

TEST(Shrink, GrowsBeyondItsCountUpToMax) {
  TestJob job({.servers = 2,
               .workers = 2,
               .max_workers = 4,
               .steps = kEndlessSteps,
               .batch_total = 8,
               .yaml = "faults: {on_worker_loss: shrink, server_return_timeout_s: 60, "
                       "heartbeat_ms: 50, suspect_after_s: 0.5, dead_after_s: 1}\n"});
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard);
  for (const uint32_t rank : {1u, 3u}) job.StartWorker(rank);
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 4 workers"));
  TrainOn(&job);
  for (const uint32_t rank : {0u, 2u}) {
    job.StartWorker(rank);
    ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round")) << rank;
    TrainOn(&job);
  }
  KillAndWait(job.worker(3));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 3 of 4 workers"));
  TrainOn(&job);
  KillAndWait(job.server(0));
  job.StartServer(0);
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 3 of 4 workers"));
  TrainOn(&job);
  job.StartWorker(3);
  ASSERT_TRUE(job.worker(3).WaitForErr("installed the state after round"));
  ExpectOrderlyStop(job);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["present"], 4);
  for (const int num_workers : {3, 4}) {
    EXPECT_THAT(job.Log("worker", 1),
                HasSubstr(Cat(num_workers, " of 4 workers contribute: the global batch is ",
                              4 * num_workers)));
  }
}

TEST(Shrink, LetsAWorkerJoinLater) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(0));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  job.StartWorker(0);
  ASSERT_TRUE(job.worker(0).WaitForErr("installed the state after round"));
  const uint64_t rounds_at_return = job.Progress()["rounds"];
  ASSERT_TRUE(job.WaitForRound(rounds_at_return + 20));
  ExpectOrderlyStop(job);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

TEST(Shrink, TakesAStoppedWorkerBack) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  job.worker(1).Signal(SIGSTOP);
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  job.worker(1).Signal(SIGCONT);
  ASSERT_TRUE(job.worker(1).WaitForErr("installed the state after round"));
  const uint64_t rounds_at_return = job.Progress()["rounds"];
  ASSERT_TRUE(job.WaitForRound(rounds_at_return + 20));
  ExpectOrderlyStop(job);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

TEST(Shrink, EndsTheJobBelowMinWorkers) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  KillAndWait(job.worker(2));
  EXPECT_EQ(job.server(0).Wait(), 75);
  EXPECT_THAT(job.server(0).err(), HasSubstr("workers.min is 2"));
  EXPECT_EQ(job.worker(0).Wait(), 75);
}

// The disk of worker 2 has the first checkpoints, and that of worker 1 is lost: both get the state
// of worker 0.
TEST(Shrink, IsResumedWithRanksThatLackTheNewestCheckpoint) {
  JobOptions options = ShrinkOptions(kEndlessSteps);
  options.min_workers = 1;
  TestJob job(options);
  const std::vector<std::string> arguments = {"--set", "checkpoints.every_steps=10"};
  std::vector<std::string> dying_arguments = arguments;
  dying_arguments.insert(dying_arguments.end(), {"--fail", "thread.compute=die@step:25"});
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard, arguments);
  for (const uint32_t rank : {0u, 1u}) job.StartWorker(rank, arguments);
  job.StartWorker(2, dying_arguments);
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  ASSERT_TRUE(job.WaitForRound(70));
  for (const uint32_t rank : {0u, 1u}) KillAndWait(job.worker(rank));
  for (const uint32_t shard : {0u, 1u}) KillAndWait(job.server(shard));
  job.worker(2).Wait();
  std::filesystem::remove_all(job.output_dir() + "/checkpoints/worker.1");
  job.StartAll(arguments);
  for (const uint32_t rank : {1u, 2u})
    ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round")) << rank;
  EXPECT_THAT(job.worker(2).err(), HasSubstr("which this rank does not have: it gets the state"));
  EXPECT_THAT(job.worker(0).err(),
              ContainsRegex("goes on from the checkpoint of step ([6-9]|[0-9]{2,})0"));
  TrainOn(&job);
  ExpectOrderlyStop(job);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

// The new ranks say hello first. The servers' codecs have checkpoints, which show that there was a
// run.
TEST(Shrink, IsResumedAlsoIfNewRanksComeFirst) {
  JobOptions options = ShrinkOptions(kEndlessSteps, "exchange: {codec: onebit}\n");
  options.workers = 2;
  options.min_workers = 1;
  options.max_workers = 4;
  options.batch_total = 8;
  TestJob job(options);
  const std::vector<std::string> arguments = {"--set", "checkpoints.every_steps=10"};
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard, arguments);
  for (const uint32_t rank : {0u, 1u}) job.StartWorker(rank, arguments);
  ASSERT_TRUE(job.WaitForRound(40));
  for (const uint32_t rank : {0u, 1u}) KillAndWait(job.worker(rank));
  for (const uint32_t shard : {0u, 1u}) KillAndWait(job.server(shard));
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard, arguments);
  for (const uint32_t rank : {2u, 3u}) job.StartWorker(rank, arguments);
  ASSERT_TRUE(job.server(0).WaitForErr("it waits for the others"));
  for (const uint32_t rank : {0u, 1u}) job.StartWorker(rank, arguments);
  for (const uint32_t rank : {2u, 3u})
    ASSERT_TRUE(job.worker(rank).WaitForErr("installed the state after round")) << rank;
  ASSERT_TRUE(job.server(0).WaitForErr("all go on from the checkpoint of step"));
  TrainOn(&job);
  ExpectOrderlyStop(job);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

// Each of the others has the whole state of the job on its disk.
TEST(Shrink, EndsWellWithoutAWorkerThatCannotWriteItsLastCheckpoint) {
  TestJob job(ShrinkOptions(30, "checkpoints: {every_steps: 10}\n"));
  for (const uint32_t shard : {0u, 1u}) job.StartServer(shard);
  for (const uint32_t rank : {0u, 2u}) job.StartWorker(rank);
  job.StartWorker(1, {"--fail", "disk.write=full"});
  EXPECT_EQ(job.worker(1).Wait(), 74);
  for (TestProgram* program : {&job.server(0), &job.server(1), &job.worker(0), &job.worker(2)})
    EXPECT_EQ(program->Wait(), 0);
  EXPECT_EQ(job.Output("server.0.json")["code"], 0);
}

// Kills a worker of a job with these arguments, and starts it again.
void KillAndReturnWith(const std::vector<std::string>& arguments) {
  TestJob job(ShrinkOptions(kEndlessSteps));
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(2));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  job.StartWorker(2, arguments);
  ASSERT_TRUE(job.worker(2).WaitForErr("installed the state after round"));
  const uint64_t rounds_before = job.Progress()["rounds"];
  ASSERT_TRUE(job.WaitForRound(rounds_before + 20));
  ExpectOrderlyStop(job);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

TEST(Shrink, WorksForOdsgdToo) {
  KillAndReturnWith({"--set", "train.algorithm=odsgd", "--set", "train.odsgd.warmup_steps=3"});
}

TEST(Shrink, WorksForFragmentsToo) {
  KillAndReturnWith({"--set", "train.algorithm=pqasgd", "--set", "train.pqasgd.fragments=4"});
}

// It takes about ten seconds, because the first seconds of a worker do not count.
TEST(BackupWorkers, RoundsCloseWithoutALateWorkerWhichIsCountedAndNamed) {
  TestJob job({.workers = 3, .steps = 300, .batch_total = 12});
  const std::vector<std::string> arguments = {"--set", "train.compute=wait",
                                              "--set", "train.compute_wait_ms=30",
                                              "--set", "train.ssgd.backup_workers=1"};
  std::vector<std::string> slow_arguments = arguments;
  slow_arguments.insert(slow_arguments.end(), {"--set", "train.compute_slow_factor=10"});
  job.StartServer(0, arguments);
  job.StartWorker(0, arguments);
  job.StartWorker(1, arguments);
  job.StartWorker(2, slow_arguments);
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_GT(summary["late"], 0);
  EXPECT_GT(job.Output("worker.2.json")["late"], 0);
  EXPECT_LT(job.Output("worker.2.json")["steps"], 300);
  EXPECT_THAT(job.server(0).err(), ContainsRegex("worker 2 \\(.*\\) is slow"));
}

// The others are ahead of a worker that dies by several checkpoints, and still have one of its.
TEST(BackupWorkers, AreNoLossWhereTheJobIsStartedAgain) {
  TestJob job({.workers = 3,
               .steps = 40,
               .batch_total = 12,
               .yaml = "faults: {heartbeat_ms: 50, suspect_after_s: 0.5, dead_after_s: 1}\n"});
  const std::vector<std::string> arguments = {"--set", "train.ssgd.backup_workers=1", "--set",
                                              "checkpoints.every_steps=5"};
  std::vector<std::string> dying_arguments = arguments;
  dying_arguments.insert(dying_arguments.end(), {"--fail", "thread.compute=die@step:13"});
  job.StartServer(0, arguments);
  job.StartWorker(0, arguments);
  job.StartWorker(1, arguments);
  job.StartWorker(2, dying_arguments);
  EXPECT_EQ(job.server(0).Wait(), 75) << job.server(0).err();
  for (const uint32_t rank : {0u, 1u, 2u}) job.worker(rank).Wait();
  job.StartServer(0, arguments);
  for (const uint32_t rank : {0u, 1u, 2u}) job.StartWorker(rank, arguments);
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.worker(2).err(), HasSubstr("goes on from the checkpoint of step"));
}

}  // namespace
}  // namespace tern::e2e

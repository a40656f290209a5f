// Tests stop signals to all daemons at once, as a cluster's scheduler sends them when a job's time
// is over, and to one worker only. A job that trains must end in an orderly way, with a checkpoint
// of one common step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

constexpr uint32_t kNumServers = 2, kNumWorkers = 3;

// Options of a job that writes no checkpoint before it is stopped.
JobOptions OptionsOf(const std::string& on_loss) {
  return {.servers = kNumServers,
          .workers = kNumWorkers,
          .steps = 300,
          .batch_total = 48,
          .yaml = Cat("faults: {on_worker_loss: ", on_loss,
                      "}\nexchange: {chunk_kib: 256}\ncheckpoints: {every_steps: 1000000}\n")};
}

// All processes of the job, in an order that depends on `seed`.
std::vector<TestProgram*> ProgramsInAnyOrder(TestJob& job, unsigned seed) {
  std::vector<TestProgram*> programs;
  for (uint32_t shard = 0; shard < kNumServers; ++shard) programs.push_back(&job.server(shard));
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank) programs.push_back(&job.worker(rank));
  std::mt19937 random(seed);
  std::shuffle(programs.begin(), programs.end(), random);
  return programs;
}

const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(OptionsOf("fail"));
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

// The file names of the complete checkpoints of a worker ("worker.0") or of a data lane of a shard
// ("shard.0.lane.1"), of the kind that all daemons write. Each name contains the step.
std::vector<std::string> CheckpointsOf(const TestJob& job, const std::string& owner) {
  std::vector<std::string> checkpoints;
  std::error_code ignored_error;
  for (const auto& entry : std::filesystem::directory_iterator(
           Cat(job.output_dir(), "/checkpoints/", owner), ignored_error)) {
    const std::string name = entry.path().filename();
    const bool is_manifest = name.starts_with("step.") && name.ends_with(".json");
    if (!is_manifest) continue;
    const auto manifest = nlohmann::json::parse(ReadFile(entry.path()));
    if (!manifest.contains("shard_only")) checkpoints.push_back(name);
  }
  std::sort(checkpoints.begin(), checkpoints.end());
  return checkpoints;
}
std::vector<std::string> CheckpointsOf(const TestJob& job, uint32_t rank) {
  return CheckpointsOf(job, Cat("worker.", rank));
}

void ExpectStoppedTogether(TestJob& job, int code) {
  job.ExpectAllEnd(code);
  const std::vector<std::string> checkpoints = CheckpointsOf(job, 0);
  EXPECT_EQ(checkpoints.size(), 1u);
  for (uint32_t rank = 1; rank < kNumWorkers; ++rank)
    EXPECT_EQ(CheckpointsOf(job, rank), checkpoints) << rank;
}

void ExpectResumesToTheSameBytes(TestJob& job) {
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
    EXPECT_THAT(job.Log("worker", rank), testing::HasSubstr("goes on from the checkpoint"));
}

class StopOfAll : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(StopOfAll, IsOrderlyInAnyOrder) {
  const auto& [on_loss, seed] = GetParam();
  const int signal = seed % 3 == 0 ? SIGHUP : SIGTERM;
  TestJob job(OptionsOf(on_loss));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  for (TestProgram* program : ProgramsInAnyOrder(job, static_cast<unsigned>(seed)))
    program->Signal(signal);
  ExpectStoppedTogether(job, 143);
  ExpectResumesToTheSameBytes(job);
}

std::string NameOf(const testing::TestParamInfo<StopOfAll::ParamType>& info) {
  return Cat(std::get<0>(info.param), std::get<1>(info.param));
}
const auto kEachPolicy = testing::Values("wait", "shrink", "fail");
INSTANTIATE_TEST_SUITE_P(Each, StopOfAll, testing::Combine(kEachPolicy, testing::Values(1)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Thorough, StopOfAll, testing::Combine(kEachPolicy, testing::Range(2, 5)),
                         NameOf);

struct StopCase {
  std::string name;
  std::vector<std::string> settings;
};

class StopOfAllOf : public testing::TestWithParam<StopCase> {};

// Every worker writes a checkpoint, of one common step in a job with rounds, from which the job
// goes on when it is started again.
TEST_P(StopOfAllOf, AnyJobLeavesACheckpoint) {
  JobOptions options = OptionsOf("wait");
  options.steps = 1000000;
  TestJob job(options);
  std::vector<std::string> arguments;
  for (const std::string& setting : GetParam().settings)
    arguments.insert(arguments.end(), {"--set", setting});
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(6));
  for (TestProgram* program : ProgramsInAnyOrder(job, 1)) program->Signal(SIGTERM);
  job.ExpectAllEnd(143);
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
    EXPECT_EQ(CheckpointsOf(job, rank).size(), 1u) << rank;
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForLog("server", 0, "checkpoint of step"));
  ASSERT_TRUE(WaitUntil([&] { return job.Progress().value("from_step", uint64_t{0}) != 0; }));
  for (TestProgram* program : ProgramsInAnyOrder(job, 2)) program->Signal(SIGINT);
  job.ExpectAllEnd(130);
}

INSTANTIATE_TEST_SUITE_P(
    Each, StopOfAllOf,
    testing::Values(StopCase{"Central", {"train.parameters=central"}},
                    StopCase{"Odsgd", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=2"}},
                    StopCase{"Psgd", {"train.algorithm=psgd", "train.psgd.p=4"}},
                    StopCase{"DuringEvaluations", {"evaluation.every_steps=1"}}),
    [](const auto& info) { return info.param.name; });

// A job without rounds. The servers hold its state, and each counts the steps for itself.
class StopWithoutRounds : public testing::TestWithParam<std::string> {
 protected:
  StopWithoutRounds() : job_(MakeOptions()) {}
  static JobOptions MakeOptions() {
    JobOptions options = OptionsOf("wait");
    options.steps = 1000000;
    return options;
  }

  void Start() {
    job_.StartAll({"--set", "train.algorithm=" + GetParam(), "--set", "exchange.codec=fp32"});
  }
  // Both shards have one checkpoint, of the same step; returns this step.
  uint64_t ExpectOneCheckpointOfAll() const {
    const std::vector<std::string> checkpoints = CheckpointsOf(job_, "shard.0.lane.1");
    EXPECT_EQ(checkpoints.size(), 1u);
    EXPECT_EQ(CheckpointsOf(job_, "shard.1.lane.1"), checkpoints);
    return checkpoints.empty() ? 0 : std::stoull(checkpoints[0].substr(strlen("step.")));
  }
  // Starts the job again, and expects that it goes on from `step`.
  void ExpectGoesOnFrom(uint64_t step) {
    Start();
    ASSERT_TRUE(WaitUntil([&] { return job_.Progress().value("from_step", uint64_t{0}) == step; }));
    EXPECT_THAT(job_.Log("server", 0), testing::HasSubstr(Cat("the checkpoint of step ", step)));
  }

  TestJob job_;
};

TEST_P(StopWithoutRounds, LeavesACheckpointThatAllShardsHave) {
  Start();
  ASSERT_TRUE(job_.WaitForRound(6));
  for (TestProgram* program : ProgramsInAnyOrder(job_, 1)) program->Signal(SIGTERM);
  job_.ExpectAllEnd(143);
  const uint64_t step = ExpectOneCheckpointOfAll();
  EXPECT_GE(step, 2u) << "a worker has made 6 steps, and there are 3 workers";
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
    EXPECT_EQ(CheckpointsOf(job_, rank).size(), 1u) << rank;
  ExpectGoesOnFrom(step);
  job_.worker(1).Signal(SIGTERM);
  job_.ExpectAllEnd(143);
  EXPECT_EQ(CheckpointsOf(job_, "shard.0.lane.1"), CheckpointsOf(job_, "shard.1.lane.1"));
}

INSTANTIATE_TEST_SUITE_P(Each, StopWithoutRounds, testing::Values("asgd", "ssp"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Thorough, StopWithoutRounds,
                         testing::Values("dcasgd_c", "dcasgd_a", "softsync", "easgd_async"),
                         [](const auto& info) { return info.param; });

using StopWithoutRoundsOfAsgd = StopWithoutRounds;

// A worker was lost, and the job waits for it. The servers have the state of the job.
TEST_P(StopWithoutRoundsOfAsgd, LeavesACheckpointWhileAWorkerIsAwaited) {
  Start();
  ASSERT_TRUE(job_.WaitForRound(6));
  job_.worker(2).Signal(SIGKILL);
  ASSERT_TRUE(job_.WaitForLog("server", 0, "waiting for its return"));
  for (TestProgram* program : {&job_.server(1), &job_.worker(0), &job_.server(0), &job_.worker(1)})
    program->Signal(SIGTERM);
  for (TestProgram* program : {&job_.server(1), &job_.worker(0), &job_.server(0), &job_.worker(1)})
    EXPECT_EQ(program->Wait(), 143) << program->err();
  ExpectGoesOnFrom(ExpectOneCheckpointOfAll());
}

INSTANTIATE_TEST_SUITE_P(Each, StopWithoutRoundsOfAsgd, testing::Values("asgd"),
                         [](const auto& info) { return info.param; });

TEST(StopOfAllProcesses, WhileTheyGatherIsOrderly) {
  TestJob job(OptionsOf("wait"));
  for (uint32_t shard = 0; shard < kNumServers; ++shard) job.StartServer(shard);
  job.StartWorker(1);
  ASSERT_TRUE(job.server(0).WaitForErr("is here"));
  for (TestProgram* program : {&job.worker(1), &job.server(1), &job.server(0)})
    program->Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

// A worker was lost, and the job waits for it. The steps since the last checkpoint are lost, but no
// checkpoint is.
TEST(StopOfAllProcesses, WhileAWorkerIsAwaitedIsOrderlyAndLosesNoCheckpoint) {
  JobOptions options = OptionsOf("wait");
  options.yaml.replace(options.yaml.find("1000000"), 7, "10");
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(25));
  job.worker(2).Signal(SIGKILL);
  ASSERT_TRUE(job.WaitForLog("server", 0, "waiting for its return"));
  for (TestProgram* program : {&job.server(1), &job.worker(0), &job.server(0), &job.worker(1)}) {
    program->Signal(SIGTERM);
  }
  for (TestProgram* program : {&job.server(1), &job.worker(0), &job.server(0), &job.worker(1)})
    EXPECT_EQ(program->Wait(), 143) << program->err();
  EXPECT_THAT(job.server(0).err(), testing::HasSubstr("stopped by a signal"));
  ExpectResumesToTheSameBytes(job);
}

// Service managers stop `tern run` in this way: they signal `tern run` and all processes that it
// has started.
TEST(StopOfAllProcesses, OfARunIsOrderly) {
  for (const unsigned seed : {1, 2, 3, 4}) {
    TestJob job(OptionsOf("wait"));
    TestProgram& tern = job.StartTern({"run", job.job_file()});
    ASSERT_TRUE(job.WaitForTraining());
    std::vector<pid_t> pids = {tern.pid()};
    for (uint32_t shard = 0; shard < kNumServers; ++shard)
      pids.push_back(TestJob::PidOf(tern, Cat("server ", shard)));
    for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
      pids.push_back(TestJob::PidOf(tern, Cat("worker ", rank)));
    std::mt19937 random(seed);
    std::shuffle(pids.begin(), pids.end(), random);
    for (const pid_t pid : pids) {
      ASSERT_GT(pid, 0);
      kill(pid, SIGTERM);
    }
    EXPECT_EQ(tern.Wait(), 143) << tern.err();
    for (uint32_t rank = 1; rank < kNumWorkers; ++rank)
      EXPECT_EQ(CheckpointsOf(job, rank), CheckpointsOf(job, 0));
    EXPECT_EQ(CheckpointsOf(job, 0).size(), 1u);
  }
}

class StopOfOneWorker : public testing::TestWithParam<std::string> {};

TEST_P(StopOfOneWorker, StopsTheJob) {
  TestJob job(OptionsOf(GetParam()));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(3));
  job.worker(1).Signal(SIGINT);
  ExpectStoppedTogether(job, 130);
  EXPECT_THAT(job.Log("server", 0), testing::ContainsRegex("worker 1 \\(.*\\) was asked to stop"));
  ExpectResumesToTheSameBytes(job);
}

INSTANTIATE_TEST_SUITE_P(Each, StopOfOneWorker, testing::Values("wait", "shrink", "fail"),
                         [](const auto& info) { return info.param; });

TEST(StopOfAWorker, ThatWaitsForOthersEndsTheJob) {
  TestJob job;
  job.StartServer(0);
  job.StartWorker(0);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));
  job.worker(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(StopOfAWorker, ThatFindsNoServerEndsItSoon) {
  TestJob job({.yaml = "faults: {heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n"});
  TestProgram& worker = job.StartWorker(0);
  ASSERT_TRUE(job.WaitForLog("worker", 0, "worker 0 of 2"));
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 143);
}

TEST(StopWithoutAShard, EndsTheJobSoon) {
  TestJob job(OptionsOf("fail"));
  job.StartAll({"--set", "train.steps=1000000"});
  ASSERT_TRUE(job.WaitForRound(3));
  job.server(1).Signal(SIGKILL);
  EXPECT_EQ(job.server(1).Wait(), 128 + SIGKILL);
  job.server(0).Signal(SIGTERM);
  // Within server_return_timeout_s, a minute, shard 1 could come back.
  EXPECT_EQ(job.server(0).Wait(30), 143) << job.server(0).err();
  for (uint32_t rank = 0; rank < kNumWorkers; ++rank)
    EXPECT_EQ(job.worker(rank).Wait(30), 143) << job.worker(rank).err();
}

}  // namespace
}  // namespace tern::e2e

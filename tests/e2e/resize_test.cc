// Tests of jobs that go on from a checkpoint with another number of workers, or with other server
// shards. Every start but the first ends at a later step than the one before, by train.steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/checkpoint_job.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// The job file has two servers and four workers; a start takes some of them, or more workers.
JobOptions SmallJobOptions() {
  JobOptions options = OptionsFor();
  options.servers = 2;
  options.workers = 4;
  options.batch_total = 12;
  options.model =
      "{net: {input: {channels: 1, height: 28, width: 28}, classes: 10, layers: [{name: dense1, "
      "dense: {outputs: 32}}, {name: relu1, relu: {}}, {name: scores, dense: {outputs: 10}}, "
      "{name: loss, softmax_loss: {}}]}}";
  return options;
}

struct Size {
  uint32_t servers = 1, workers = 4;
};

std::vector<std::string> ArgumentsFor(const TestJob& job, const Size& size, uint64_t steps,
                                      const std::vector<std::string>& settings = {}) {
  std::string servers;
  for (uint32_t shard = 0; shard < size.servers; ++shard)
    servers += Cat(shard == 0 ? "" : ", ", "{address: '127.0.0.1:", job.port(shard), "'}");
  std::vector<std::string> all = {Cat("servers=[", servers, "]"),
                                  Cat("workers.count=", size.workers), Cat("train.steps=", steps),
                                  "exchange.chunk_kib=32"};
  all.insert(all.end(), settings.begin(), settings.end());
  return SetArguments(all);
}

// Starts the daemons of a job of this size, and expects that all end with `code`.
void RunAs(TestJob& job, const Size& size, int code, const std::vector<std::string>& arguments) {
  std::vector<TestProgram*> programs;
  for (uint32_t shard = 0; shard < size.servers; ++shard)
    programs.push_back(&job.StartServer(shard, arguments));
  for (uint32_t rank = 0; rank < size.workers; ++rank)
    programs.push_back(&job.StartWorker(rank, arguments));
  for (TestProgram* program : programs) EXPECT_EQ(program->Wait(), code) << program->err();
}

void RunTo(TestJob& job, const Size& size, uint64_t steps,
           const std::vector<std::string>& settings = {}) {
  RunAs(job, size, 0, ArgumentsFor(job, size, steps, settings));
}

std::string WeightsOfRun(const Size& size, uint64_t steps,
                         const std::vector<std::string>& settings) {
  TestJob job(SmallJobOptions());
  RunTo(job, size, steps, settings);
  return job.Weights();
}

// Expects that the newest start went on from `step`, and that its workers have checkpoints of
// `last_step` with the same weights.
void ExpectWentOn(const TestJob& job, uint32_t workers, uint64_t step, uint64_t last_step) {
  EXPECT_EQ(job.Output("server.0.json")["from_step"], step);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  std::set<std::string> hashes;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    const std::string owner = Cat("worker.", rank);
    EXPECT_EQ(NewestStepOf(job, owner), last_step) << owner;
    hashes.insert(
        nlohmann::json::parse(ReadFile(CheckpointFile(job, owner, last_step, ".json")))["weights"]
            .get<std::string>());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

bool HasMovedFolder(const TestJob& job, const std::string& owner) {
  for (const auto& entry : fs::directory_iterator(job.output_dir() + "/checkpoints")) {
    if (entry.path().filename().string().starts_with(owner + ".2")) return true;
  }
  return false;
}

using Settings = std::vector<std::string>;

class OtherShards : public testing::TestWithParam<Settings> {};

TEST_P(OtherShards, EndWithTheBytesOfTheUndisturbedRun) {
  const std::string weights = WeightsOfRun({.servers = 1, .workers = 2}, 60, GetParam());
  TestJob job(SmallJobOptions());
  RunTo(job, {.servers = 1, .workers = 2}, 20, GetParam());
  RunTo(job, {.servers = 2, .workers = 2}, 40, GetParam());
  ExpectWentOn(job, 2, 20, 40);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("the job goes on with 2 server shards (1 before)"));
  EXPECT_THAT(job.Log("server", 0), HasSubstr("; nothing is dropped"));
  RunTo(job, {.servers = 1, .workers = 2}, 60, GetParam());
  ExpectWentOn(job, 2, 40, 60);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("the job goes on with 1 server shard (2 before)"));
  EXPECT_TRUE(job.Weights() == weights);
}

INSTANTIATE_TEST_SUITE_P(Each, OtherShards,
                         testing::Values(Settings{}, Settings{"exchange.codec=topk",
                                                              "exchange.topk.momentum=0.9",
                                                              "train.optimizer.name=sgd"}));
INSTANTIATE_TEST_SUITE_P(Thorough, OtherShards,
                         testing::Values(Settings{"train.algorithm=odsgd",
                                                  "train.odsgd.warmup_steps=5",
                                                  "train.odsgd.local.momentum=0.9"}));

TEST(OtherShards, DropWhatServersRememberAloud) {
  const Settings onebit = {"exchange.codec=onebit"};
  TestJob job(SmallJobOptions());
  RunTo(job, {.servers = 1, .workers = 2}, 20, onebit);
  ASSERT_EQ(NewestStepOf(job, "shard.0.lane.1"), 20u);
  Settings arguments = ArgumentsFor(job, {.servers = 2, .workers = 2}, 40, onebit);
  arguments.insert(arguments.begin(), {"run", job.job_file()});
  TestProgram& tern = job.StartTern(arguments);
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  ExpectWentOn(job, 2, 20, 40);
  const std::string dropped = "dropped: what the servers' codecs lost of earlier sums";
  EXPECT_THAT(tern.out() + tern.err(), HasSubstr("goes on from step 20 with other settings"));
  EXPECT_THAT(tern.out() + tern.err(), HasSubstr(dropped));
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_THAT(job.Log("server", rank), HasSubstr(dropped));
    EXPECT_THAT(job.Log("worker", rank), HasSubstr(dropped));
  }
  EXPECT_TRUE(HasMovedFolder(job, "shard.0.lane.1"));
  // Shard 1 keeps what it has while it is away, and moves it when it is back.
  RunTo(job, {.servers = 1, .workers = 2}, 60, onebit);
  EXPECT_EQ(NewestStepOf(job, "shard.1.lane.1"), 40u);
  RunTo(job, {.servers = 2, .workers = 2}, 80, onebit);
  ExpectWentOn(job, 2, 60, 80);
  EXPECT_EQ(NewestStepOf(job, "shard.1.lane.1"), 80u);
  EXPECT_TRUE(HasMovedFolder(job, "shard.1.lane.1"));
}

TEST(OtherWorkers, GrowAndShrinkAndGrowAgain) {
  TestJob job(SmallJobOptions());
  // The first start is killed, so that ranks may have checkpoints that others lack.
  const Settings arguments = ArgumentsFor(job, {.workers = 4}, 1'000'000);
  job.StartServer(0, arguments);
  for (uint32_t rank = 0; rank < 4; ++rank) job.StartWorker(rank, arguments);
  for (uint32_t rank = 0; rank < 4; ++rank)
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, Cat("worker.", rank)) >= 20; }));
  KillAll(job, 1, 4);
  const uint64_t begin = [&job] {
    uint64_t step = NewestStepOf(job, "worker.0");
    for (uint32_t rank = 1; rank < 4; ++rank)
      step = std::min(step, NewestStepOf(job, Cat("worker.", rank)));
    return step;
  }();
  RunTo(job, {.servers = 2, .workers = 6}, begin + 20);
  ExpectWentOn(job, 6, begin, begin + 20);
  EXPECT_THAT(job.Log("server", 0),
              HasSubstr("the job goes on with 6 workers (4 before) and 2 server shards (1 before); "
                        "nothing is dropped"));
  EXPECT_THAT(job.Log("worker", 3), HasSubstr("the job goes on with 6 workers (4 before)"));
  for (const uint32_t rank : {4u, 5u})
    EXPECT_THAT(job.Log("worker", rank), HasSubstr("it gets the state of the job from the others"));
  RunTo(job, {.workers = 2}, begin + 40);
  ExpectWentOn(job, 2, begin + 20, begin + 40);
  EXPECT_EQ(NewestStepOf(job, "worker.3"), begin + 20) << "it stays as it was";
  RunTo(job, {.workers = 4}, begin + 60);
  ExpectWentOn(job, 4, begin + 40, begin + 60);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("the job goes on with 4 workers (2 before)"));
  for (const char* owner : {"worker.2", "worker.3"}) EXPECT_TRUE(HasMovedFolder(job, owner));
  for (const char* owner : {"worker.0", "worker.1"}) EXPECT_FALSE(HasMovedFolder(job, owner));
}

class OtherWorkers : public testing::TestWithParam<Settings> {};

TEST_P(OtherWorkers, DropWhatEachHasOfItsOwnAloud) {
  TestJob job(SmallJobOptions());
  RunTo(job, {.workers = 2}, 20, GetParam());
  RunTo(job, {.workers = 3}, 40, GetParam());
  ExpectWentOn(job, 3, 20, 40);
  for (const std::string& log : {job.Log("server", 0), job.Log("worker", 0), job.Log("worker", 1)})
    EXPECT_THAT(log, HasSubstr("dropped: what each worker had of its own"));
  RunTo(job, {.workers = 2}, 60, GetParam());
  ExpectWentOn(job, 2, 40, 60);
}

INSTANTIATE_TEST_SUITE_P(Each, OtherWorkers,
                         testing::Values(Settings{"exchange.codec=topk"},
                                         Settings{"train.algorithm=psgd", "train.psgd.p=4",
                                                  "train.psgd.at_sync=average"}));
INSTANTIATE_TEST_SUITE_P(
    Thorough, OtherWorkers,
    testing::Values(Settings{"train.algorithm=odsgd", "train.odsgd.warmup_steps=5"},
                    Settings{"train.algorithm=pqasgd", "train.pqasgd.p=4", "exchange.codec=qsgd"},
                    Settings{"train.algorithm=rsgd", "train.rsgd.p=4"},
                    Settings{"train.algorithm=easgd", "train.easgd.tau=1"},
                    Settings{"train.parameters=central", "exchange.codec=topk"}));

// The servers have the weights, and the layout stays the same.
TEST(OtherWorkers, MayBeOthersWhereServersHoldTheWeights) {
  const Settings central = {"train.parameters=central"};
  TestJob job(SmallJobOptions());
  RunTo(job, {.workers = 2}, 20, central);
  RunTo(job, {.workers = 3}, 40, central);
  ExpectWentOn(job, 3, 20, 40);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("the job goes on with 3 workers (2 before)"));
}

// Under `shrink` a rank below workers.max may have been empty. It joins as a late worker does.
TEST(OtherWorkers, MayBeMoreRanksOfAnElasticJob) {
  const Settings shrink = {"faults.on_worker_loss=shrink", "workers.max=4"},
                 larger = {"faults.on_worker_loss=shrink", "workers.max=5"};
  TestJob job(SmallJobOptions());
  RunTo(job, {.workers = 2}, 20, shrink);
  const Settings arguments = ArgumentsFor(job, {.workers = 3}, 100'000'000, larger);
  std::vector<TestProgram*> programs = {&job.StartServer(0, arguments)};
  for (uint32_t rank = 0; rank < 3; ++rank) programs.push_back(&job.StartWorker(rank, arguments));
  ASSERT_TRUE(job.worker(2).WaitForErr("installed the state after round"));
  job.server(0).Signal(SIGTERM);
  for (TestProgram* program : programs) EXPECT_EQ(program->Wait(), 143) << program->err();
  EXPECT_EQ(job.Output("server.0.json")["from_step"], 20);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_THAT(job.Log("server", 0), HasSubstr("the job goes on with 5 workers (4 before)"));
  EXPECT_THAT(job.Log("worker", 2), HasSubstr("it gets the state of the job from the others"));
  EXPECT_THAT(job.Log("worker", 1),
              HasSubstr("epochs are counted as if every step had had 20 samples (24 before)"));
}

// Expects that a start as `size` is refused, because `what` differs, and changes nothing.
void ExpectRefused(TestJob& job, const Size& size, const Settings& settings,
                   const std::string& what) {
  const auto files = CheckpointFilesOf(job);
  RunAs(job, size, 65, ArgumentsFor(job, size, 40, settings));
  EXPECT_THAT(job.Log("server", 0), HasSubstr(what));
  EXPECT_TRUE(CheckpointFilesOf(job) == files);
}

TEST(OtherSize, IsRefusedWhereLanesHaveTheWeightsOrCountWorkers) {
  for (const Settings& settings :
       {Settings{"train.parameters=central"},
        Settings{"train.algorithm=asgd", "exchange.scaler=per_worker"}}) {
    TestJob job(SmallJobOptions());
    RunTo(job, {.workers = 2}, 20, settings);
    ExpectRefused(job, {.servers = 2, .workers = 2}, settings,
                  "servers was a list of 1, is now a list of 2");
    if (settings.size() == 2)
      ExpectRefused(job, {.workers = 3}, settings, "workers.count was 2, is now 3");
  }
}

TEST(OtherSize, IsNoWayIntoAnotherJob) {
  TestJob job(SmallJobOptions());
  RunTo(job, {.workers = 3}, 20, {"seed=2"});
  // Ranks 0 and 1 begin another job; rank 2 keeps its checkpoints of the first one.
  for (const char* owner : {"worker.0", "worker.1"}) fs::remove_all(FolderOf(job, owner));
  RunTo(job, {.workers = 2}, 20);
  ExpectRefused(job, {.workers = 3}, {},
                "worker.2 has checkpoints up to step 20 of another job: seed was 2, is now 1");
  ExpectRefused(job, {.servers = 2, .workers = 2}, {"seed=3"}, "seed was 1, is now 3");
  ExpectRefused(job, {.servers = 2, .workers = 4},
                {"exchange.codec=qsgd", "checkpoints.accept=[exchange]"}, "of another job");
}

}  // namespace
}  // namespace tern::e2e

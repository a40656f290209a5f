// Tests of jobs whose processes are started while a disk with checkpoints is missing: nothing is
// lost, and the daemon whose disk is missing is named.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/checkpoint_job.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

struct MissingDisk {
  std::string name, on_loss;
  std::vector<std::string> settings;
  std::string owner = "worker.1";  // whose folder is missing
  bool is_reproducible = true;
};

class StartWithoutADisk : public testing::TestWithParam<MissingDisk> {};

TEST_P(StartWithoutADisk, IsRefusedAndAfterItsReturnTheJobGoesOn) {
  // Without rounds, one worker may have made most steps when the other has its second checkpoint.
  JobOptions options = OptionsFor(Cat("faults: {on_worker_loss: ", GetParam().on_loss, "}\n"),
                                  GetParam().is_reproducible ? kSteps : 4 * kSteps);
  options.servers = 2;
  const std::vector<std::string> arguments = SetArguments(GetParam().settings);
  const std::string weights =
      GetParam().is_reproducible ? UndisturbedWeights(options, arguments) : "";
  TestJob job(options);
  RunAndKillAt(job, options, 20, arguments);
  const auto saved_files = CheckpointFilesOf(job);
  const std::string moved_folder = job.folder() + "/elsewhere";
  fs::rename(FolderOf(job, GetParam().owner), moved_folder);
  job.StartAll(arguments);
  job.ExpectAllEnd(65);
  ExpectInAllLogs(job, options, "no checkpoint is on the disks of all: worker 0 (");
  std::vector<std::string> sentences = {") has none; mount or restore what is missing"};
  if (GetParam().on_loss == "shrink") {
    sentences = {") has none; with on_worker_loss: shrink the job goes on from step ",
                 " if as many as workers.min (2) of those that are here took part in it; mount or "
                 "restore what is missing"};
  }
  for (const std::string& sentence : sentences) ExpectInAllLogs(job, options, sentence);
  EXPECT_FALSE(fs::exists(FolderOf(job, GetParam().owner)));
  std::vector<std::string> run_arguments = {"run", job.job_file(), "--restarts", "3"};
  run_arguments.insert(run_arguments.end(), arguments.begin(), arguments.end());
  TestProgram& tern_run = job.StartTern(run_arguments);
  EXPECT_EQ(tern_run.Wait(), 65);
  for (const std::string& sentence : sentences)
    EXPECT_NE(tern_run.err().find(sentence), std::string::npos) << tern_run.err();
  fs::rename(moved_folder, FolderOf(job, GetParam().owner));
  EXPECT_TRUE(CheckpointFilesOf(job) == saved_files);
  if (GetParam().is_reproducible) return ExpectResumes(job, options, weights, arguments);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_GE(job.Output("server.0.json")["from_step"], 10);
}

INSTANTIATE_TEST_SUITE_P(
    Each, StartWithoutADisk,
    testing::Values(
        MissingDisk{"Localized", "fail", {}},
        // With fewer, the job goes on without that disk.
        MissingDisk{"UnderShrinkWithTooFew", "shrink", {"workers.min=2"}},
        MissingDisk{"Odsgd", "wait", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=5"}},
        MissingDisk{"OfAServer",
                    "wait",
                    {"train.parameters=central", "exchange.chunk_kib=256"},
                    "shard.1.lane.1"},
        MissingDisk{"OfAServerOfAsgd",
                    "wait",
                    {"train.algorithm=asgd", "exchange.codec=fp32", "exchange.chunk_kib=256"},
                    "shard.1.lane.1",
                    false}),
    [](const auto& info) { return info.param.name; });

// Without rounds, servers hold the state of the job. A worker whose disk is missing is named.
TEST(WithoutRounds, AWorkerWithoutItsDiskIsNamed) {
  JobOptions options = OptionsFor("", 4 * kSteps);
  const std::vector<std::string> arguments =
      SetArguments({"train.algorithm=asgd", "exchange.codec=fp32"});
  TestJob job(options);
  RunAndKillAt(job, options, 20, arguments);
  fs::rename(FolderOf(job, "worker.1"), job.folder() + "/elsewhere");
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_NE(job.Log("server", 0).find(") has no checkpoint of this run on its disk"),
            std::string::npos);
  EXPECT_NE(job.Log("worker", 1).find("there is no checkpoint of this worker and run in"),
            std::string::npos);
}

// A server with the weights is killed, and its disk is missing when it comes back. The other
// checkpoints are not given up for a new beginning.
TEST(KilledServer, WithoutItsDiskEndsTheJobWhichGoesOnOnceTheDiskIsBack) {
  JobOptions options = OptionsFor("faults: {on_worker_loss: wait}\n", 200);
  options.servers = 2;
  const std::vector<std::string> arguments =
      SetArguments({"train.parameters=central", "exchange.chunk_kib=256"});
  const std::string weights = UndisturbedWeights(options, arguments);
  TestJob job(options);
  job.StartAll(arguments);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, Cat("worker.", rank)) >= 20; }));
  job.server(1).Signal(SIGKILL);
  job.server(1).Wait();
  const std::string moved_folder = job.folder() + "/elsewhere";
  fs::rename(FolderOf(job, "shard.1.lane.1"), moved_folder);
  job.StartServer(1, arguments);
  job.ExpectAllEnd(65);
  ExpectInAllLogs(job, options, "nothing of this run is on the disk of server shard 1 (");
  fs::rename(moved_folder, FolderOf(job, "shard.1.lane.1"));
  ExpectResumes(job, options, weights, arguments);
}

struct LostCheckpoints {
  std::string name;
  bool are_damaged = false;  // or their folder is missing
  std::vector<std::string> settings;
  std::string sentence;  // a part of the reason for the end
};

class KilledServerInRounds : public testing::TestWithParam<LostCheckpoints> {};

TEST_P(KilledServerInRounds, EndsTheJobIfItsCheckpointsAreLost) {
  JobOptions options = OptionsFor("faults: {on_worker_loss: wait}\n", 400);
  options.servers = 2;
  std::vector<std::string> settings = {"train.parameters=central", "exchange.chunk_kib=256"};
  settings.insert(settings.end(), GetParam().settings.begin(), GetParam().settings.end());
  const std::vector<std::string> arguments = SetArguments(settings);
  TestJob job(options);
  job.StartAll(arguments);
  for (const char* owner : {"shard.0.lane.1", "shard.1.lane.1"})
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, owner) >= 20; }));
  job.server(1).Signal(SIGKILL);
  job.server(1).Wait();
  const std::string folder = FolderOf(job, "shard.1.lane.1");
  if (!GetParam().are_damaged) fs::rename(folder, job.folder() + "/away");
  std::error_code is_missing;
  for (const auto& file : fs::directory_iterator(folder, is_missing)) {
    if (file.path().extension() == ".safetensors") fs::resize_file(file.path(), 100);
  }
  job.StartServer(1, arguments);
  job.ExpectAllEnd(65);
  ExpectInAllLogs(job, options, GetParam().sentence);
  const fs::directory_iterator folders(job.output_dir() + "/checkpoints");
  EXPECT_TRUE(std::none_of(begin(folders), end(folders), [](const fs::directory_entry& moved) {
    return moved.path().string().find("lane.1.2") != std::string::npos;
  })) << "nothing is moved away";
}

INSTANTIATE_TEST_SUITE_P(
    Each, KilledServerInRounds,
    testing::Values(
        LostCheckpoints{"Damaged", true, {}, "checkpoints of server shard 1 ("},
        LostCheckpoints{"OwnDamaged",
                        true,
                        {"checkpoints.every_steps=0", "checkpoints.shard_every_steps=10"},
                        "checkpoints of server shard 1 ("},
        LostCheckpoints{"OwnMissing",
                        false,
                        {"checkpoints.every_steps=0", "checkpoints.shard_every_steps=10"},
                        "nothing of this run is on the disk of server shard 1 ("}),
    [](const auto& info) { return info.param.name; });

// Without rounds only the killed server would go back. Its part of the model must not begin anew
// in the middle of the run.
TEST(KilledServer, WithoutRoundsEndsTheJobIfItsDiskIsMissing) {
  JobOptions options = OptionsFor("faults: {on_worker_loss: wait}\n", 400);
  options.servers = 2;
  const std::vector<std::string> arguments =
      SetArguments({"train.algorithm=asgd", "exchange.codec=fp32", "exchange.chunk_kib=256"});
  TestJob job(options);
  job.StartAll(arguments);
  ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, "shard.1.lane.1") >= 20; }));
  job.server(1).Signal(SIGKILL);
  job.server(1).Wait();
  const std::string folder = FolderOf(job, "shard.1.lane.1"), moved_folder = job.folder() + "/away";
  fs::rename(folder, moved_folder);
  job.StartServer(1, arguments);
  job.ExpectAllEnd(65);
  ExpectInAllLogs(job, options,
                  "server shard 1 cannot go on: no usable checkpoint of this run is in ");
  fs::remove(folder);
  fs::rename(moved_folder, folder);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_GE(job.Output("server.0.json")["from_step"], 10);
}

}  // namespace
}  // namespace tern::e2e

// Tests of jobs that lose processes and go on from checkpoints, and of starts that are refused
// because of the checkpoints that they find. Jobs with rounds must end with the same bytes as an
// undisturbed run.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/checkpoint_job.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

struct JobCase {
  std::string name, yaml;
  std::string model = "{name: lenet}";
  uint32_t servers = 1;
  std::vector<std::string> arguments = {};
};

class KilledJob : public testing::TestWithParam<JobCase> {};

TEST_P(KilledJob, EndsWithTheSameBytes) {
  JobOptions options = OptionsFor(GetParam().yaml);
  options.model = GetParam().model;
  options.servers = GetParam().servers;
  const std::string weights = UndisturbedWeights(options, GetParam().arguments);
  TestJob job(options);
  RunAndKillAt(job, options, 20, GetParam().arguments);
  ExpectResumes(job, options, weights, GetParam().arguments);
}

constexpr char kBatchNormAndDropout[] =
    R"({net: {input: {channels: 1, height: 28, width: 28}, classes: 10, layers: [
    {name: conv1, conv: {outputs: 8, kernel: 5, stride: 2}}, {name: norm1, batch_norm: {}}, {name: relu1, relu: {}},
    {name: dense1, dense: {outputs: 32}}, {name: relu2, relu: {}}, {name: drop, dropout: {rate: 0.3}},
    {name: scores, dense: {outputs: 10}}, {name: loss, softmax_loss: {}}]}})";

// Makes a case whose job has the additional `settings`, each KEY=VALUE.
JobCase MakeCase(const std::string& name, const std::vector<std::string>& settings) {
  return {.name = name, .yaml = "", .arguments = SetArguments(settings)};
}

JobCase WithModel(JobCase base, const std::string& model, uint32_t servers = 1) {
  base.model = model;
  base.servers = servers;
  return base;
}

// Local steps, quantized changes and an outer optimizer, whose momentum must come back, too.
const std::vector<std::string> kOuterOverTernary = {"train.algorithm=pqasgd", "train.pqasgd.p=4",
                                                    "train.pqasgd.outer.learning_rate=0.1",
                                                    "exchange.codec=ternary"};

// Fragments, whose exchange is in progress while a worker goes on from its own weights.
const std::vector<std::string> kFragmentsWithOuter = {
    "train.algorithm=pqasgd", "train.pqasgd.p=4", "train.pqasgd.fragments=2",
    "train.pqasgd.outer.learning_rate=0.1", "exchange.codec=ternary"};

std::string NameOf(const testing::TestParamInfo<JobCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Each, KilledJob,
    testing::Values(
        MakeCase("Ternary", {}),
        WithModel(MakeCase("TernaryOverTwoShards", {}), "{name: lenet}", 2),
        WithModel(MakeCase("BatchNormAndDropout", {"evaluation.every_steps=15"}),
                  kBatchNormAndDropout),
        MakeCase("TopK",
                 {"exchange.codec=topk", "exchange.topk.momentum=0.9", "train.optimizer.name=sgd"}),
        MakeCase("OdsgdCompensated",
                 {"train.algorithm=odsgd", "train.odsgd.warmup_steps=5",
                  "train.odsgd.local.name=dcasgd_a", "train.odsgd.local.reference=prev_global"}),
        MakeCase("PsgdAverage",
                 {"train.algorithm=psgd", "train.psgd.p=4", "train.psgd.at_sync=average"}),
        MakeCase("PqasgdOuter", kOuterOverTernary),
        WithModel(MakeCase("PqasgdFragments", kFragmentsWithOuter), "{name: lenet}", 2),
        WithModel(MakeCase("OneBit", {"exchange.codec=onebit"}), "{name: lenet}", 2),
        WithModel(MakeCase("Central", {"train.parameters=central"}), "{name: lenet}", 2)),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Thorough, KilledJob,
    testing::Values(
        MakeCase("MovingAverage", {"evaluation.ema_decay=0.9"}),
        MakeCase("Lookahead",
                 {"train.ssgd.lookahead.every_steps=4", "train.ssgd.lookahead.decay_power=3"}),
        MakeCase("Adam", {"train.optimizer.name=adam", "exchange.codec=fp32"}),
        MakeCase("Rmsprop", {"train.optimizer.name=rmsprop", "exchange.codec=fp32"}),
        MakeCase("ScalersOfBefore", {"exchange.scaler=previous"}),
        MakeCase("Threshold", {"exchange.codec=threshold"}),
        MakeCase("AdaComp", {"exchange.codec=adacomp"}),
        MakeCase("Adaptive", {"exchange.codec=adaptive"}),
        MakeCase("Fp16", {"exchange.codec=fp16", "exchange.error_feedback=true"}),
        MakeCase("Odsgd", {"train.algorithm=odsgd", "train.odsgd.warmup_steps=5",
                           "train.odsgd.local.momentum=0.9"}),
        MakeCase("Psgd", {"train.algorithm=psgd", "train.psgd.p=4"}),
        MakeCase("PsgdOuter",
                 {"train.algorithm=psgd", "train.psgd.p=4", "train.psgd.outer.learning_rate=0.1"}),
        MakeCase("Rsgd", {"train.algorithm=rsgd", "train.rsgd.p=4", "evaluation.every_steps=20"}),
        MakeCase("RsgdRandom", {"train.algorithm=rsgd", "train.rsgd.p=4", "train.rsgd.order=random",
                                "evaluation.ema_decay=0.9"}),
        MakeCase("Pqasgd", {"train.algorithm=pqasgd", "train.pqasgd.p=4", "exchange.codec=qsgd"}),
        MakeCase("PqasgdFeedback", {"train.algorithm=pqasgd", "train.pqasgd.p=4",
                                    "train.pqasgd.feedback=true", "exchange.codec=onebit"}),
        MakeCase("CentralQsgd", {"train.parameters=central", "exchange.codec=qsgd",
                                 "exchange.pull=changes", "evaluation.ema_decay=0.9"}),
        MakeCase("CentralOdsgd", {"train.parameters=central", "train.algorithm=odsgd",
                                  "train.odsgd.warmup_steps=5"}),
        WithModel(MakeCase("Easgd", {"train.algorithm=easgd", "train.easgd.tau=4"}),
                  "{name: lenet}", 2)),
    NameOf);

// The exchange of all fragments after the last step comes after the checkpoint of that step.
TEST(Checkpoints, OfALastStepAreAsIfTheJobWithFragmentsHadNotEnded) {
  const JobOptions options = OptionsFor("", 40);
  const std::vector<std::string> arguments = SetArguments(kFragmentsWithOuter);
  const std::string weights = UndisturbedWeights(options, arguments);
  std::vector<std::string> half = arguments;
  half.insert(half.end(), {"--set", "train.steps=20"});
  TestJob job(options);
  job.StartAll(half);
  job.ExpectAllEnd(0);
  EXPECT_FALSE(job.Weights() == weights);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["from_step"], 20);
  EXPECT_TRUE(job.Weights() == weights) << "other weights than without the stop";
}

// The training loss of the only evaluation, at the end, is the mean over all steps.
TEST(Checkpoints, KeepTheLossesOfTheStepsSinceAnEvaluation) {
  const JobOptions options = OptionsFor();
  const std::vector<std::string> arguments =
      SetArguments({Cat("evaluation.every_steps=", options.steps)});
  TestJob undisturbed_job(options);
  undisturbed_job.StartAll(arguments);
  undisturbed_job.ExpectAllEnd(0);
  TestJob job(options);
  RunAndKillAt(job, options, 20, arguments);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.OutputBytes("curve.csv"), undisturbed_job.OutputBytes("curve.csv"));
}

// Steps 41 and 42 are local ones, after which the workers' weights differ.
TEST(Checkpoints, OfAJobThatEndsBetweenSynchronizationsAreOfTheLastOne) {
  const JobOptions options = OptionsFor("", 42);
  const std::vector<std::string> arguments =
      SetArguments({"train.algorithm=psgd", "train.psgd.p=4", "checkpoints.every_steps=1000"});
  const std::string weights = UndisturbedWeights(options, arguments);
  TestJob job(options);
  for (const int from_step : {0, 40}) {
    job.StartAll(arguments);
    job.ExpectAllEnd(0);
    EXPECT_EQ(job.Output("server.0.json")["from_step"], from_step);
    EXPECT_TRUE(job.Weights() == weights) << "from step " << from_step;
  }
}

// The regular checkpoints are 1000 steps apart. With this codec servers remember, so all lanes of
// both shards must write theirs after the same round as the workers.
TEST(Checkpoints, AreWrittenWhenOneIsAskedFor) {
  JobOptions options = OptionsFor("", 300);
  options.servers = 2;
  const std::vector<std::string> arguments = SetArguments(
      {"checkpoints.every_steps=1000", "exchange.codec=onebit", "exchange.bucket_kib=256"});
  const std::string weights = UndisturbedWeights(options, arguments);
  TestJob job(options);
  job.StartAll(arguments);
  TestProgram* const asked[] = {&job.worker(1), &job.server(1), &job.server(0)};
  uint64_t step = 0;
  for (TestProgram* program : asked) {
    ASSERT_TRUE(WaitUntil(
        [&] { return job.Log("worker", 1).find("takes part in the job") != std::string::npos; }));
    program->Signal(SIGUSR1);
    for (const char* owner : {"worker.0", "worker.1", "shard.0.lane.1", "shard.1.lane.1"})
      ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, owner) > step; })) << owner;
    step = NewestStepOf(job, "worker.0");
  }
  KillAll(job, options.servers, options.workers);
  ASSERT_LT(step, options.steps) << "the machine was too slow to ask before the end";
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_NE(job.Log("worker", 0).find("a checkpoint was asked for"), std::string::npos);
  EXPECT_GE(job.Output("server.0.json")["from_step"], step);
}

TEST(Checkpoints, MayBeAskedForThroughTernRun) {
  TestJob job(EndlessJobOptions("checkpoints: {every_steps: 1000000}\n"));
  TestProgram& tern = job.StartTern({"run", job.job_file()});
  ASSERT_TRUE(job.WaitForTraining());
  tern.Signal(SIGUSR1);
  for (const char* owner : {"worker.0", "worker.1"})
    EXPECT_TRUE(WaitUntil([&] { return NewestStepOf(job, owner) > 0; })) << owner;
  tern.Signal(SIGTERM);
  EXPECT_EQ(tern.Wait(), 143);
}

TEST(Checkpoints, AreNotWrittenOnRequestByAJobThatHasNone) {
  TestJob job({.steps = 60});
  job.StartAll();
  ASSERT_TRUE(
      WaitUntil([&] { return job.Log("server", 0).find("worker 1") != std::string::npos; }));
  job.server(0).Signal(SIGUSR1);
  job.ExpectAllEnd(0);
  EXPECT_NE(job.Log("server", 0).find("SIGUSR1: no checkpoint is written"), std::string::npos);
}

// Without rounds, two runs end with different weights. So this tests only that the job continues
// from its checkpoints and completes its steps.
class KilledWithoutRounds : public testing::TestWithParam<JobCase> {};

TEST_P(KilledWithoutRounds, ContinuesFromTheServersCheckpoints) {
  JobOptions options = OptionsFor();
  options.model = kBatchNormAndDropout;
  options.servers = GetParam().servers;
  options.steps = 4 * kSteps;  // so that also a worker that starts late completes its steps
  TestJob job(options);
  RunAndKillAt(job, options, 20, GetParam().arguments);
  const uint64_t newest_step = NewestStepOf(job, "shard.0.lane.1");
  ASSERT_GE(newest_step, 10u);
  job.StartAll(GetParam().arguments);
  job.ExpectAllEnd(0);
  for (uint32_t rank = 0; rank < options.workers; ++rank) {
    const std::string log = job.Log("worker", rank);
    EXPECT_NE(log.find("the servers go on from their checkpoint"), std::string::npos);
    EXPECT_NE(log.find("this worker's own state is loaded"), std::string::npos);
    EXPECT_NE(log.find("continuing after exchange"), std::string::npos);
  }
  for (uint32_t shard = 0; shard < options.servers; ++shard)
    EXPECT_NE(job.Log("server", shard).find("goes on from the checkpoint of step"),
              std::string::npos);
  EXPECT_GE(NewestStepOf(job, "shard.0.lane.1"), options.steps) << "the end is written";
}

INSTANTIATE_TEST_SUITE_P(
    Each, KilledWithoutRounds,
    testing::Values(MakeCase("Asgd", {"train.algorithm=asgd", "train.optimizer.name=momentum",
                                      "exchange.scaler=per_worker"}),
                    WithModel(MakeCase("SspOverTwoShards",
                                       {"train.algorithm=ssp", "exchange.codec=fp32",
                                        "exchange.chunk_kib=32"}),
                              "", 2),
                    MakeCase("DcasgdAdaptive",
                             {"train.algorithm=dcasgd_a", "train.dcasgd_a.compensation=on_worker",
                              "exchange.codec=fp32"}),
                    MakeCase("EasgdAsync", {"train.algorithm=easgd_async",
                                            "train.easgd_async.tau=2", "exchange.codec=fp32"})),
    NameOf);

// One worker's pushes have one order, so a job that has ended and is then made longer ends with the
// weights of one that was long from the start, if the worker's own state comes back, too. Returns
// the worker's log.
std::string ExpectSameWeightsOfALongerJob(const std::vector<std::string>& settings) {
  JobOptions options = OptionsFor();
  options.workers = 1;
  const std::vector<std::string> arguments = SetArguments(settings);
  const std::string weights = UndisturbedWeights(options, arguments);
  std::vector<std::string> half = arguments;
  half.insert(half.end(), {"--set", "train.steps=30"});
  TestJob job(options);
  job.StartAll(half);
  job.ExpectAllEnd(0);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  return job.Log("worker", 0);
}

TEST(WithoutRounds, AnOrderlyEndKeepsWhatTheCodecsRemember) {
  for (const std::string codec : {"topk", "onebit"}) {
    SCOPED_TRACE(codec);
    const std::string log = ExpectSameWeightsOfALongerJob(
        {"train.algorithm=asgd", "train.optimizer.name=sgd", "exchange.codec=" + codec});
    EXPECT_NE(log.find("continuing after exchange 30"), std::string::npos);
    EXPECT_EQ(log.find("memories of earlier gradients"), std::string::npos);
  }
}

// The job ends in a step with an exchange, which the worker does not make a second time.
TEST(WithoutRounds, AWorkerOfEasgdContinuesAfterTheStepOfItsPoint) {
  ExpectSameWeightsOfALongerJob(
      {"train.algorithm=easgd_async", "train.easgd_async.tau=3", "exchange.codec=fp32"});
}

// A shard that is killed after the job has resumed continues from its newest checkpoint, not from
// the checkpoint with which the job resumed.
TEST(WithoutRounds, AfterAResumeAKilledShardContinuesFromItsNewestCheckpoint) {
  JobOptions options = OptionsFor("", 250);
  options.servers = 2;
  const std::vector<std::string> arguments =
      MakeCase("", {"train.algorithm=asgd", "exchange.codec=fp32", "exchange.chunk_kib=64",
                    "checkpoints.shard_every_steps=5"})
          .arguments;
  TestJob job(options);
  RunAndKillAt(job, options, 20, arguments);
  job.StartAll(arguments);
  ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, "worker.0") >= 60; }));
  job.server(1).Signal(SIGKILL);
  job.server(1).Wait();
  job.StartServer(1, arguments);
  job.ExpectAllEnd(0);
  EXPECT_NE(job.Log("server", 1).find("goes on from its checkpoint of step"), std::string::npos);
}

// Only one worker is lost and comes back, or one worker and shard 0. Its private state (OD-SGD's w'
// and momentum, the codecs' memories) is only on its disk, so all processes go back to a
// checkpoint.
class KilledAlone : public testing::TestWithParam<JobCase> {
 protected:
  // Kills worker 1, and shard 0 with it if `kills_shard0`.
  static void ExpectTheSameBytes(bool kills_shard0);
};

void KilledAlone::ExpectTheSameBytes(bool kills_shard0) {
  JobOptions options = OptionsFor(
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: "
      "0.8}\n");
  options.servers = GetParam().servers;
  const std::string weights = UndisturbedWeights(options, GetParam().arguments);
  TestJob job(options);
  job.StartAll(GetParam().arguments);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, Cat("worker.", rank)) >= 20; }));
  job.worker(1).Signal(SIGKILL);
  if (kills_shard0) job.server(0).Signal(SIGKILL);
  job.worker(1).Wait();
  if (kills_shard0) job.server(0).Wait();
  if (kills_shard0) job.StartServer(0, GetParam().arguments);
  job.StartWorker(1, GetParam().arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    EXPECT_NE(job.Log("worker", rank).find("goes on from the checkpoint"), std::string::npos);
  EXPECT_EQ(job.Output("server.0.json")["rounds"], kSteps);
  EXPECT_GE(job.Output("server.0.json")["from_step"], 10);
}

TEST_P(KilledAlone, TakesAllBackToTheSameBytes) { ExpectTheSameBytes(false); }
TEST_P(KilledAlone, WithShard0TakesAllBackToTheSameBytes) { ExpectTheSameBytes(true); }

INSTANTIATE_TEST_SUITE_P(Each, KilledAlone,
                         testing::Values(MakeCase("Odsgd", {"train.algorithm=odsgd",
                                                            "train.odsgd.warmup_steps=5",
                                                            "train.odsgd.local.momentum=0.9"}),
                                         MakeCase("PqasgdOuter", kOuterOverTernary),
                                         WithModel(MakeCase("PqasgdFragments", kFragmentsWithOuter),
                                                   "{name: lenet}", 2)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Thorough, KilledAlone,
    testing::Values(MakeCase("Threshold", {"exchange.codec=threshold"}),
                    MakeCase("Psgd", {"train.algorithm=psgd", "train.psgd.p=4"}),
                    WithModel(MakeCase("OneBit", {"exchange.codec=onebit"}), "{name: lenet}", 2)),
    NameOf);

// All daemons of a run are started with checkpoints.resume: false. A worker that is started again
// in the same way must not lose its own state, which is on its disk alone.
TEST(KilledWorker, OfARunThatBeganWithoutResumeTakesAllBackToTheSameBytes) {
  const std::vector<std::string> arguments = {"--set", "checkpoints.resume=false",
                                              "--set", "train.algorithm=odsgd",
                                              "--set", "train.odsgd.warmup_steps=5"};
  const JobOptions options = OptionsFor(
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: "
      "0.8}\n");
  const std::string weights = UndisturbedWeights(options, arguments);
  TestJob job(options);
  job.StartAll(arguments);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, Cat("worker.", rank)) >= 20; }));
  job.worker(1).Signal(SIGKILL);
  job.worker(1).Wait();
  job.StartWorker(1, arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_NE(job.Log("worker", 1).find("goes on from the checkpoint"), std::string::npos);
}

TEST(Checkpoints, ATruncatedOneIsRefusedAndThePreviousOneUsed) {
  const JobOptions options = OptionsFor();
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  RunAndKillAt(job, options, 30);
  const uint64_t newest_step =
      std::min(NewestStepOf(job, "worker.0"), NewestStepOf(job, "worker.1"));
  const std::string truncated_file = CheckpointFile(job, "worker.1", newest_step, ".safetensors");
  fs::resize_file(truncated_file, fs::file_size(truncated_file) / 2);
  ExpectResumes(job, options, weights);
  EXPECT_NE(job.Log("worker", 1).find("is not used: its size in bytes is"), std::string::npos);
  EXPECT_NE(
      job.Log("worker", 1).find(Cat("goes on from the checkpoint of step ", newest_step - 10)),
      std::string::npos);
}

// The folders to which the earlier checkpoints of a process were moved, oldest first.
std::vector<std::string> FoldersKeptFor(const TestJob& job, const std::string& owner) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(job.output_dir() + "/checkpoints")) {
    if (entry.path().filename().string().starts_with(owner + ".2")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

const std::vector<std::string> kWithoutResume = {"--set", "checkpoints.resume=false"};

class MistakenStart : public testing::TestWithParam<JobCase> {};

TEST_P(MistakenStart, StartsAreRefusedByTheKeyThatDiffersAndLoseNothing) {
  const JobOptions options = OptionsFor();
  const std::string weights = UndisturbedWeights(options, GetParam().arguments);
  TestJob job(options);
  RunAndKillAt(job, options, 20, GetParam().arguments);
  const auto saved_files = CheckpointFilesOf(job);
  const uint64_t newest_step = NewestStepOf(job, "worker.0");
  std::vector<std::string> other_arguments = GetParam().arguments;
  other_arguments.insert(other_arguments.end(), {"--set", "train.weight_decay.rate=0.025"});
  job.StartAll(other_arguments);
  job.ExpectAllEnd(65);
  EXPECT_TRUE(CheckpointFilesOf(job) == saved_files);
  ExpectInAllLogs(job, options,
                  Cat("worker.0 has checkpoints up to step ", newest_step,
                      " of another job: train.weight_decay.rate was 0, is now 0.025"));
  ExpectInAllLogs(job, options, "--set checkpoints.resume=false");
  // The command `tern run` refuses the start in the same way.
  other_arguments.insert(other_arguments.begin(), {"run", job.job_file()});
  TestProgram& tern_run = job.StartTern(other_arguments);
  EXPECT_EQ(tern_run.Wait(), 65);
  EXPECT_NE(tern_run.err().find("train.weight_decay.rate was 0, is now 0.025"), std::string::npos)
      << tern_run.err();
  EXPECT_TRUE(CheckpointFilesOf(job) == saved_files);
  ExpectResumes(job, options, weights, GetParam().arguments);
}

INSTANTIATE_TEST_SUITE_P(Each, MistakenStart,
                         testing::Values(MakeCase("Ternary", {}),
                                         MakeCase("Central", {"train.parameters=central"})),
                         NameOf);

TEST(Checkpoints, AJobThatWritesNoneStillResumes) {
  const JobOptions options = OptionsFor();
  const std::string weights = UndisturbedWeights(options);
  const std::vector<std::string> arguments_without_writing = {"--set", "checkpoints.every_steps=0"};
  TestJob job(options);
  RunAndKillAt(job, options, 20);
  const auto saved_files = CheckpointFilesOf(job);
  const std::string moved_folder = job.folder() + "/elsewhere";
  fs::rename(FolderOf(job, "worker.1"), moved_folder);
  job.StartAll(arguments_without_writing);
  job.ExpectAllEnd(65);
  ExpectInAllLogs(job, options, "no checkpoint is on the disks of all: worker 0 (");
  fs::rename(moved_folder, FolderOf(job, "worker.1"));
  EXPECT_TRUE(CheckpointFilesOf(job) == saved_files);
  ExpectResumes(job, options, weights, arguments_without_writing);
  for (const auto& [path, bytes] : CheckpointFilesOf(job))
    EXPECT_TRUE(saved_files.contains(path)) << "it wrote " << path;
}

TEST(Checkpoints, TheStartIsRefusedIfAllOfOneOwnerOrOfAllAreDamaged) {
  const JobOptions options = OptionsFor();
  TestJob job(options);
  RunAndKillAt(job, options, 20);
  for (const char* owner : {"worker.1/step.", "worker.0/step."}) {
    for (const auto& [path, bytes] : CheckpointFilesOf(job)) {
      if (path.find(owner) != std::string::npos) fs::resize_file(path, bytes.size() / 2);
    }
    const auto saved_files = CheckpointFilesOf(job);
    job.StartAll();
    job.ExpectAllEnd(65);
    EXPECT_TRUE(CheckpointFilesOf(job) == saved_files);
  }
  ExpectInAllLogs(job, options, ") has none that is whole: ");
  for (uint32_t rank = 0; rank < options.workers; ++rank) {
    const std::string owner = Cat("worker.", rank);
    ExpectInAllLogs(job, options,
                    Cat(FolderOf(job, owner), " has checkpoints up to step ",
                        NewestStepOf(job, owner), ", which are damaged: "));
  }
}

// With codec onebit a server writes checkpoints, too, because it keeps errors of its own codes.
TEST(Checkpoints, TwoStartsWithoutResumeKeepAllOldOnes) {
  const JobOptions options = OptionsFor("exchange: {codec: onebit}\n");
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  RunAndKillAt(job, options, 20);
  fs::create_directories(FolderOf(job, "worker.0.before"));
  const auto saved_files = CheckpointFilesOf(job);
  for (int i = 0; i < 2; ++i) {
    job.StartAll(kWithoutResume);
    job.ExpectAllEnd(0);
    EXPECT_TRUE(job.Weights() == weights);
  }
  for (const std::string owner : {"worker.0", "worker.1", "shard.0.lane.1"}) {
    const std::vector<std::string> kept_folders = FoldersKeptFor(job, owner);
    ASSERT_EQ(kept_folders.size(), 2u) << owner;
    for (const auto& [path, bytes] : saved_files) {
      const fs::path file(path);
      if (file.parent_path() != FolderOf(job, owner)) continue;
      EXPECT_TRUE(ReadFile(Cat(kept_folders[0], "/", file.filename().string())) == bytes) << path;
    }
    EXPECT_TRUE(fs::exists(Cat(kept_folders[1], "/step.", kSteps, ".json")))
        << "of the second start";
    EXPECT_EQ(NewestStepOf(job, owner), kSteps) << "of the third";
    const bool is_worker = owner.starts_with("worker");
    const std::string log =
        is_worker ? job.Log("worker", owner.back() - '0') : job.Log("server", 0);
    for (const std::string& folder : kept_folders)
      EXPECT_NE(log.find("had before are kept in " + folder), std::string::npos) << folder;
  }
  EXPECT_TRUE(fs::exists(FolderOf(job, "worker.0.before")));
}

// All processes are killed after worker 0 has written its first checkpoint and before worker 1 has.
// The next start must not be refused as if a disk were missing.
TEST(Checkpoints, ARunWithoutACommonOneStartsAgain) {
  const JobOptions options = OptionsFor();
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  RunAndKillAt(job, options, 10);
  const uint64_t newest_step = NewestStepOf(job, "worker.0");
  for (const auto& [path, bytes] : CheckpointFilesOf(job)) {
    const bool is_first_checkpoint =
        path.find(Cat("worker.0/step.", newest_step, ".")) != std::string::npos;
    if (path.find("/step.") != std::string::npos && !is_first_checkpoint) fs::remove(path);
  }
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_NE(job.Log("server", 0).find("before all had written their first checkpoint"),
            std::string::npos);
  const std::vector<std::string> kept_folders = FoldersKeptFor(job, "worker.0");
  ASSERT_EQ(kept_folders.size(), 1u);
  EXPECT_TRUE(fs::exists(Cat(kept_folders[0], "/step.", newest_step, ".safetensors")));
}

TEST(Checkpoints, ACompleteJobSaysSoAndWritesItsWeightsAgain) {
  TestJob job(OptionsFor("", 25));
  job.StartAll();
  job.ExpectAllEnd(0);
  const std::string weights = job.Weights();
  fs::remove(job.output_dir() + "/weights.safetensors");
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  EXPECT_NE(job.Log("worker", 0).find("evaluated and written again"), std::string::npos);
}

TEST(Checkpoints, AStoppedJobContinuesWhereItStopped) {
  const JobOptions options = OptionsFor("", 300);
  const std::string weights = UndisturbedWeights(options);
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(15));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
  const uint64_t last_step = NewestStepOf(job, "worker.0");
  EXPECT_EQ(NewestStepOf(job, "worker.1"), last_step);
  ExpectResumes(job, options, weights);
  EXPECT_NE(job.Log("worker", 0).find(Cat("goes on from the checkpoint of step ", last_step)),
            std::string::npos);
}

}  // namespace
}  // namespace tern::e2e

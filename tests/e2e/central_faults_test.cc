// Tests of lost processes in jobs whose servers hold the parameters. A job with rounds goes back to
// a checkpoint that all shards have; if the job is deterministic, it ends with the bytes of an
// undisturbed run. In a job without rounds, only the lost shard goes back, and reports by how much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kSteps = 120, kCheckpointEvery = 10;

// Options of a job that is long enough that faults happen well before the end. A process counts as
// lost after a second. `train` has additional lines for the job's section "train".
JobOptions CentralOptions(const std::string& train, uint64_t shard_every = kCheckpointEvery) {
  JobOptions options;
  options.servers = 2;
  options.steps = kSteps;
  options.batch_total = 48;
  options.yaml = Cat("  parameters: central\n", train,
                     "exchange: {codec: fp32, scaler: per_worker, chunk_kib: 256}\n"
                     "evaluation: {ema_decay: 0.9}\n"
                     "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, "
                     "dead_after_s: 1, compare_every_steps: 10}\n"
                     "checkpoints: {shard_every_steps: ",
                     shard_every, "}\n");
  return options;
}

JobOptions SsgdOptions(uint64_t shard_every = kCheckpointEvery) {
  return CentralOptions("  algorithm: ssgd\n  optimizer: {name: momentum}\n", shard_every);
}

struct FinalWeights {
  std::string weights, average_weights;  // bytes of the files; average: the moving average
};
FinalWeights FinalWeightsOf(const TestJob& job) {
  return {job.Weights(), job.OutputBytes("weights_average.safetensors")};
}

// The final weights of an undisturbed run.
const FinalWeights& UndisturbedWeights() {
  static const FinalWeights final_weights = [] {
    TestJob job(SsgdOptions());
    job.StartAll();
    job.ExpectAllEnd(0);
    return FinalWeightsOf(job);
  }();
  return final_weights;
}

void ExpectEndsUndisturbed(TestJob& job) {
  job.ExpectAllEnd(0);
  const FinalWeights final_weights = FinalWeightsOf(job);
  EXPECT_TRUE(final_weights.weights == UndisturbedWeights().weights)
      << "other weights than without the fault";
  EXPECT_TRUE(final_weights.average_weights == UndisturbedWeights().average_weights)
      << "another average than without the fault";
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

void KillAndWait(TestProgram& program) {
  program.Signal(SIGKILL);
  ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
}

// The steps to which the processes of shard 0 took the job back, from their logs; 0: the beginning.
std::vector<uint64_t> StepsWentBackTo(const TestJob& job) {
  std::vector<uint64_t> steps;
  const std::string log = job.Log("server", 0);
  const std::regex went_back_text(
      "all go on from the servers' checkpoint of step ([0-9]+)|back to the beginning");
  for (std::sregex_iterator match(log.begin(), log.end(), went_back_text), end; match != end;
       ++match)
    steps.push_back((*match)[1].matched ? std::stoull((*match)[1]) : 0);
  return steps;
}

class KilledShard : public testing::TestWithParam<uint32_t> {};

TEST_P(KilledShard, TakesASynchronousJobBackToACheckpointOfAllShards) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(2 * kCheckpointEvery + 3));
  KillAndWait(job.server(GetParam()));
  job.StartServer(GetParam());
  ExpectEndsUndisturbed(job);
  EXPECT_THAT(StepsWentBackTo(job), testing::ElementsAre(testing::Ge(2 * kCheckpointEvery)));
  EXPECT_THAT(job.Log("worker", 1), HasSubstr("this worker's own state"));
}

TEST_P(KilledShard, TakesItToTheBeginningIfThereIsNoCheckpoint) {
  TestJob job(SsgdOptions(0));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.server(GetParam()));
  job.StartServer(GetParam());
  ExpectEndsUndisturbed(job);
  EXPECT_THAT(StepsWentBackTo(job), testing::ElementsAre(0u));
}

INSTANTIATE_TEST_SUITE_P(EachOfTwo, KilledShard, testing::Values(0u, 1u));

TEST(KilledShards, OneAfterTheOtherWhileTheJobGoesBack) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  KillAndWait(job.server(1));
  job.StartServer(1);
  ASSERT_TRUE(job.server(0).WaitForErr("all go back to the newest checkpoint"));
  KillAndWait(job.server(1));
  job.StartServer(1);
  ASSERT_TRUE(job.worker(0).WaitForErr("all go back to an earlier round"));
  KillAndWait(job.server(0));
  job.StartServer(0);
  ExpectEndsUndisturbed(job);
}

TEST(KilledShards, BothAtOnce) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  for (uint32_t shard : {1, 0}) KillAndWait(job.server(shard));
  for (uint32_t shard : {0, 1}) job.StartServer(shard);
  ExpectEndsUndisturbed(job);
}

TEST(KilledShards, OfAJobThatDidNotResume) {
  const std::vector<std::string> arguments_without_resume = {"--set", "checkpoints.resume=false"};
  TestJob job(SsgdOptions());
  job.StartAll(arguments_without_resume);
  ASSERT_TRUE(job.WaitForRound(2 * kCheckpointEvery + 3));
  KillAndWait(job.server(1));
  job.StartServer(1, arguments_without_resume);
  ExpectEndsUndisturbed(job);
  EXPECT_THAT(StepsWentBackTo(job), testing::ElementsAre(testing::Ge(kCheckpointEvery)));
}

TEST(KilledShards, WithAWorkerAtTheSameTime) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  KillAndWait(job.server(1));
  KillAndWait(job.worker(1));
  job.StartServer(1);
  job.StartWorker(1);
  ExpectEndsUndisturbed(job);
}

TEST(KilledShards, UnderShrinkToo) {
  JobOptions options = SsgdOptions();
  options.yaml.replace(options.yaml.find("wait"), 4, "shrink");
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  KillAndWait(job.server(0));
  job.StartServer(0);
  ExpectEndsUndisturbed(job);
}

// A new run does not use the shards' checkpoints of earlier runs, but keeps them in other folders.
TEST(ShardsOwn, OfAnEarlierRunAreMovedAndDoNotPreventAStart) {
  TestJob job(SsgdOptions());
  job.StartAll();
  job.ExpectAllEnd(0);
  for (const std::string seed : {"seed=1", "seed=5"}) {  // seed 1 is the default: the same job
    job.StartAll({"--set", seed});
    job.ExpectAllEnd(0);
    EXPECT_THAT(job.Log("server", 0), HasSubstr("had before are kept in"));
    EXPECT_EQ(job.Output("server.0.json")["from_step"], 0);
  }
  for (const std::string owner : {"shard.0.lane.1", "shard.1.lane.1"}) {
    size_t num_folders = 0;
    for (const auto& entry : fs::directory_iterator(job.output_dir() + "/checkpoints")) {
      if (!entry.path().filename().string().starts_with(owner)) continue;
      ++num_folders;
      for (const uint64_t step : {kSteps - 2 * kCheckpointEvery, kSteps - kCheckpointEvery, kSteps})
        EXPECT_TRUE(fs::exists(entry.path() / Cat("step.", step, ".safetensors"))) << entry.path();
    }
    EXPECT_EQ(num_folders, 3u) << owner;
  }
}

TEST(KilledWorkers, AllAtOnceLoseNothingThatServersHold) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  for (uint32_t rank : {0, 1}) KillAndWait(job.worker(rank));
  for (uint32_t rank : {0, 1}) job.StartWorker(rank);
  ExpectEndsUndisturbed(job);
}

TEST(KilledWorkers, GetStateFromAnother) {
  TestJob job(SsgdOptions());
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  KillAndWait(job.worker(1));
  job.StartWorker(1);
  ExpectEndsUndisturbed(job);
  EXPECT_THAT(StepsWentBackTo(job), testing::IsEmpty());
}

// Each worker keeps what topk holds back, which no other daemon has. All daemons write checkpoints
// every 20 steps, shards more often.
TestJob JobWithOwnState() {
  JobOptions options = CentralOptions("  algorithm: ssgd\n  optimizer: {name: sgd}\n", 7);
  const auto replace = [&options](const std::string& before, const std::string& after) {
    options.yaml.replace(options.yaml.find(before), before.size(), after);
  };
  replace("codec: fp32, scaler: per_worker", "codec: topk");
  replace("checkpoints: {", "checkpoints: {every_steps: 20, ");
  return TestJob(options);
}

// Whether the killed daemon is a worker or a shard, and checkpoints.resume.
class OwnState : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(OwnState, SurvivesInTheCommonCheckpoint) {
  const auto [kills_worker, resumes] = GetParam();
  static const std::string undisturbed_weights = [] {
    TestJob job = JobWithOwnState();
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  const std::vector<std::string> arguments = {
      "--set", resumes ? "checkpoints.resume=true" : "checkpoints.resume=false"};
  TestJob job = JobWithOwnState();
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(63));
  KillAndWait(kills_worker ? job.worker(1) : job.server(1));
  kills_worker ? job.StartWorker(1, arguments) : job.StartServer(1, arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == undisturbed_weights) << "other weights than without the fault";
  EXPECT_THAT(job.Log("server", 0), HasSubstr("all go on from the checkpoint of step"));
}

INSTANTIATE_TEST_SUITE_P(Each, OwnState, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& test) {
                           return Cat(std::get<0>(test.param) ? "OfAWorker" : "OfAShard",
                                      std::get<1>(test.param) ? "" : "ThatDidNotResume");
                         });

class KilledServerOf : public testing::TestWithParam<std::string> {};

TEST_P(KilledServerOf, TakesItBackAndItEndsWell) {
  TestJob job(CentralOptions(GetParam()));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(kCheckpointEvery + 3));
  KillAndWait(job.server(1));
  job.StartServer(1);
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_THAT(StepsWentBackTo(job), testing::SizeIs(1));
  EXPECT_FALSE(job.Weights().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, KilledServerOf,
    testing::Values("  algorithm: odsgd\n  odsgd: {warmup_steps: 4, local: {name: sgd}}\n",
                    "  algorithm: easgd\n  easgd: {tau: 2}\n",
                    "  algorithm: ssgd\n  ssgd: {backup_workers: 1}\n"));

TEST(WithoutRounds, OnlyAKilledShardGoesBackAndItSaysByHowMuch) {
  // The job ends before a second checkpoint. So whenever the shard is killed, it has counted pushes
  // that its checkpoint lacks.
  constexpr uint64_t kLongerSteps = 5 * kSteps, kOnlyCheckpoint = kLongerSteps / 2 + 1;
  JobOptions options = CentralOptions("  algorithm: asgd\n", kOnlyCheckpoint);
  options.steps = kLongerSteps;
  TestJob job(options);
  job.StartAll();
  ASSERT_TRUE(WaitUntil([&] {
    return fs::exists(
        Cat(job.output_dir(), "/checkpoints/shard.1.lane.1/step.", kOnlyCheckpoint, ".json"));
  }));
  // The newest report may be older than the checkpoint, the second one after it is not.
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 1));
  KillAndWait(job.server(1));
  job.StartServer(1);
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("server", 1),
              testing::ContainsRegex("goes on from its checkpoint of step [0-9]+"));
  EXPECT_THAT(job.Log("server", 1), testing::ContainsRegex("went back by up to [0-9]+ pushes"));
  EXPECT_THAT(StepsWentBackTo(job), testing::IsEmpty());
}

TEST(WithoutRounds, OnlyAKilledShardZeroGoesBackToo) {
  TestJob job(CentralOptions("  algorithm: asgd\n", 5));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(23));
  KillAndWait(job.server(0));
  job.StartServer(0);
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("server", 0),
              testing::ContainsRegex("goes on from its checkpoint of step [0-9]+"));
}

TEST(WithoutRounds, AKilledWorkerComesBackAndTheJobEnds) {
  TestJob job(CentralOptions("  algorithm: asgd\n"));
  job.StartAll();
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  job.StartWorker(1);
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("worker", 1), HasSubstr("continuing after exchange"));
}

}  // namespace
}  // namespace tern::e2e

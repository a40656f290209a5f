// Tests of a server's checkpoints in algorithms without rounds: the server continues from a
// checkpoint with exactly the same results, after a restart or if it goes back while it runs. A
// lane is the protocol object of one of the server's sockets; a step is 4 pushes, one per worker.
#include <gmock/gmock.h>

#include <filesystem>
#include <utility>

#include "server/lane_checkpoints.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr uint64_t kRun = 77;

pb::Checkpoint At(uint64_t step) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(kRun);
  checkpoint.set_step(step);
  return checkpoint;
}

std::vector<uint64_t> StepsOf(const LaneCheckpoints& checkpoints) {
  std::vector<uint64_t> steps;
  for (const pb::Checkpoint& saved : checkpoints.Saved().checkpoints) steps.push_back(saved.step());
  return steps;
}

// Each test has its own folder, which is deleted at the end. The server writes a checkpoint every 5
// steps, that is, every 20 pushes.
class ClockCheckpoints : public testing::Test {
 protected:
  ClockCheckpoints()
      : dir_(fs::path(testing::TempDir()) / ("tern_clock_checkpoints_" + std::to_string(getpid()) +
                                             "_" + std::to_string(std::rand()))) {}
  ~ClockCheckpoints() override { fs::remove_all(dir_); }

  std::unique_ptr<setup::Setup> Job(std::vector<std::string> overrides) const {
    for (const char* setting : {"checkpoints.every_steps=5", "train.optimizer.name=momentum",
                                "evaluation.ema_decay=0.9", "checkpoints.shard_every_steps=3"})
      overrides.emplace_back(setting);
    overrides.push_back("output_dir=" + dir_.string());
    return CentralJob(overrides);
  }

  const fs::path dir_;
};

class EveryClockCheckpoint : public ClockCheckpoints,
                             public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(EveryClockCheckpoint, ContinueARestartedServerExactly) {
  const auto job = Job(GetParam());
  LaneCheckpoints written(*job, 0, 1);
  ClockDrill uninterrupted(*job, &written);
  ASSERT_TRUE(uninterrupted.central().BeginRun(kRun).ok());
  uninterrupted.PushOn(0, 43);  // Checkpoints are written after pushes 20 and 40.
  EXPECT_THAT(StepsOf(written), ElementsAre(5, 10));

  ClockDrill before(*job);  // Has the workers' state after push 40.
  before.PushOn(0, 40);
  LaneCheckpoints read(*job, 0, 1);
  ClockDrill restarted(*job, &read);
  ASSERT_TRUE(restarted.central().GoBack(At(10)).ok());
  EXPECT_EQ(restarted.central().step(), 10u);
  restarted.TakeWorkersOf(before);
  restarted.GreetAll();
  restarted.PushOn(40, 70);
  uninterrupted.PushOn(43, 70);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(restarted.held(rank), uninterrupted.held(rank));
  EXPECT_EQ(restarted.PullAverage(0), uninterrupted.PullAverage(0));
}

// The running server goes back to a checkpoint. Nothing that came after the checkpoint has an
// effect.
TEST_P(EveryClockCheckpoint, TakeARunningServerBackExactly) {
  const auto job = Job(GetParam());
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.PushOn(0, 20);
  ClockDrill workers(*job);
  workers.PushOn(0, 20);
  drill.PushOn(20, 50);
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 10));
  const std::vector<float> end = drill.held(0);
  ASSERT_TRUE(drill.central().GoBack(At(5)).ok());
  EXPECT_EQ(drill.central().step(), 5u);
  EXPECT_FALSE(drill.central().lane().open()) << "the server knows no worker after going back";
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5));
  drill.TakeWorkersOf(workers);
  drill.GreetAll();
  drill.PushOn(20, 50);
  EXPECT_EQ(drill.held(0), end);
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 10)) << "written again";
}

INSTANTIATE_TEST_SUITE_P(
    Each, EveryClockCheckpoint,
    testing::Values(std::vector<std::string>{"train.algorithm=asgd"},
                    std::vector<std::string>{"train.algorithm=dcasgd_a", "exchange.pull=changes",
                                             "exchange.pull_codec=fp16"},
                    std::vector<std::string>{"train.algorithm=softsync", "train.softsync.n=1"},
                    std::vector<std::string>{"train.algorithm=easgd_async",
                                             "train.easgd_async.tau=1"}));

TEST_F(ClockCheckpoints, TheLastOneIsWrittenAfterAnyStep) {
  const auto job = Job({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.PushOn(0, 33);
  drill.central().Finish();
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 8));
}

TEST_F(ClockCheckpoints, WithoutOneAServerGoesBackToTheInitialWeights) {
  const auto job = Job({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints), fresh(*job);
  drill.PushOn(0, 30);
  ASSERT_TRUE(drill.central().GoBack(std::nullopt).ok());
  EXPECT_EQ(drill.central().step(), 0u);
  drill.TakeWorkersOf(fresh);
  drill.GreetAll();
  drill.PushOn(0, 12);
  fresh.PushOn(0, 12);
  EXPECT_EQ(drill.held(1), fresh.held(1));
}

// A beginning is the number of the job's last start or return to a checkpoint. Checkpoints store
// it, so that a restarted server can tell whether its newest checkpoint is older than that.
TEST_F(ClockCheckpoints, StoreTheirBeginning) {
  const auto job = Job({"train.algorithm=asgd"});
  LaneCheckpoints written(*job, 0, 1);
  ClockDrill drill(*job, &written);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.central().SetBeginning(4);
  drill.PushOn(0, 30);
  LaneCheckpoints read(*job, 0, 1);
  ClockDrill restarted(*job, &read);
  EXPECT_EQ(restarted.central().beginning(), 0u);
  ASSERT_TRUE(restarted.central().BeginRun(kRun).ok());
  EXPECT_EQ(restarted.central().beginning(), 4u);
}

}  // namespace
}  // namespace tern::server

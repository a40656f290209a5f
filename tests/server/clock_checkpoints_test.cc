// Tests of a server's checkpoints in algorithms without rounds: the server continues from a
// checkpoint with exactly the same results, after a restart or if it goes back while it runs. A
// lane is the protocol object of one of the server's sockets; a step is 4 pushes, as many as there
// are workers. A ClockDrill runs such a server and its workers in one thread.
#include <gmock/gmock.h>

#include <filesystem>
#include <utility>

#include "server/data_lane.h"
#include "server/lane_checkpoints.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr uint64_t kRun = 77;  // The number of the job's run (execution), which checkpoints store.

pb::Checkpoint CheckpointAt(uint64_t step) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(kRun);
  checkpoint.set_step(step);
  return checkpoint;
}

// The steps of the checkpoints that all processes write.
std::vector<uint64_t> StepsOf(const LaneCheckpoints& checkpoints) {
  std::vector<uint64_t> steps;
  for (const pb::Checkpoint& saved : checkpoints.Saved().checkpoints) steps.push_back(saved.step());
  return steps;
}

// Each test has its own folder, which is deleted at the end. Every 5 steps (20 pushes) all
// processes write a checkpoint. In addition, the server writes its own checkpoint every 3 steps.
class ClockCheckpoints : public testing::Test {
 protected:
  ClockCheckpoints()
      : dir_(fs::path(testing::TempDir()) / ("tern_clock_checkpoints_" + std::to_string(getpid()) +
                                             "_" + std::to_string(std::rand()))) {}
  ~ClockCheckpoints() override { fs::remove_all(dir_); }

  std::unique_ptr<setup::Setup> MakeJob(std::vector<std::string> overrides) const {
    for (const char* setting : {"checkpoints.every_steps=5", "train.optimizer.name=momentum",
                                "evaluation.ema_decay=0.9", "checkpoints.shard_every_steps=3"})
      overrides.emplace_back(setting);
    overrides.push_back("output_dir=" + dir_.string());
    return MakeCentralJob(overrides);
  }

  const fs::path dir_;
};

class EveryClockCheckpoint : public ClockCheckpoints,
                             public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(EveryClockCheckpoint, ContinueARestartedServerExactly) {
  const auto job = MakeJob(GetParam());
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill uninterrupted_drill(*job, &checkpoints);
  ASSERT_TRUE(uninterrupted_drill.central().BeginRun(kRun).ok());
  uninterrupted_drill.MakePushes(0, 43);  // Writes the checkpoints of steps 5 and 10.
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 10));

  ClockDrill workers_at_40(*job);  // For the workers' state after push 40.
  workers_at_40.MakePushes(0, 40);
  LaneCheckpoints reread_checkpoints(*job, 0, 1);
  ClockDrill restarted_drill(*job, &reread_checkpoints);
  ASSERT_TRUE(restarted_drill.central().GoBack(CheckpointAt(10)).ok());
  EXPECT_EQ(restarted_drill.central().step(), 10u);
  restarted_drill.CopyWorkersOf(workers_at_40);
  restarted_drill.SendAllHellos();
  restarted_drill.MakePushes(40, 70);
  uninterrupted_drill.MakePushes(43, 70);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(restarted_drill.weights_of(rank), uninterrupted_drill.weights_of(rank));
  EXPECT_EQ(restarted_drill.PullAverage(0), uninterrupted_drill.PullAverage(0));
}

// The running server goes back to a checkpoint. Nothing that came after the checkpoint has an
// effect.
TEST_P(EveryClockCheckpoint, TakeARunningServerBackExactly) {
  const auto job = MakeJob(GetParam());
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.MakePushes(0, 20);
  ClockDrill workers_at_20(*job);
  workers_at_20.MakePushes(0, 20);
  drill.MakePushes(20, 50);
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 10));
  const std::vector<float> final_weights = drill.weights_of(0);
  ASSERT_TRUE(drill.central().GoBack(CheckpointAt(5)).ok());
  EXPECT_EQ(drill.central().step(), 5u);
  EXPECT_FALSE(drill.central().lane().open()) << "the server knows no worker after going back";
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5));
  drill.CopyWorkersOf(workers_at_20);
  drill.SendAllHellos();
  drill.MakePushes(20, 50);
  EXPECT_EQ(drill.weights_of(0), final_weights);
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

TEST_F(ClockCheckpoints, TheLastOneIsOfTheStepThatShard0Names) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.MakePushes(0, 33);
  EXPECT_TRUE(drill.central().Finish(12).ok());
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5, 12));
  LaneCheckpoints reread_checkpoints(*job, 0, 1);
  ClockDrill restarted_drill(*job, &reread_checkpoints);
  ASSERT_TRUE(restarted_drill.central().GoBack(CheckpointAt(12)).ok());
  EXPECT_EQ(restarted_drill.central().clock_lane()->total(), 33u);
}

// Three pushes wait for the fourth, with which they change the weights.
TEST_F(ClockCheckpoints, TheLastOneHasThePushesThatSoftsyncGathers) {
  const auto job = MakeJob({"train.algorithm=softsync", "train.softsync.n=1"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill uninterrupted_drill(*job, &checkpoints);
  ASSERT_TRUE(uninterrupted_drill.central().BeginRun(kRun).ok());
  uninterrupted_drill.MakePushes(0, 35);
  EXPECT_TRUE(uninterrupted_drill.central().Finish(12).ok());
  ClockDrill workers_at_35(*job);
  workers_at_35.MakePushes(0, 35);
  LaneCheckpoints reread_checkpoints(*job, 0, 1);
  ClockDrill restarted_drill(*job, &reread_checkpoints);
  ASSERT_TRUE(restarted_drill.central().GoBack(CheckpointAt(12)).ok());
  restarted_drill.CopyWorkersOf(workers_at_35);
  restarted_drill.SendAllHellos();
  restarted_drill.MakePushes(35, 45);
  uninterrupted_drill.MakePushes(35, 45);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(restarted_drill.weights_of(rank), uninterrupted_drill.weights_of(rank));
}

TEST_F(ClockCheckpoints, ThereIsNoLastOneIfShard0NamesNoStep) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.MakePushes(0, 33);
  EXPECT_TRUE(drill.central().Finish(0).ok());
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(5));
}

// The server is killed three times, and goes back to its newest checkpoint. The workers go on, as
// do the other servers, whose checkpoints must be of the same steps.
TEST_F(ClockCheckpoints, AreOfTheJobsStepsAlsoAfterPushesWereLost) {
  const auto job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=0"});
  ClockDrill workers(*job);
  int pushes = 0;
  for (const int next_pushes : {38, 78, 118, 140}) {
    LaneCheckpoints checkpoints(*job, 0, 1);
    ClockDrill drill(*job, &checkpoints);
    ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
    drill.CopyWorkersOf(workers);
    drill.MakePushes(pushes, next_pushes);
    workers.CopyWorkersOf(drill);
    pushes = next_pushes;
    EXPECT_EQ(drill.central().step(), static_cast<uint64_t>(pushes) / 4);
    EXPECT_EQ(StepsOf(checkpoints).back(), static_cast<uint64_t>(pushes) / 20 * 5);
  }
}

// The other lanes have lost pushes, so they are behind. The folder keeps two checkpoints, and the
// one that all lanes have must be among them.
TEST_F(ClockCheckpoints, TheLastOneReplacesLaterOnes) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.MakePushes(0, 62);
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(10, 15));
  EXPECT_TRUE(drill.central().Finish(8).ok());
  EXPECT_THAT(StepsOf(checkpoints), ElementsAre(8));
}

// A step is 4 pushes, and the job has 40 steps.
TEST_F(ClockCheckpoints, TheLastStepIsRoundedUpAndAtMostTheJobs) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  ClockDrill drill(*job);
  EXPECT_EQ(drill.central().last_step(), 0u);
  drill.MakePushes(0, 32);
  EXPECT_EQ(drill.central().last_step(), 8u);
  drill.MakePushes(32, 33);
  EXPECT_EQ(drill.central().last_step(), 9u);
  EXPECT_EQ(drill.central().step(), 8u);
  drill.MakePushes(33, 163);
  EXPECT_EQ(drill.central().last_step(), 40u);
}

TEST_F(ClockCheckpoints, WithoutOneAServerGoesBackToTheInitialWeights) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints), fresh_drill(*job);
  drill.MakePushes(0, 30);
  ASSERT_TRUE(drill.central().GoBack(std::nullopt).ok());
  EXPECT_EQ(drill.central().step(), 0u);
  drill.CopyWorkersOf(fresh_drill);
  drill.SendAllHellos();
  drill.MakePushes(0, 12);
  fresh_drill.MakePushes(0, 12);
  EXPECT_EQ(drill.weights_of(1), fresh_drill.weights_of(1));
}

// Shard 0's control thread asks for the last step when the last worker has said Bye, which it does
// after the answers to its Parting.
TEST_F(ClockCheckpoints, TheLastStepIsKnownOnceAPartingIsAnswered) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  auto lane = DataLane::Make(*job, 0, 1, DataLane::OptionsOf(*job, 0, 1, 7));
  ASSERT_TRUE(lane.ok());
  pb::Members members;
  members.set_epoch(1);
  members.set_steps(40);
  for (uint32_t rank = 0; rank < 4; ++rank) members.add_incarnations(10 + rank);
  protocol::Sends sends;
  (*lane)->OnMembers(members, &sends);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    protocol::Message hello;
    *hello.head.mutable_hello() = job->hello;
    hello.head.mutable_hello()->set_rank(rank);
    hello.head.mutable_hello()->set_incarnation(10 + rank);
    (*lane)->OnMessage(100 + rank, hello, &sends);
  }
  const std::vector<float> gradient(job->table.total, 1.f);
  for (const bool is_parting : {false, true}) {
    EXPECT_EQ((*lane)->last_step(), 0u);
    for (const protocol::Chunk* chunk : ChunksOf(*job)) {
      protocol::Message message;
      pb::Contribution* contribution = message.head.mutable_push();
      contribution->set_bucket(chunk->bucket);
      contribution->set_chunk(chunk->index);
      contribution->set_incarnation(10);
      if (is_parting) {
        contribution->mutable_parting()->set_clock(2);
      } else {
        contribution->mutable_at_clock()->set_clock(1);
        message.payload = EncodePush(*job, *chunk, gradient, 0, 1);
      }
      (*lane)->OnMessage(100, message, &sends);
    }
  }
  EXPECT_EQ((*lane)->last_step(), 1u);
}

// A beginning is the number of the job's last start or return to a checkpoint. Checkpoints store
// this number, so that a restarted server can tell whether its newest checkpoint is older than the
// job's newest beginning.
TEST_F(ClockCheckpoints, StoreTheirBeginning) {
  const auto job = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job, 0, 1);
  ClockDrill drill(*job, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.central().SetBeginning(4);
  drill.MakePushes(0, 30);
  LaneCheckpoints reread_checkpoints(*job, 0, 1);
  ClockDrill restarted_drill(*job, &reread_checkpoints);
  EXPECT_EQ(restarted_drill.central().beginning(), 0u);
  ASSERT_TRUE(restarted_drill.central().BeginRun(kRun).ok());
  EXPECT_EQ(restarted_drill.central().beginning(), 4u);
}

// A lane is started again while its workers go on, and its disk is not as its last process left it.
class ClockLaneStartedAgain : public ClockCheckpoints {
 protected:
  // The first process of the lane makes this many pushes, and is killed. Each step is 4 pushes.
  void RunAndKill(int num_pushes) {
    job_ = MakeJob({"train.algorithm=asgd"});
    LaneCheckpoints checkpoints(*job_, 0, 1);
    ClockDrill drill(*job_, &checkpoints);
    ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
    drill.MakePushes(0, num_pushes);
    for (uint32_t rank = 0; rank < 4; ++rank) clocks_.push_back(drill.clock(rank));
  }
  // The worker says that all its pushes up to `clock` were answered. Returns the lane's error.
  Status HandBack(ClockDrill* drill, uint32_t rank, uint64_t clock) {
    for (const protocol::Chunk* chunk : ChunksOf(*job_)) {
      protocol::Message message;
      pb::Outcome* outcome = message.head.mutable_held_sum();
      outcome->set_bucket(chunk->bucket);
      outcome->set_chunk(chunk->index);
      outcome->mutable_at_clock()->set_clock(clock);
      protocol::Sends sends;
      drill->central().lane().OnMessage(100 + rank, message, &sends);
    }
    return drill->central().OnHeldOutcome();
  }
  // The error of the lane's next process, to which the workers hand back what they have.
  Status StartAgain() {
    LaneCheckpoints checkpoints(*job_, 0, 1);
    ClockDrill drill(*job_, &checkpoints);
    Status error = drill.central().BeginRun(kRun);
    for (uint32_t rank = 0; rank < 4 && error.ok(); ++rank)
      error = HandBack(&drill, rank, clocks_[rank]);
    EXPECT_EQ(error.code(), checkpoints.failure().code());
    // No checkpoint is written, unless the lane may go on.
    if (drill.central().step() == 0) drill.MakePushes(0, 40);
    steps_after_ = StepsOf(checkpoints);
    return error;
  }
  fs::path FolderOfLane() const { return dir_ / "checkpoints" / "shard.0.lane.1"; }

  std::unique_ptr<setup::Setup> job_;
  std::vector<uint64_t> clocks_;
  std::vector<uint64_t> steps_after_;
};

TEST_F(ClockLaneStartedAgain, GoesOnFromItsCheckpoint) {
  RunAndKill(33);
  EXPECT_TRUE(StartAgain().ok());
}

TEST_F(ClockLaneStartedAgain, BeginsAnewIfNoCheckpointWasDue) {
  RunAndKill(11);
  fs::remove_all(FolderOfLane());
  EXPECT_TRUE(StartAgain().ok());
  EXPECT_FALSE(steps_after_.empty());
}

TEST_F(ClockLaneStartedAgain, EndsTheJobIfItsDiskIsMissing) {
  RunAndKill(33);
  fs::remove_all(FolderOfLane());
  const Status error = StartAgain();
  EXPECT_EQ(error.code(), Code::kBadData);
  EXPECT_THAT(error.message(),
              testing::MatchesRegex(
                  "no usable checkpoint of this run is in .*shard.0.lane.1, while workers have "
                  "its answers up to step [0-9]+, and the job writes a checkpoint "
                  "every 3 steps; mount or restore what is missing .*"));
  EXPECT_TRUE(steps_after_.empty());
  EXPECT_TRUE(fs::is_empty(FolderOfLane())) << "the next start must not take it for the disk";
}

// A checkpoint that the lane writes before all have said what it lost is none of its last process.
TEST_F(ClockLaneStartedAgain, DoesNotBelieveACheckpointWithoutWhatItLost) {
  job_ = MakeJob({"train.algorithm=asgd"});
  ClockDrill last_process(*job_);
  last_process.MakePushes(0, 33);
  LaneCheckpoints checkpoints(*job_, 0, 1);
  ClockDrill drill(*job_, &checkpoints);
  drill.CopyWorkersOf(last_process);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  ASSERT_TRUE(HandBack(&drill, 0, drill.clock(0)).ok());
  while (drill.central().step() < 3) drill.Push(0, drill.weights_of(0));
  ASSERT_THAT(checkpoints.Saved().shard_checkpoints, testing::SizeIs(1));
  EXPECT_EQ(HandBack(&drill, 1, drill.clock(1)).code(), Code::kBadData);
}

TEST_F(ClockLaneStartedAgain, BelievesItsOwnDiskMoreThanAWorker) {
  job_ = MakeJob({"train.algorithm=asgd"});
  LaneCheckpoints checkpoints(*job_, 0, 1);
  ClockDrill drill(*job_, &checkpoints);
  ASSERT_TRUE(drill.central().BeginRun(kRun).ok());
  drill.MakePushes(0, 33);
  EXPECT_TRUE(HandBack(&drill, 0, 1000).ok());
}

// Its folder was prepared, so that it may have died while it wrote the first, of step 3.
TEST_F(ClockLaneStartedAgain, MayHaveDiedInItsFirstCheckpoint) {
  RunAndKill(13);
  for (const char* name : {"step.3.json", "step.3.safetensors"})
    ASSERT_TRUE(fs::remove(FolderOfLane() / name));
  EXPECT_TRUE(StartAgain().ok());
  EXPECT_FALSE(steps_after_.empty());
}

TEST_F(ClockLaneStartedAgain, EndsTheJobIfAllItsCheckpointsAreDamaged) {
  RunAndKill(33);
  for (const char* name : {"step.3", "step.5", "step.6"})
    fs::resize_file(FolderOfLane() / (name + std::string(".safetensors")), 10);
  const Status error = StartAgain();
  EXPECT_EQ(error.code(), Code::kBadData);
  EXPECT_THAT(error.message(),
              testing::MatchesRegex("no checkpoint of this run in .*shard.0.lane.1 is whole; the "
                                    "newest is of step 6: its size in bytes is 10, .*"));
  EXPECT_TRUE(steps_after_.empty());
  EXPECT_TRUE(fs::exists(FolderOfLane() / "step.6.json")) << "nothing is moved away";
}

}  // namespace
}  // namespace tern::server

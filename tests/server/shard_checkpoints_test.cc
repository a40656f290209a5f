// Tests of a server's own checkpoints. All processes of a job write checkpoints after the same
// steps; a server that holds the weights writes more of its own in between (shard checkpoints).
// Tests how a server continues from shard checkpoints, with and without rounds. A lane is the
// protocol object of one server socket. A ClockDrill runs a server and its workers in one thread.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/text.h"
#include "common/protocol/rounds/forms.h"
#include "server/lane_checkpoints.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kRun = 77;  // The number of the job's run (execution), which checkpoints store.

std::vector<uint64_t> StepsOf(const std::vector<pb::Checkpoint>& checkpoints) {
  std::vector<uint64_t> steps;
  for (const pb::Checkpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step());
  return steps;
}
// The steps of the shard's own checkpoints.
std::vector<uint64_t> OwnStepsOf(const LaneCheckpoints& checkpoints) {
  return StepsOf(checkpoints.Saved().shard_checkpoints);
}
// The steps of the checkpoints that all processes write.
std::vector<uint64_t> CommonStepsOf(const LaneCheckpoints& checkpoints) {
  return StepsOf(checkpoints.Saved().checkpoints);
}

// Each test has its own folder, which is deleted at the end.
class ShardCheckpoints : public testing::Test {
 protected:
  ShardCheckpoints()
      : dir_(fs::path(testing::TempDir()) / ("tern_shard_checkpoints_" + std::to_string(getpid()) +
                                             "_" + std::to_string(std::rand()))) {}
  ~ShardCheckpoints() override { fs::remove_all(dir_); }

  std::unique_ptr<setup::Setup> MakeJob(std::vector<std::string> overrides) {
    overrides.push_back("output_dir=" + dir_.string());
    return MakeCentralJob(overrides);
  }
  // Returns the sorted names of the server's checkpoint folder and of the folders to which the
  // server has moved checkpoints that it cannot use.
  std::vector<std::string> FolderNames() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "checkpoints"))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path CheckpointPathOf(uint64_t step) const {
    return dir_ / "checkpoints" / "shard.0.lane.1" / Cat("step.", step, ".safetensors");
  }

  const fs::path dir_;
};

// A server of a job without rounds, with its checkpoints.
struct ClockServer {
  explicit ClockServer(const setup::Setup& job)
      : checkpoints(job, 0, 1), drill(job, &checkpoints) {}
  // Starts or continues a run (one execution of a job). Returns the step from which the server
  // continues.
  uint64_t StartRun(uint64_t run = kRun) {
    EXPECT_TRUE(drill.central().BeginRun(run).ok());
    return drill.central().step();
  }
  LaneCheckpoints checkpoints;
  ClockDrill drill;
};

class WithoutRounds : public ShardCheckpoints,
                      public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(WithoutRounds, ContinueARestartedServerExactly) {
  std::vector<std::string> overrides = GetParam();
  overrides.insert(overrides.end(), {"checkpoints.shard_every_steps=5",
                                     "train.optimizer.name=momentum", "evaluation.ema_decay=0.9"});
  const auto job = MakeJob(overrides);
  ClockServer uninterrupted_server(*job);
  EXPECT_EQ(uninterrupted_server.StartRun(), 0u);
  uninterrupted_server.drill.MakePushes(0, 21);  // A checkpoint is written after push 20.
  EXPECT_THAT(OwnStepsOf(uninterrupted_server.checkpoints), ElementsAre(5u));
  EXPECT_THAT(CommonStepsOf(uninterrupted_server.checkpoints), IsEmpty());

  ClockDrill workers_at_20(*job);  // For the workers' state after push 20.
  workers_at_20.MakePushes(0, 20);
  ClockServer restarted_server(*job);
  EXPECT_EQ(restarted_server.StartRun(), 5u);
  restarted_server.drill.CopyWorkersOf(workers_at_20);
  restarted_server.drill.MakePushes(20, 60);
  uninterrupted_server.drill.MakePushes(21, 60);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(restarted_server.drill.weights_of(rank), uninterrupted_server.drill.weights_of(rank));
  EXPECT_EQ(restarted_server.drill.PullAverage(0), uninterrupted_server.drill.PullAverage(0));
}

INSTANTIATE_TEST_SUITE_P(
    All, WithoutRounds,
    testing::Values(std::vector<std::string>{"train.algorithm=dcasgd_a", "exchange.pull=changes",
                                             "exchange.pull_codec=fp16"},
                    std::vector<std::string>{"train.algorithm=softsync", "train.softsync.n=1"},
                    std::vector<std::string>{"train.algorithm=easgd_async",
                                             "train.easgd_async.tau=1"}));

TEST_F(ShardCheckpoints, AreKeptUpToALimit) {
  const auto job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2",
                            "checkpoints.every_steps=5", "checkpoints.shard_keep=4"});
  ClockServer server(*job);
  server.StartRun();
  server.drill.MakePushes(0, 68);
  EXPECT_THAT(CommonStepsOf(server.checkpoints), ElementsAre(10, 15));
  EXPECT_THAT(OwnStepsOf(server.checkpoints), ElementsAre(8, 12, 14, 16));
}

TEST_F(ShardCheckpoints, AServerTakesTheNewestOfEitherKind) {
  const auto job = MakeJob(
      {"train.algorithm=asgd", "checkpoints.shard_every_steps=2", "checkpoints.every_steps=5"});
  ClockServer server(*job);
  server.StartRun();
  server.drill.MakePushes(0, 20);
  EXPECT_THAT(CommonStepsOf(server.checkpoints), ElementsAre(5));
  EXPECT_THAT(OwnStepsOf(server.checkpoints), ElementsAre(2, 4));
  EXPECT_EQ(ClockServer(*job).StartRun(), 5u);
  server.drill.MakePushes(20, 24);
  EXPECT_EQ(ClockServer(*job).StartRun(), 6u);
}

TEST_F(ShardCheckpoints, DamagedOnesAndThoseOfAnotherRunAreMovedAway) {
  const auto job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  {
    ClockServer server(*job);
    server.StartRun();
    server.drill.MakePushes(0, 17);
    EXPECT_THAT(OwnStepsOf(server.checkpoints), ElementsAre(2, 4));
  }
  fs::resize_file(CheckpointPathOf(4), fs::file_size(CheckpointPathOf(4)) / 2);
  {
    ClockServer restarted_server(*job);
    EXPECT_EQ(restarted_server.StartRun(), 2u);
    EXPECT_THAT(OwnStepsOf(restarted_server.checkpoints), ElementsAre(2));
  }
  EXPECT_EQ(FolderNames().size(), 2u) << "the damaged checkpoint is moved to another folder";
  ClockServer server_of_next_run(*job);  // Another run of the same job writes to the same folder.
  EXPECT_EQ(server_of_next_run.StartRun(kRun + 1), 0u);
  EXPECT_EQ(FolderNames().size(), 3u);
  EXPECT_FALSE(fs::exists(CheckpointPathOf(2)));
  EXPECT_THAT(OwnStepsOf(server_of_next_run.checkpoints), IsEmpty());
}

// A job with checkpoints.resume=false ignores checkpoints of earlier runs. But a server that is
// restarted with the same command must continue its own run from checkpoints of both kinds.
TEST_F(ShardCheckpoints, AreUsedByTheirOwnRunEvenIfTheJobMustNotResume) {
  const auto job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2",
                            "checkpoints.every_steps=5", "checkpoints.resume=false"});
  ClockServer server(*job);
  server.StartRun();
  server.drill.MakePushes(0, 24);
  EXPECT_THAT(CommonStepsOf(server.checkpoints), ElementsAre(5));
  ClockServer restarted_server(*job);
  EXPECT_THAT(CommonStepsOf(restarted_server.checkpoints), IsEmpty());
  EXPECT_EQ(restarted_server.checkpoints.Saved().prepared_run, kRun);
  EXPECT_THAT(OwnStepsOf(restarted_server.checkpoints), testing::UnorderedElementsAre(2, 4, 5, 6));
  EXPECT_EQ(restarted_server.StartRun(), 6u);
  EXPECT_THAT(CommonStepsOf(restarted_server.checkpoints), ElementsAre(5));
}

// If the folder has only shard checkpoints of another job, a job can still begin.
TEST_F(ShardCheckpoints, OfAnotherJobDoNotPreventABeginning) {
  const auto first_job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  {
    ClockServer server(*first_job);
    server.StartRun();
    server.drill.MakePushes(0, 9);
  }
  const auto other_job =
      MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2", "seed=9"});
  ClockServer server(*other_job);
  EXPECT_FALSE(server.checkpoints.Saved().unfit.has_sentence());
  EXPECT_EQ(server.StartRun(), 0u);
  EXPECT_EQ(FolderNames().size(), 2u) << "the other job's checkpoints are moved to another folder";
}

// The server process keeps running while all other processes of the job start another run.
TEST_F(ShardCheckpoints, ARunningServerBeginsAnotherRunFromStepZero) {
  const auto job = MakeJob({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  ClockServer server(*job);
  server.StartRun();
  server.drill.MakePushes(0, 18);
  EXPECT_EQ(server.StartRun(kRun + 1), 0u);
  EXPECT_EQ(FolderNames().size(), 2u);
}

// Several pushes may come before the server looks whether a checkpoint is due.
TEST_F(ShardCheckpoints, AreOfTheStepAtWhichTheyWereDue) {
  const auto job = MakeJob(
      {"train.algorithm=asgd", "checkpoints.shard_every_steps=3", "checkpoints.every_steps=5"});
  ClockServer server(*job);
  server.StartRun();
  EXPECT_TRUE(server.checkpoints.WriteIfDue(7));
  EXPECT_FALSE(server.checkpoints.WriteIfDue(5));
  EXPECT_TRUE(server.checkpoints.WriteIfDue(8));
  EXPECT_THAT(CommonStepsOf(server.checkpoints), ElementsAre(5));
  EXPECT_THAT(OwnStepsOf(server.checkpoints), ElementsAre(6));
}

// A server of a job with rounds, and its four workers.
class RoundServer {
 public:
  explicit RoundServer(const setup::Setup& job)
      : job_(job), checkpoints_(job, 0, 1), weights_(InitialWeights(job)) {
    protocol::RoundLane::Options options;
    options.workers = 4;
    auto central = CentralLane::Make(job, 0, 1, options, weights_, RateOf(job), checkpoints_);
    EXPECT_TRUE(central.ok()) << central.status().message();
    central_ = std::move(*central);
    EXPECT_TRUE(central_->BeginRun(kRun).ok());
  }
  // The four workers join. `applied`: the newest round whose result they have.
  void JoinWorkers(uint64_t applied) {
    pb::Members members;
    members.set_epoch(1);
    protocol::Sends sends;
    for (uint32_t rank = 0; rank < 4; ++rank) members.add_incarnations(10 + rank);
    central_->lane().OnMembers(members, &sends);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      pb::Hello hello = job_.hello;
      hello.set_rank(rank);
      hello.set_incarnation(10 + rank);
      hello.set_fresh(applied == 0);
      hello.set_applied(applied);
      central_->lane().OnHello(100 + rank, hello, &sends);
    }
    ASSERT_TRUE(central_->lane().open());
  }
  // All workers push all chunks except the one with index `skipped_chunk`, and apply the answers.
  void MakeRound(uint64_t round, size_t skipped_chunk = SIZE_MAX) {
    const std::vector<float> w = weights_;
    const auto chunks = ChunksOf(job_);
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (uint32_t rank = 0; rank < 4 && i != skipped_chunk; ++rank) {
        protocol::Message message;
        pb::Contribution* contribution = message.head.mutable_push();
        contribution->set_bucket(chunks[i]->bucket);
        contribution->set_chunk(chunks[i]->index);
        contribution->mutable_in_round()->set_round(round);
        contribution->mutable_in_round()->set_applied(round - 1);
        contribution->set_rank(rank);
        contribution->set_incarnation(10 + rank);
        message.payload = EncodePush(job_, *chunks[i], GradientAt(rank, round, w), rank, round);
        protocol::Sends sends;
        central_->lane().OnMessage(100 + rank, message, &sends);
        for (const protocol::Send& send : sends) {
          ASSERT_TRUE(send.message.head.has_sum()) << send.message.head.ShortDebugString();
          if (send.to == 100)
            ApplyServerAnswer(job_, *chunks[i], false, send.message.payload, &weights_);
        }
      }
    }
  }
  // Returns the weights, or their moving average, that worker 0 pulls.
  std::vector<float> PullAsWorker0(bool wants_average) {
    std::vector<float> values(job_.table.total);
    for (const protocol::Chunk* chunk : ChunksOf(job_)) {
      protocol::Message message;
      pb::Contribution* contribution = message.head.mutable_push();
      contribution->set_bucket(chunk->bucket);
      contribution->set_chunk(chunk->index);
      contribution->set_incarnation(10);
      if (wants_average) {
        contribution->mutable_pull()->mutable_average();
      } else {
        contribution->mutable_pull()->mutable_weights();
      }
      protocol::Sends sends;
      central_->lane().OnMessage(100, message, &sends);
      EXPECT_EQ(sends.size(), 1u);
      const pb::Outcome& outcome = sends.at(0).message.head.sum();
      EXPECT_TRUE(outcome.has_pulled());
      ApplyServerAnswer(job_, *chunk, protocol::HasFp32Payload(outcome), sends[0].message.payload,
                        &values);
    }
    return values;
  }
  CentralLane& central() { return *central_; }
  const LaneCheckpoints& checkpoints() const { return checkpoints_; }
  std::vector<float>& weights() { return weights_; }

 private:
  const setup::Setup& job_;
  LaneCheckpoints checkpoints_;
  std::unique_ptr<CentralLane> central_;
  std::vector<float> weights_;
};

pb::Checkpoint CheckpointAt(uint64_t round) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(kRun);
  checkpoint.set_step(round);
  checkpoint.set_round(round);
  return checkpoint;
}

TEST_F(ShardCheckpoints, AreWrittenWhenAllChunksHaveClosedTheRound) {
  const auto job = MakeJob({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2"});
  RoundServer server(*job);
  server.JoinWorkers(0);
  server.MakeRound(1);
  server.MakeRound(2, 1);  // Nobody pushes chunk 1, so round 2 does not close.
  EXPECT_THAT(OwnStepsOf(server.checkpoints()), IsEmpty());
  EXPECT_EQ(server.central().step(), 1u);
}

// With a window of two rounds, lanes may be two checkpoints apart, so the default of three is few.
TEST_F(ShardCheckpoints, AreKeptUntilAllLanesHaveOneInCommon) {
  const auto job = MakeJob({"train.algorithm=odsgd", "checkpoints.shard_every_steps=1"});
  EXPECT_EQ(job->job.checkpoints().shard_keep(), 3u);
  RoundServer server(*job);
  server.JoinWorkers(0);
  for (uint64_t round = 1; round <= 6; ++round) server.MakeRound(round);
  EXPECT_THAT(OwnStepsOf(server.checkpoints()), ElementsAre(3, 4, 5, 6));
}

class WithRounds : public ShardCheckpoints,
                   public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(WithRounds, TakeAJobBackToTheirRound) {
  std::vector<std::string> overrides = GetParam();
  overrides.insert(overrides.end(), {"train.algorithm=ssgd", "checkpoints.shard_every_steps=4",
                                     "train.optimizer.name=momentum", "evaluation.ema_decay=0.9"});
  const auto job = MakeJob(overrides);
  RoundServer uninterrupted_server(*job);
  uninterrupted_server.JoinWorkers(0);
  std::vector<float> weights_after_round_8, average_after_round_8;
  for (uint64_t round = 1; round <= 13; ++round) {
    uninterrupted_server.MakeRound(round);
    if (round == 8) {
      weights_after_round_8 = uninterrupted_server.weights();
      average_after_round_8 = uninterrupted_server.PullAsWorker0(true);
      EXPECT_THAT(OwnStepsOf(uninterrupted_server.checkpoints()), ElementsAre(4, 8))
          << "the checkpoint of round 8 is on disk";
    }
  }
  EXPECT_THAT(OwnStepsOf(uninterrupted_server.checkpoints()), ElementsAre(4, 8, 12));

  RoundServer restarted_server(*job);
  EXPECT_EQ(restarted_server.central().step(), 0u);
  ASSERT_TRUE(restarted_server.central().GoBack(CheckpointAt(8)).ok());
  EXPECT_EQ(restarted_server.central().step(), 8u);
  EXPECT_THAT(OwnStepsOf(restarted_server.checkpoints()), ElementsAre(4, 8))
      << "the checkpoint of round 12 is not valid any more";
  restarted_server.JoinWorkers(0);  // The workers are new processes without weights.
  EXPECT_EQ(restarted_server.PullAsWorker0(true), average_after_round_8);
  restarted_server.weights() = restarted_server.PullAsWorker0(false);
  EXPECT_EQ(restarted_server.weights(), weights_after_round_8);
  for (uint64_t round = 9; round <= 13; ++round) restarted_server.MakeRound(round);
  EXPECT_EQ(restarted_server.weights(), uninterrupted_server.weights());
}

INSTANTIATE_TEST_SUITE_P(Down, WithRounds,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"exchange.pull_codec=bf16"},
                                         std::vector<std::string>{"exchange.pull=changes",
                                                                  "exchange.pull_codec=fp16"}));

// A lane of a job whose workers exchange after every 10 steps, with the state of one cell.
class LaneOfLocalSteps {
 public:
  LaneOfLocalSteps(const setup::Setup& job, uint64_t steps) : checkpoints_(job, 0, 1) {
    checkpoints_.AddCell(cell_, [this](SavedState* state) {
      state->arrays.push_back({"lost", state_});
    });
    EXPECT_TRUE(checkpoints_.Begin(kRun).ok());
    checkpoints_.SetSteps(steps);
  }
  void CloseRounds(uint64_t last) {
    for (uint64_t round = 1; round <= last; ++round) checkpoints_.OnRoundClosed(cell_, round);
  }
  LaneCheckpoints& checkpoints() { return checkpoints_; }

 private:
  const protocol::Cell cell_{protocol::Kind::kPush, 0, 0};
  std::vector<float> state_ = {1, 2};
  LaneCheckpoints checkpoints_;
};

// The workers' last checkpoint is that of step 20, because the last round, of five steps, is no
// place from which a longer job can go on.
TEST_F(ShardCheckpoints, TheLastIsThatOfTheWorkersIfTheLastRoundIsCutShort) {
  const auto job = MakeJob({"train.parameters=localized", "train.algorithm=pqasgd",
                            "train.pqasgd.p=10", "checkpoints.every_steps=100"});
  LaneOfLocalSteps lane(*job, 25);
  lane.CloseRounds(3);
  EXPECT_THAT(CommonStepsOf(lane.checkpoints()), ElementsAre(20));
  EXPECT_TRUE(lane.checkpoints().FinishAt(20).ok());
  EXPECT_THAT(CommonStepsOf(lane.checkpoints()), ElementsAre(20));
}

TEST_F(ShardCheckpoints, TheLastIsOfTheStepThatShard0Names) {
  const auto job = MakeJob({"train.parameters=localized", "train.algorithm=pqasgd",
                            "train.pqasgd.p=10", "checkpoints.every_steps=100"});
  LaneOfLocalSteps lane(*job, 30);
  lane.CloseRounds(3);
  EXPECT_TRUE(lane.checkpoints().FinishAt(20).ok());
  EXPECT_THAT(CommonStepsOf(lane.checkpoints()), IsEmpty()) << "the state is that of step 30";
  EXPECT_TRUE(lane.checkpoints().FinishAt(30).ok());
  EXPECT_THAT(CommonStepsOf(lane.checkpoints()), ElementsAre(30));
}

TEST_F(ShardCheckpoints, GoingBackToAMissingOneChangesNothing) {
  const auto job = MakeJob({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2"});
  RoundServer server(*job);
  server.JoinWorkers(0);
  for (uint64_t round = 1; round <= 3; ++round) server.MakeRound(round);
  EXPECT_EQ(server.central().GoBack(CheckpointAt(3)).code(), Code::kBadData);
  EXPECT_EQ(server.central().step(), 3u);
  EXPECT_THAT(OwnStepsOf(server.checkpoints()), ElementsAre(2));
  EXPECT_EQ(server.checkpoints().failure().code(), Code::kBadData) << "so the shard leaves the job";
  EXPECT_THAT(server.checkpoints().failure().message(), testing::HasSubstr("step.3.safetensors"));
}

TEST_F(ShardCheckpoints, ThatCannotBeWrittenAreCounted) {
  const auto job = MakeJob({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2"});
  RoundServer server(*job);
  server.JoinWorkers(0);
  server.MakeRound(1);
  fs::remove_all(dir_ / "checkpoints");
  std::ofstream(dir_ / "checkpoints").flush();  // a file, where the server needs a folder
  for (uint64_t round = 2; round <= 4; ++round) server.MakeRound(round);
  EXPECT_EQ(server.checkpoints().num_failed(), 2u);
  EXPECT_EQ(server.checkpoints().Saved().num_failed, 2u);
}

TEST_F(ShardCheckpoints, AreNotNeededToGoBackToTheBeginning) {
  const auto job = MakeJob({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2",
                            "train.optimizer.name=momentum", "exchange.pull_codec=bf16"});
  RoundServer server(*job);
  server.JoinWorkers(0);
  for (uint64_t round = 1; round <= 5; ++round) server.MakeRound(round);
  const std::vector<float> weights_after_round_5 = server.weights();
  ASSERT_TRUE(server.central().GoBack(std::nullopt).ok());
  EXPECT_THAT(OwnStepsOf(server.checkpoints()), IsEmpty());
  EXPECT_EQ(FolderNames().size(), 2u) << "earlier checkpoints are moved to another folder";
  EXPECT_FALSE(server.central().lane().open());
  server.JoinWorkers(0);
  server.weights() = server.PullAsWorker0(false);
  EXPECT_EQ(server.weights(), InitialWeights(*job))
      << "the initial weights are sent without rounding";
  for (uint64_t round = 1; round <= 5; ++round) server.MakeRound(round);
  EXPECT_EQ(server.weights(), weights_after_round_5);
  EXPECT_THAT(OwnStepsOf(server.checkpoints()), ElementsAre(2, 4));
}

}  // namespace
}  // namespace tern::server

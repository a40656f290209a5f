// Tests of a server's own checkpoints. All processes of a job write checkpoints after the same
// steps; a server that holds the weights writes more of its own in between (shard checkpoints).
// Tests how a server continues from them, with and without rounds. A lane is the protocol object of
// one server socket.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/text.h"
#include "common/protocol/rounds/forms.h"
#include "server/lane_checkpoints.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kRun = 77;

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

  std::unique_ptr<setup::Setup> Job(std::vector<std::string> overrides) {
    overrides.push_back("output_dir=" + dir_.string());
    return CentralJob(overrides);
  }
  // Returns the sorted names of the server's checkpoint folder and of the folders to which the
  // server has moved checkpoints that it cannot use.
  std::vector<std::string> Folders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "checkpoints"))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path Path(uint64_t step) const {
    return dir_ / "checkpoints" / "shard.0.lane.1" / Cat("step.", step, ".safetensors");
  }

  const fs::path dir_;
};

// A server of a job without rounds, with its checkpoints.
struct ClockServer {
  explicit ClockServer(const setup::Setup& job)
      : checkpoints(job, 0, 1), drill(job, &checkpoints) {}
  // Begins or continues a run (one execution of a job); returns the step from which the server
  // continues.
  uint64_t Begin(uint64_t run = kRun) {
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
  const auto job = Job(overrides);
  ClockServer uninterrupted(*job);
  EXPECT_EQ(uninterrupted.Begin(), 0u);
  uninterrupted.drill.PushOn(0, 21);  // A checkpoint is written after push 20.
  EXPECT_THAT(OwnStepsOf(uninterrupted.checkpoints), ElementsAre(5u));
  EXPECT_THAT(CommonStepsOf(uninterrupted.checkpoints), IsEmpty());

  ClockDrill before(*job);  // Has the workers' state after push 20.
  before.PushOn(0, 20);
  ClockServer restarted(*job);
  EXPECT_EQ(restarted.Begin(), 5u);
  restarted.drill.TakeWorkersOf(before);
  restarted.drill.PushOn(20, 60);
  uninterrupted.drill.PushOn(21, 60);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(restarted.drill.held(rank), uninterrupted.drill.held(rank));
  EXPECT_EQ(restarted.drill.PullAverage(0), uninterrupted.drill.PullAverage(0));
}

INSTANTIATE_TEST_SUITE_P(
    All, WithoutRounds,
    testing::Values(std::vector<std::string>{"train.algorithm=dcasgd_a", "exchange.pull=changes",
                                             "exchange.pull_codec=fp16"},
                    std::vector<std::string>{"train.algorithm=softsync", "train.softsync.n=1"},
                    std::vector<std::string>{"train.algorithm=easgd_async",
                                             "train.easgd_async.tau=1"}));

TEST_F(ShardCheckpoints, AreKeptUpToALimit) {
  const auto job = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2",
                        "checkpoints.every_steps=5", "checkpoints.shard_keep=4"});
  ClockServer process(*job);
  process.Begin();
  process.drill.PushOn(0, 68);
  EXPECT_THAT(CommonStepsOf(process.checkpoints), ElementsAre(10, 15));
  EXPECT_THAT(OwnStepsOf(process.checkpoints), ElementsAre(8, 12, 14, 16));
}

TEST_F(ShardCheckpoints, AServerTakesTheNewestOfEitherKind) {
  const auto job =
      Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2", "checkpoints.every_steps=5"});
  ClockServer process(*job);
  process.Begin();
  process.drill.PushOn(0, 20);
  EXPECT_THAT(CommonStepsOf(process.checkpoints), ElementsAre(5));
  EXPECT_THAT(OwnStepsOf(process.checkpoints), ElementsAre(2, 4));
  EXPECT_EQ(ClockServer(*job).Begin(), 5u);
  process.drill.PushOn(20, 24);
  EXPECT_EQ(ClockServer(*job).Begin(), 6u);
}

TEST_F(ShardCheckpoints, DamagedOnesAndThoseOfAnotherRunAreMovedAway) {
  const auto job = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  {
    ClockServer process(*job);
    process.Begin();
    process.drill.PushOn(0, 17);
    EXPECT_THAT(OwnStepsOf(process.checkpoints), ElementsAre(2, 4));
  }
  fs::resize_file(Path(4), fs::file_size(Path(4)) / 2);
  {
    ClockServer restarted(*job);
    EXPECT_EQ(restarted.Begin(), 2u);
    EXPECT_THAT(OwnStepsOf(restarted.checkpoints), ElementsAre(2));
  }
  EXPECT_EQ(Folders().size(), 2u) << "the damaged checkpoint is moved to another folder";
  ClockServer fresh(*job);  // Another run of the same job writes to the same folder.
  EXPECT_EQ(fresh.Begin(kRun + 1), 0u);
  EXPECT_EQ(Folders().size(), 3u);
  EXPECT_FALSE(fs::exists(Path(2)));
  EXPECT_THAT(OwnStepsOf(fresh.checkpoints), IsEmpty());
}

// A job with checkpoints.resume=false ignores checkpoints of earlier runs. But a server that is
// restarted with the same command must continue its own run from checkpoints of both kinds.
TEST_F(ShardCheckpoints, AreUsedByTheirOwnRunEvenIfTheJobMustNotResume) {
  const auto job = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2",
                        "checkpoints.every_steps=5", "checkpoints.resume=false"});
  ClockServer process(*job);
  process.Begin();
  process.drill.PushOn(0, 24);
  EXPECT_THAT(CommonStepsOf(process.checkpoints), ElementsAre(5));
  ClockServer restarted(*job);
  EXPECT_THAT(CommonStepsOf(restarted.checkpoints), IsEmpty());
  EXPECT_THAT(OwnStepsOf(restarted.checkpoints), testing::UnorderedElementsAre(2, 4, 5, 6));
  EXPECT_EQ(restarted.Begin(), 6u);
  EXPECT_THAT(CommonStepsOf(restarted.checkpoints), ElementsAre(5));
}

// If the folder has only shard checkpoints of another job, a job can still begin.
TEST_F(ShardCheckpoints, OfAnotherJobDoNotPreventABeginning) {
  const auto first_job = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  {
    ClockServer process(*first_job);
    process.Begin();
    process.drill.PushOn(0, 9);
  }
  const auto other = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2", "seed=9"});
  ClockServer process(*other);
  EXPECT_FALSE(process.checkpoints.Saved().unfit.has_sentence());
  EXPECT_EQ(process.Begin(), 0u);
  EXPECT_EQ(Folders().size(), 2u) << "the other job's checkpoints are moved to another folder";
}

// The server process keeps running while all other processes of the job start another run.
TEST_F(ShardCheckpoints, ARunningServerBeginsAnotherRunFromStepZero) {
  const auto job = Job({"train.algorithm=asgd", "checkpoints.shard_every_steps=2"});
  ClockServer process(*job);
  process.Begin();
  process.drill.PushOn(0, 18);
  EXPECT_EQ(process.Begin(kRun + 1), 0u);
  EXPECT_EQ(Folders().size(), 2u);
}

// A server of a job with rounds, and its four workers.
class RoundServer {
 public:
  explicit RoundServer(const setup::Setup& job)
      : job_(job), checkpoints_(job, 0, 1), held_(InitialWeights(job)) {
    protocol::RoundLane::Options options;
    options.workers = 4;
    auto made = CentralLane::Make(job, 0, 1, options, held_, RateOf(job), checkpoints_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    central_ = std::move(*made);
    EXPECT_TRUE(central_->BeginRun(kRun).ok());
  }
  // The four workers join. `applied`: the newest round whose result they have.
  void Join(uint64_t applied) {
    pb::Members members;
    members.set_epoch(1);
    protocol::Sends out;
    for (uint32_t rank = 0; rank < 4; ++rank) members.add_incarnations(10 + rank);
    central_->lane().OnMembers(members, &out);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      pb::Hello hello = job_.hello;
      hello.set_rank(rank);
      hello.set_incarnation(10 + rank);
      hello.set_fresh(applied == 0);
      hello.set_applied(applied);
      central_->lane().OnHello(100 + rank, hello, &out);
    }
    ASSERT_TRUE(central_->lane().open());
  }
  // All workers push all chunks except `skip_chunk`, and apply the answers.
  void Round(uint64_t round, size_t skip_chunk = SIZE_MAX) {
    const std::vector<float> w = held_;
    const auto chunks = ChunksOf(job_);
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (uint32_t rank = 0; rank < 4 && i != skip_chunk; ++rank) {
        protocol::Message message;
        pb::Contribution* c = message.head.mutable_push();
        c->set_bucket(chunks[i]->bucket);
        c->set_chunk(chunks[i]->index);
        c->mutable_in_round()->set_round(round);
        c->mutable_in_round()->set_applied(round - 1);
        c->set_rank(rank);
        c->set_incarnation(10 + rank);
        message.payload = EncodePush(job_, *chunks[i], GradientAt(rank, round, w), rank, round);
        protocol::Sends out;
        central_->lane().OnMessage(100 + rank, message, &out);
        for (const protocol::Send& send : out) {
          ASSERT_TRUE(send.message.head.has_sum()) << send.message.head.ShortDebugString();
          if (send.to == 100) TakeAnswer(job_, *chunks[i], false, send.message.payload, &held_);
        }
      }
    }
  }
  // Returns the weights, or their moving average, that worker 0 pulls.
  std::vector<float> Pull(bool average) {
    std::vector<float> values(job_.table.total);
    for (const protocol::Chunk* chunk : ChunksOf(job_)) {
      protocol::Message message;
      pb::Contribution* c = message.head.mutable_push();
      c->set_bucket(chunk->bucket);
      c->set_chunk(chunk->index);
      c->set_incarnation(10);
      if (average) {
        c->mutable_pull()->mutable_average();
      } else {
        c->mutable_pull()->mutable_weights();
      }
      protocol::Sends out;
      central_->lane().OnMessage(100, message, &out);
      EXPECT_EQ(out.size(), 1u);
      const pb::Outcome& outcome = out.at(0).message.head.sum();
      EXPECT_TRUE(outcome.has_pulled());
      TakeAnswer(job_, *chunk, protocol::IsWhole(outcome), out[0].message.payload, &values);
    }
    return values;
  }
  CentralLane& central() { return *central_; }
  const LaneCheckpoints& checkpoints() const { return checkpoints_; }
  std::vector<float>& held() { return held_; }

 private:
  const setup::Setup& job_;
  LaneCheckpoints checkpoints_;
  std::unique_ptr<CentralLane> central_;
  std::vector<float> held_;
};

pb::Checkpoint At(uint64_t round) {
  pb::Checkpoint checkpoint;
  checkpoint.set_run(kRun);
  checkpoint.set_step(round);
  checkpoint.set_round(round);
  return checkpoint;
}

TEST_F(ShardCheckpoints, AreWrittenWhenAllChunksHaveClosedTheRound) {
  const auto job = Job({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2"});
  RoundServer lane(*job);
  lane.Join(0);
  lane.Round(1);
  lane.Round(2, 1);  // Nobody pushes chunk 1, so round 2 does not close.
  EXPECT_THAT(OwnStepsOf(lane.checkpoints()), IsEmpty());
  EXPECT_EQ(lane.central().step(), 1u);
}

class WithRounds : public ShardCheckpoints,
                   public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(WithRounds, TakeAJobBackToTheirRound) {
  std::vector<std::string> overrides = GetParam();
  overrides.insert(overrides.end(), {"train.algorithm=ssgd", "checkpoints.shard_every_steps=4",
                                     "train.optimizer.name=momentum", "evaluation.ema_decay=0.9"});
  const auto job = Job(overrides);
  RoundServer uninterrupted(*job);
  uninterrupted.Join(0);
  std::vector<float> at8, average8;
  for (uint64_t round = 1; round <= 13; ++round) {
    uninterrupted.Round(round);
    if (round == 8) {
      at8 = uninterrupted.held();
      average8 = uninterrupted.Pull(true);
      EXPECT_THAT(OwnStepsOf(uninterrupted.checkpoints()), ElementsAre(4, 8))
          << "the checkpoint of round 8 is on disk";
    }
  }
  EXPECT_THAT(OwnStepsOf(uninterrupted.checkpoints()), ElementsAre(4, 8, 12));

  RoundServer restarted(*job);
  EXPECT_EQ(restarted.central().step(), 0u);
  ASSERT_TRUE(restarted.central().GoBack(At(8)).ok());
  EXPECT_EQ(restarted.central().step(), 8u);
  EXPECT_THAT(OwnStepsOf(restarted.checkpoints()), ElementsAre(4, 8))
      << "the checkpoint of round 12 is not valid any more";
  restarted.Join(0);  // The workers are new processes without weights.
  EXPECT_EQ(restarted.Pull(true), average8);
  restarted.held() = restarted.Pull(false);
  EXPECT_EQ(restarted.held(), at8);
  for (uint64_t round = 9; round <= 13; ++round) restarted.Round(round);
  EXPECT_EQ(restarted.held(), uninterrupted.held());
}

INSTANTIATE_TEST_SUITE_P(Down, WithRounds,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"exchange.pull_codec=bf16"},
                                         std::vector<std::string>{"exchange.pull=changes",
                                                                  "exchange.pull_codec=fp16"}));

TEST_F(ShardCheckpoints, GoingBackToAMissingOneChangesNothing) {
  const auto job = Job({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2"});
  RoundServer lane(*job);
  lane.Join(0);
  for (uint64_t round = 1; round <= 3; ++round) lane.Round(round);
  EXPECT_EQ(lane.central().GoBack(At(3)).code(), Code::kBadData);
  EXPECT_EQ(lane.central().step(), 3u);
  EXPECT_THAT(OwnStepsOf(lane.checkpoints()), ElementsAre(2));
}

TEST_F(ShardCheckpoints, AreNotNeededToGoBackToTheBeginning) {
  const auto job = Job({"train.algorithm=ssgd", "checkpoints.shard_every_steps=2",
                        "train.optimizer.name=momentum", "exchange.pull_codec=bf16"});
  RoundServer lane(*job);
  lane.Join(0);
  for (uint64_t round = 1; round <= 5; ++round) lane.Round(round);
  const std::vector<float> at5 = lane.held();
  ASSERT_TRUE(lane.central().GoBack(std::nullopt).ok());
  EXPECT_THAT(OwnStepsOf(lane.checkpoints()), IsEmpty());
  EXPECT_EQ(Folders().size(), 2u) << "earlier checkpoints are moved to another folder";
  EXPECT_FALSE(lane.central().lane().open());
  lane.Join(0);
  lane.held() = lane.Pull(false);
  EXPECT_EQ(lane.held(), InitialWeights(*job)) << "the initial weights are sent without rounding";
  for (uint64_t round = 1; round <= 5; ++round) lane.Round(round);
  EXPECT_EQ(lane.held(), at5);
  EXPECT_THAT(OwnStepsOf(lane.checkpoints()), ElementsAre(2, 4));
}

}  // namespace
}  // namespace tern::server

#include "server/snapshot.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kRun = 77;

// A folder of its own, gone at the end.
class Snapshots : public testing::Test {
 protected:
  Snapshots()
      : dir_(fs::path(testing::TempDir()) /
             ("tern_snapshots_" + std::to_string(getpid()) + "_" + std::to_string(std::rand()))) {
    fs::create_directories(dir_);
  }
  ~Snapshots() override { fs::remove_all(dir_); }

  std::unique_ptr<setup::Setup> Job(std::vector<std::string> overrides) {
    overrides.push_back("output_dir=" + dir_.string());
    return CentralJob(overrides);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  const fs::path dir_;
};

class SnapshotsWithoutRounds : public Snapshots,
                               public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(SnapshotsWithoutRounds, HoldAllThatAServerGoesOnFrom) {
  std::vector<std::string> overrides = GetParam();
  overrides.insert(overrides.end(), {"faults.snapshot_every_steps=5",
                                     "train.optimizer.name=momentum", "evaluation.ema_decay=0.9"});
  const auto job = Job(overrides);
  ClockDrill whole(*job);
  EXPECT_EQ(whole.central().BeginRun(kRun), "");
  whole.PushOn(0, 21);  // in the middle of a clock; the snapshot is of push 20
  whole.central().Flush();
  ASSERT_THAT(ListSnapshots(whole.central().owner()), testing::Contains(5u));

  ClockDrill before(*job);  // the workers, at the moment of the snapshot
  before.PushOn(0, 20);
  ClockDrill restarted(*job);
  EXPECT_THAT(restarted.central().BeginRun(kRun), HasSubstr("snapshot of step 5"));
  EXPECT_EQ(restarted.central().step(), 5u);
  restarted.TakeWorkersOf(before);
  restarted.PushOn(20, 60);
  whole.PushOn(21, 60);
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(restarted.held(rank), whole.held(rank));
  EXPECT_EQ(restarted.PullAverage(0), whole.PullAverage(0));
}

INSTANTIATE_TEST_SUITE_P(
    All, SnapshotsWithoutRounds,
    testing::Values(std::vector<std::string>{"train.algorithm=dcasgd_a", "exchange.pull=changes",
                                             "exchange.pull_codec=fp16"},
                    std::vector<std::string>{"train.algorithm=softsync", "train.softsync.n=1"},
                    std::vector<std::string>{"train.algorithm=easgd_async",
                                             "train.easgd_async.tau=1"}));

TEST_F(Snapshots, AreTheNewestTwo) {
  const auto job = Job({"train.algorithm=asgd", "faults.snapshot_every_steps=2"});
  ClockDrill drill(*job);
  drill.central().BeginRun(kRun);
  drill.PushOn(0, 40);
  drill.central().Flush();
  EXPECT_THAT(Files(), ElementsAre("server.0.lane.1.10.snapshot", "server.0.lane.1.8.snapshot"));
}

TEST_F(Snapshots, OfAnotherRunOrJobOrHalfWrittenAreNotTakenUp) {
  const auto job = Job({"train.algorithm=asgd", "faults.snapshot_every_steps=2"});
  {
    ClockDrill drill(*job);
    drill.central().BeginRun(kRun);
    drill.PushOn(0, 17);
  }
  SnapshotOwner owner{dir_.string(), 0, 1, job->hello.job_digest(), kRun};
  EXPECT_THAT(ListSnapshots(owner), ElementsAre(2, 4));
  fs::resize_file(SnapshotPath(owner, 4), fs::file_size(SnapshotPath(owner, 4)) / 2);
  EXPECT_THAT(ListSnapshots(owner), ElementsAre(2));
  std::ofstream(SnapshotPath(owner, 6)) << "not a snapshot";
  std::ofstream(SnapshotPath(owner, 8) + ".tmp.123") << "half";
  std::ofstream(dir_ / "server.0.lane.12.8.snapshot") << "of another lane";
  EXPECT_THAT(ListSnapshots(owner), ElementsAre(2));
  SnapshotOwner other = owner;
  other.job_digest ^= 1;
  EXPECT_THAT(ListSnapshots(other), IsEmpty());
  other = owner;
  other.run = 0;
  EXPECT_THAT(ListSnapshots(other), IsEmpty());

  ClockDrill restarted(*job);
  EXPECT_THAT(restarted.central().BeginRun(kRun), HasSubstr("step 2"));
  EXPECT_EQ(restarted.central().RollBackTo(6).code(), Code::kBadData);
  EXPECT_THAT(Files(), ElementsAre("server.0.lane.1.2.snapshot", "server.0.lane.12.8.snapshot"));

  ClockDrill fresh(*job);  // another run of the same job, into the same folder
  EXPECT_EQ(fresh.central().BeginRun(kRun + 1), "");
  EXPECT_EQ(fresh.central().step(), 0u);
  EXPECT_THAT(Files(), ElementsAre("server.0.lane.12.8.snapshot"));
}

TEST_F(Snapshots, OfAnotherModelChangeNothing) {
  const auto small = Job({"train.algorithm=asgd", "faults.snapshot_every_steps=2"});
  {
    ClockDrill drill(*small);
    drill.central().BeginRun(kRun);
    drill.PushOn(0, 9);
  }
  const auto more = Job({"train.algorithm=dcasgd_c", "faults.snapshot_every_steps=2"});
  more->hello.set_job_digest(small->hello.job_digest());
  ClockDrill drill(*more);
  EXPECT_THAT(drill.central().BeginRun(kRun),
              testing::AllOf(HasSubstr("initial weights"), HasSubstr("backup.0")));
  drill.Pull(0);
  EXPECT_EQ(drill.held(0), InitialWeights(*more));
}

// A synchronous lane with its protocol machine: what four workers push, and the answers.
class SynchronousLane {
 public:
  explicit SynchronousLane(const setup::Setup& job) : job_(job), held_(InitialWeights(job)) {
    protocol::RoundLane::Options options;
    options.workers = 4;
    auto made = CentralLane::Make(job, 0, 1, options, held_, RateOf(job));
    EXPECT_TRUE(made.ok()) << made.status().message();
    central_ = std::move(*made);
    central_->BeginRun(kRun);
  }
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
  void Round(uint64_t round, size_t skip_chunk = SIZE_MAX) {
    const std::vector<float> w = held_;
    const auto chunks = ChunksOf(job_);
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (uint32_t rank = 0; rank < 4 && i != skip_chunk; ++rank) {
        protocol::Message message;
        pb::Contribution* c = message.head.mutable_push();
        c->set_bucket(chunks[i]->bucket);
        c->set_chunk(chunks[i]->index);
        c->set_round(round);
        c->set_applied(round - 1);
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
  // What a worker that goes back gets.
  std::vector<float> Pull(bool average) {
    std::vector<float> values(job_.table.total);
    for (const protocol::Chunk* chunk : ChunksOf(job_)) {
      protocol::Message message;
      pb::Contribution* c = message.head.mutable_push();
      c->set_bucket(chunk->bucket);
      c->set_chunk(chunk->index);
      c->set_incarnation(10);
      c->set_pull_only(true);
      c->set_average(average);
      protocol::Sends out;
      central_->lane().OnMessage(100, message, &out);
      EXPECT_EQ(out.size(), 1u);
      const pb::Outcome& outcome = out.at(0).message.head.sum();
      EXPECT_TRUE(outcome.pulled());
      TakeAnswer(job_, *chunk, outcome.whole(), out[0].message.payload, &values);
    }
    return values;
  }
  CentralLane& central() { return *central_; }
  std::vector<float>& held() { return held_; }

 private:
  const setup::Setup& job_;
  std::unique_ptr<CentralLane> central_;
  std::vector<float> held_;
};

TEST_F(Snapshots, AreWrittenWhenAllCellsHaveClosedTheRound) {
  const auto job = Job({"train.algorithm=ssgd", "faults.snapshot_every_steps=2"});
  SynchronousLane lane(*job);
  lane.Join(0);
  lane.Round(1);
  lane.Round(2, 1);  // one cell has not closed it
  lane.central().Flush();
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(lane.central().step(), 1u);
}

class SynchronousSnapshots : public Snapshots,
                             public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(SynchronousSnapshots, TakeAJobBackToTheirRound) {
  std::vector<std::string> overrides = GetParam();
  overrides.insert(overrides.end(), {"train.algorithm=ssgd", "faults.snapshot_every_steps=4",
                                     "train.optimizer.name=momentum", "evaluation.ema_decay=0.9"});
  const auto job = Job(overrides);
  SynchronousLane whole(*job);
  whole.Join(0);
  std::vector<float> at8, average8;
  for (uint64_t round = 1; round <= 13; ++round) {
    whole.Round(round);
    if (round == 8) {
      at8 = whole.held();
      average8 = whole.Pull(true);
    }
    if (round > 8 && round < 12) {  // already on disk
      EXPECT_THAT(SnapshotsOfShard(*job, 0, kRun), ElementsAre(4, 8)) << round;
    }
  }
  EXPECT_THAT(SnapshotsOfShard(*job, 0, kRun), ElementsAre(8, 12));

  SynchronousLane restarted(*job);
  EXPECT_EQ(restarted.central().step(), 0u);
  ASSERT_TRUE(restarted.central().RollBackTo(8).ok());
  EXPECT_THAT(SnapshotsOfShard(*job, 0, kRun), ElementsAre(8));  // the newer one is void
  restarted.Join(0);  // as new incarnations, which hold nothing yet
  EXPECT_EQ(restarted.Pull(true), average8);
  restarted.held() = restarted.Pull(false);
  EXPECT_EQ(restarted.held(), at8);
  for (uint64_t round = 9; round <= 13; ++round) restarted.Round(round);
  EXPECT_EQ(restarted.held(), whole.held());
}

INSTANTIATE_TEST_SUITE_P(Down, SynchronousSnapshots,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"exchange.pull_codec=bf16"},
                                         std::vector<std::string>{"exchange.pull=changes",
                                                                  "exchange.pull_codec=fp16"}));

TEST_F(Snapshots, AreNotNeededToGoBackToTheBeginning) {
  const auto job = Job({"train.algorithm=ssgd", "faults.snapshot_every_steps=2",
                        "train.optimizer.name=momentum", "exchange.pull_codec=bf16"});
  SynchronousLane lane(*job);
  lane.Join(0);
  for (uint64_t round = 1; round <= 5; ++round) lane.Round(round);
  const std::vector<float> at5 = lane.held();
  ASSERT_TRUE(lane.central().RollBackTo(0).ok());
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_FALSE(lane.central().lane().open());
  lane.Join(0);
  lane.held() = lane.Pull(false);
  EXPECT_EQ(lane.held(), InitialWeights(*job)) << "not rounded on the way down";
  for (uint64_t round = 1; round <= 5; ++round) lane.Round(round);
  EXPECT_EQ(lane.held(), at5);
  lane.central().Flush();
  EXPECT_THAT(SnapshotsOfShard(*job, 0, kRun), ElementsAre(2, 4));
}

}  // namespace
}  // namespace tern::server

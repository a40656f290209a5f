// Tests how a data lane (the protocol object of one server socket) of a job whose workers hold the
// weights begins a new run: its process goes on, while shard 0 and all workers are new. The codec
// is onebit, of which the server keeps a residual: what one round's sum lost, the next has.
#include "server/data_lane.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

constexpr uint64_t kRun = 77;  // identifies the first execution of the job

// The lane, and the four workers of the newest run.
class Drill {
 public:
  explicit Drill(const setup::Setup& job) : job_(job) {
    auto lane = DataLane::Make(job, 0, 1, DataLane::OptionsOf(job, 0, 1, 7));
    EXPECT_TRUE(lane.ok()) << lane.status().message();
    lane_ = std::move(*lane);
  }

  // Workers without state join the run; their incarnations follow `run`. `beginning`: as in
  // Members; 0: unset.
  void Join(uint64_t run, uint64_t beginning) {
    run_ = run;
    pb::Members members;
    members.set_epoch(++epoch_);
    members.set_steps(40);
    members.set_run(run);
    if (beginning != 0) members.set_beginning(beginning);
    for (uint32_t rank = 0; rank < 4; ++rank) members.add_incarnations(IncarnationOf(rank));
    protocol::Sends sends;
    lane_->OnMembers(members, &sends);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      protocol::Message message;
      *message.head.mutable_hello() = job_.hello;
      message.head.mutable_hello()->set_rank(rank);
      message.head.mutable_hello()->set_incarnation(IncarnationOf(rank));
      lane_->OnMessage(100 + rank, message, &sends);
    }
  }
  const DataLane& lane() const { return *lane_; }
  // All workers push all chunks in each of these rounds. Returns the answers to worker 0.
  std::vector<std::string> MakeRounds(uint64_t first, uint64_t last) {
    std::vector<std::string> answers;
    for (uint64_t round = first; round <= last; ++round) {
      for (const protocol::Chunk* chunk : ChunksOf(job_)) {
        for (uint32_t rank = 0; rank < 4; ++rank) Push(*chunk, rank, round, &answers);
      }
    }
    return answers;
  }

 private:
  uint64_t IncarnationOf(uint32_t rank) const { return 10 * run_ + rank; }
  void Push(const protocol::Chunk& chunk, uint32_t rank, uint64_t round,
            std::vector<std::string>* answers) {
    protocol::Message message;
    pb::Contribution* push = message.head.mutable_push();
    push->set_bucket(chunk.bucket);
    push->set_chunk(chunk.index);
    push->mutable_in_round()->set_round(round);
    push->mutable_in_round()->set_applied(round - 1);
    push->set_rank(rank);
    push->set_incarnation(IncarnationOf(rank));
    const std::vector<float> zeros(job_.table.total);
    message.payload = EncodePush(job_, chunk, GradientAt(rank, round, zeros), rank, round);
    protocol::Sends sends;
    lane_->OnMessage(100 + rank, message, &sends);
    for (const protocol::Send& send : sends) {
      EXPECT_TRUE(send.message.head.has_sum()) << send.message.head.ShortDebugString();
      if (send.to == 100) answers->emplace_back(send.message.payload.view());
    }
  }

  const setup::Setup& job_;
  std::unique_ptr<DataLane> lane_;
  uint64_t run_ = 0, epoch_ = 0;
};

// Each test has its own folder, which is deleted at the end.
class LocalizedLane : public testing::TestWithParam<uint64_t> {
 protected:
  LocalizedLane()
      : dir_(std::filesystem::path(testing::TempDir()) /
             ("tern_data_lane_" + std::to_string(getpid()))) {}
  ~LocalizedLane() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<setup::Setup> MakeJob(const std::string& every_steps) const {
    return MakeCentralJob({"train.parameters=localized", "exchange.codec=onebit",
                           "checkpoints.every_steps=" + every_steps,
                           "output_dir=" + dir_.string()});
  }

  const std::filesystem::path dir_;
};

// Parameter: the beginning that shard 0 names in the next run. A job without checkpoints has none.
TEST_P(LocalizedLane, BeginsTheNextRunOfItsJobAsANewProcessDoes) {
  const auto job = MakeJob(GetParam() == 0 ? "0" : "10");
  Drill drill(*job);
  drill.Join(kRun, GetParam());
  const std::vector<std::string> answers = drill.MakeRounds(1, 4);
  ASSERT_EQ(answers.size(), 4 * ChunksOf(*job).size());
  const uint64_t next_beginning = GetParam() == 0 ? 0 : GetParam() + 1;
  drill.Join(kRun + 1, next_beginning);
  EXPECT_EQ(drill.MakeRounds(1, 4), answers);
}

INSTANTIATE_TEST_SUITE_P(All, LocalizedLane, testing::Values(0, 5));

// A new epoch of the same run, as at each change of the membership, changes nothing.
TEST_F(LocalizedLane, GoesOnWithItsRun) {
  const auto job = MakeJob("0");
  Drill undisturbed(*job), drill(*job);
  undisturbed.Join(kRun, 0);
  drill.Join(kRun, 0);
  undisturbed.MakeRounds(1, 2);
  drill.MakeRounds(1, 2);
  drill.Join(kRun, 0);
  EXPECT_EQ(drill.MakeRounds(3, 4), undisturbed.MakeRounds(3, 4));
}

// Shard 0 named no checkpoint when this run began. So a new process of the lane, to which it says
// the same again, still has the checkpoints of the run.
TEST_F(LocalizedLane, KeepsItsCheckpointsWhereANewProcessLearnsOfTheBeginning) {
  const auto job = MakeJob("2");
  {
    Drill drill(*job);
    drill.Join(kRun, 5);
    drill.MakeRounds(1, 5);
  }
  const auto num_saved = [&job](bool joins) {
    Drill drill(*job);
    if (joins) drill.Join(kRun, 5);
    return drill.lane().Saved()->checkpoints.size();
  };
  EXPECT_EQ(num_saved(false), 2u);
  EXPECT_EQ(num_saved(true), 2u);
}

// A shard's key may speak for a shard only, so it must not take the place of a worker.
TEST_F(LocalizedLane, RefusesServerShards) {
  const auto job = MakeJob("0");
  auto lane = DataLane::Make(*job, 0, 1, DataLane::OptionsOf(*job, 0, 1, 7));
  ASSERT_TRUE(lane.ok()) << lane.status().message();
  protocol::Message message;
  *message.head.mutable_hello() = job->hello;
  message.head.mutable_hello()->set_role(pb::Hello::shard);
  message.head.mutable_hello()->set_incarnation(10);
  protocol::Sends sends;
  (*lane)->OnMessage(100, message, &sends);
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends.front().message.head.refuse().code(), static_cast<uint32_t>(Code::kNotAllowed));
  EXPECT_EQ(sends.front().message.head.refuse().then(), pb::Refuse::leave);
}

}  // namespace
}  // namespace tern::server

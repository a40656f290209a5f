// Tests of Replica, a worker's copy of the model and optimizer, and of ReplicaState, which
// serializes it.
#include <gtest/gtest.h>

#include <filesystem>

#include "client/train/replica_state.h"
#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"
#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

// Makes one step of the optimizer and of the moving average.
void MakeOptimizerStep(Replica* replica, const std::vector<float>& g, const update::Step& step) {
  replica->optimizer().Update(replica->parameters(), g.data(), 0, g.size(), step, {});
  replica->UpdateMovingAverage(0, g.size(), step.number);
}

// Makes `rounds` updates with made-up gradients.
void TrainWithMadeUpGradients(Replica* replica, uint64_t num_elements, uint64_t rounds) {
  std::vector<float> g(num_elements);
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint64_t i = 0; i < num_elements; ++i)
      g[i] = static_cast<float>((i * 7 + round * 13) % 11) - 5;
    MakeOptimizerStep(replica, g, {0.01, round});
  }
}

TEST(Replica, InitialWeightsAreAFunctionOfTheSeed) {
  const auto job = SmallJob();
  const auto job_of_other_seed = SmallJob({"seed=2"});
  EXPECT_EQ((*Replica::Make(*job))->Hash(), (*Replica::Make(*job))->Hash());
  EXPECT_NE((*Replica::Make(*job))->Hash(), (*Replica::Make(*job_of_other_seed))->Hash());
}

TEST(Replica, ContinuesFromAStateBitForBit) {
  const auto job = SmallJob({"evaluation.ema_decay=0.99"});
  auto original = std::move(*Replica::Make(*job));
  TrainWithMadeUpGradients(original.get(), job->table.total, 3);
  auto restored = std::move(*Replica::Make(*job));
  ASSERT_TRUE(ReplicaState(*job, *restored).Load(ReplicaState(*job, *original).Save(3)).ok());
  EXPECT_EQ(original->Hash(), restored->Hash());
  // The state contains momentum and the moving average, so the next rounds give equal results, too.
  TrainWithMadeUpGradients(original.get(), job->table.total, 2);
  TrainWithMadeUpGradients(restored.get(), job->table.total, 2);
  EXPECT_EQ(original->Hash(), restored->Hash());
  EXPECT_EQ(ReplicaState(*job, *original).Save(5), ReplicaState(*job, *restored).Save(5));
}

const std::vector<std::string> kWithOuterMomentum = {
    "train.algorithm=psgd", "train.psgd.at_sync=average", "train.psgd.outer.name=momentum",
    "train.optimizer.name=adam", "evaluation.ema_decay=0.99"};

TEST(Replica, StateIsAtMostMaxBytes) {
  for (const auto& job : {SmallJob({"evaluation.ema_decay=0.99"}), SmallJob(kWithOuterMomentum)}) {
    auto replica = std::move(*Replica::Make(*job));
    EXPECT_LE(ReplicaState(*job, *replica).Save(1).size(), ReplicaState::MaxBytes(*job));
  }
}

// Returns the state of the outer optimizer, which has one array.
std::span<float> OuterState(Replica* replica) {
  return replica->outer_optimizer()->StateArrays()[0].values;
}

TEST(Replica, HasAnOuterOptimizerOnlyIfTheJobHas) {
  EXPECT_EQ((*Replica::Make(*SmallJob({"train.algorithm=psgd"})))->outer_optimizer(), nullptr);
  const auto job = SmallJob(kWithOuterMomentum);
  EXPECT_NE((*Replica::Make(*job))->outer_optimizer(), nullptr);
}

// The workers have their own optimizers' state, but the same state of the outer optimizer.
TEST(Replica, EveryStateHasTheOuterOptimizers) {
  const auto job = SmallJob(kWithOuterMomentum);
  auto original = std::move(*Replica::Make(*job));
  for (size_t i = 0; i < job->table.total; ++i)
    OuterState(original.get())[i] = static_cast<float>(i);
  original->ResetOptimizer();  // at_sync: reset
  ReplicaState saved(*job, *original);
  for (const Bytes& state : {saved.Save(3), saved.SaveWeights(3)}) {
    auto restored = std::move(*Replica::Make(*job));
    ASSERT_TRUE(ReplicaState(*job, *restored).Load(state).ok());
    const std::span<float> values = OuterState(restored.get());
    EXPECT_TRUE(std::equal(values.begin(), values.end(), OuterState(original.get()).begin()));
  }
}

TEST(Replica, RefusesAStateWithoutTheOuterOptimizers) {
  const auto job = SmallJob(kWithOuterMomentum);
  const auto job_without = SmallJob({"train.algorithm=psgd", "evaluation.ema_decay=0.99"});
  auto replica = std::move(*Replica::Make(*job));
  auto replica_without = std::move(*Replica::Make(*job_without));
  const Status status = ReplicaState(*job, *replica)
                            .Load(ReplicaState(*job_without, *replica_without).SaveWeights(3));
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("optimizer.outer.momentum."), std::string::npos)
      << status.message();
}

// The job has accepted checkpoints of one with another optimizer and without a moving average.
TEST(Replica, BeginsAnewWithWhatACheckpointHasNot) {
  const auto job = SmallJob(kWithOuterMomentum), job_without = SmallJob({"train.algorithm=psgd"});
  auto replica_without = std::move(*Replica::Make(*job_without));
  TrainWithMadeUpGradients(replica_without.get(), job->table.total, 3);
  const Bytes checkpoint = Bytes::Own(
      tensors::EncodeSafetensors(ReplicaState(*job_without, *replica_without).ViewTensors(), {}));
  auto file = tensors::DecodeSafetensors(checkpoint.view());
  ASSERT_TRUE(file.ok());
  auto replica = std::move(*Replica::Make(*job));
  TrainWithMadeUpGradients(replica.get(), job->table.total, 1);
  OuterState(replica.get())[0] = 1;
  ASSERT_TRUE(ReplicaState(*job, *replica).LoadCheckpointTensors(*file).ok());
  for (const auto& slot : replica->optimizer().StateArrays())
    EXPECT_EQ(slot.values[0], 0) << slot.name;
  EXPECT_EQ(OuterState(replica.get())[0], 0);
  EXPECT_TRUE(std::equal(replica->average().begin(), replica->average().end(),
                         replica_without->parameters()));
}

// What began anew goes on from there: adam's bias corrections count from its first update, also
// where a State or a checkpoint is loaded later.
TEST(Replica, CountsAdamsUpdatesSinceItsStateBegan) {
  const auto job = SmallJob({"train.optimizer.name=adam"}), job_without = SmallJob({});
  auto replica_without = std::move(*Replica::Make(*job_without));
  const Bytes checkpoint = Bytes::Own(
      tensors::EncodeSafetensors(ReplicaState(*job_without, *replica_without).ViewTensors(), {}));
  auto file = tensors::DecodeSafetensors(checkpoint.view());
  ASSERT_TRUE(file.ok());
  auto replica = std::move(*Replica::Make(*job));
  EXPECT_EQ(replica->state_begins().BeginOf(0, 412), 0u);
  ASSERT_TRUE(ReplicaState(*job, *replica).LoadCheckpointTensors(*file).ok());
  EXPECT_EQ(replica->state_begins().BeginOf(0, 412), 411u);
  EXPECT_EQ(replica->state_begins().BeginOf(0, 413), 411u);
  ReplicaState saved(*job, *replica);
  auto with_state = std::move(*Replica::Make(*job)),
       without_state = std::move(*Replica::Make(*job));
  ASSERT_TRUE(ReplicaState(*job, *with_state).Load(saved.Save(500)).ok());
  EXPECT_EQ(with_state->state_begins().BeginOf(0, 501), 411u);
  ASSERT_TRUE(ReplicaState(*job, *without_state).Load(saved.SaveWeights(500)).ok());
  EXPECT_EQ(without_state->state_begins().BeginOf(0, 501), 500u);
}

TEST(Replica, RefusesStateOfAnotherModel) {
  const auto job = SmallJob();
  auto replica = std::move(*Replica::Make(*job));
  const Status status =
      ReplicaState(*job, *replica).Load(Bytes::Own(std::string("not a state at all")));
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_NE(status.message().find("state sent by another worker"), std::string::npos);
}

TEST(Replica, AveragesTheWeightsAsTensorFlowDoes) {
  const auto job = SmallJob({"evaluation.ema_decay=0.9999", "train.optimizer.name=sgd"});
  auto replica = std::move(*Replica::Make(*job));
  double expected_average = replica->parameters()[0];
  double w = expected_average;
  const std::vector<float> g(job->table.total, 1.f);
  for (uint64_t t = 0; t < 20; ++t) {
    MakeOptimizerStep(replica.get(), g, {0.5, t + 1});
    w -= 0.5;
    const double decay =
        std::min(0.9999, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
    expected_average = decay * expected_average + (1 - decay) * w;
  }
  EXPECT_NEAR(replica->evaluated_weights()[0], expected_average, 1e-4);
}

TEST(Replica, WritesWeightsThatReadBack) {
  const auto job = SmallJob();
  auto replica = std::move(*Replica::Make(*job));
  const std::string folder = testing::TempDir() + "/tern_weights";
  ASSERT_TRUE(ReplicaState(*job, *replica).WriteWeights(folder, 7).ok());
  auto file = tensors::ReadSafetensors(folder + "/weights.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->metadata["step"], "7");
  std::vector<float> arena(job->table.total);
  ASSERT_TRUE(models::LoadArena(*file, job->table, arena.data()).ok());
  EXPECT_TRUE(std::equal(arena.begin(), arena.end(), replica->parameters()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tern::client

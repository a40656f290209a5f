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
void Update(Replica* replica, const std::vector<float>& g, const update::Step& step) {
  replica->optimizer().Update(replica->parameters(), g.data(), 0, g.size(), step, 0);
  replica->Average(0, g.size(), step.number);
}

// Makes `rounds` updates with made-up gradients.
void TrainALittle(Replica* replica, uint64_t total, uint64_t rounds) {
  std::vector<float> g(total);
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint64_t i = 0; i < total; ++i) g[i] = static_cast<float>((i * 7 + round * 13) % 11) - 5;
    Update(replica, g, {0.01, round});
  }
}

TEST(Replica, InitialWeightsAreAFunctionOfTheSeed) {
  const auto job = SmallJob();
  const auto other = SmallJob({"seed=2"});
  EXPECT_EQ((*Replica::Make(*job))->Hash(), (*Replica::Make(*job))->Hash());
  EXPECT_NE((*Replica::Make(*job))->Hash(), (*Replica::Make(*other))->Hash());
}

TEST(Replica, ContinuesFromAStateBitForBit) {
  const auto job = SmallJob({"evaluation.ema_decay=0.99"});
  auto first = std::move(*Replica::Make(*job));
  TrainALittle(first.get(), job->table.total, 3);
  auto second = std::move(*Replica::Make(*job));
  ASSERT_TRUE(ReplicaState(*job, *second).Load(ReplicaState(*job, *first).Save(3)).ok());
  EXPECT_EQ(first->Hash(), second->Hash());
  // The state contains momentum and the moving average, so the next rounds give equal results, too.
  TrainALittle(first.get(), job->table.total, 2);
  TrainALittle(second.get(), job->table.total, 2);
  EXPECT_EQ(first->Hash(), second->Hash());
  EXPECT_EQ(ReplicaState(*job, *first).Save(5), ReplicaState(*job, *second).Save(5));
}

TEST(Replica, StateIsAtMostMaxBytes) {
  const auto job = SmallJob({"evaluation.ema_decay=0.99"});
  auto replica = std::move(*Replica::Make(*job));
  EXPECT_LE(ReplicaState(*job, *replica).Save(1).size(), ReplicaState::MaxBytes(*job));
}

TEST(Replica, RefusesStateOfAnotherModel) {
  const auto job = SmallJob();
  auto replica = std::move(*Replica::Make(*job));
  const Status loaded =
      ReplicaState(*job, *replica).Load(Bytes::Own(std::string("not a state at all")));
  EXPECT_EQ(loaded.code(), Code::kBadData);
  EXPECT_NE(loaded.message().find("state sent by another worker"), std::string::npos);
}

TEST(Replica, AveragesTheWeightsAsTensorFlowDoes) {
  const auto job = SmallJob({"evaluation.ema_decay=0.9999", "train.optimizer.name=sgd"});
  auto replica = std::move(*Replica::Make(*job));
  double expected = replica->parameters()[0];
  double w = expected;
  const std::vector<float> g(job->table.total, 1.f);
  for (uint64_t t = 0; t < 20; ++t) {
    Update(replica.get(), g, {0.5, t + 1});
    w -= 0.5;
    const double decay =
        std::min(0.9999, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
    expected = decay * expected + (1 - decay) * w;
  }
  EXPECT_NEAR(replica->evaluated()[0], expected, 1e-4);
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

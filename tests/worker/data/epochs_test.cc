#include "worker/data/epochs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tern::data {
namespace {

constexpr uint32_t kRanks = 3;

std::vector<Epochs> Ranks(uint64_t images, uint32_t batch, pb::Data::Partition partition,
                          pb::Data::EpochEnd end, std::vector<pb::BatchGrowth> growth = {}) {
  std::vector<Epochs> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    auto epochs = Epochs::Make({rank, kRanks, batch, partition, end, growth, images});
    EXPECT_TRUE(epochs.ok()) << epochs.status().message();
    ranks.push_back(std::move(*epochs));
  }
  return ranks;
}

// How often the steps of epoch 1 use each (rank's sequence, sample).
std::map<std::pair<uint32_t, uint64_t>, int> TakenInEpochOne(const std::vector<Epochs>& ranks,
                                                             bool shared) {
  std::map<std::pair<uint32_t, uint64_t>, int> taken;
  const uint64_t steps = ranks[0].steps_per_epoch();
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    for (uint64_t step = steps; step < 2 * steps; ++step) {
      const EpochSlice slice = ranks[rank].At(step);
      EXPECT_EQ(slice.epoch, 1u);
      for (uint64_t i = 0; i < slice.count; ++i)
        ++taken[{shared ? 0 : rank, (slice.begin + i) % ranks[rank].epoch_length()}];
    }
  }
  return taken;
}

TEST(Epochs, DropLastUsesOnlyWholeSteps) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto ranks = Ranks(32, 6, partition, pb::Data::drop_last);
    EXPECT_EQ(ranks[0].steps_per_epoch(), 5u);  // 32 / 6; 10 / 2 for the shortest sequence
    const auto taken = TakenInEpochOne(ranks, partition == pb::Data::shared);
    EXPECT_EQ(taken.size(), 30u);
    for (const auto& [sample, times] : taken) EXPECT_EQ(times, 1);
  }
}

TEST(Epochs, PadRepeatsTheFirstSamples) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto ranks = Ranks(32, 6, partition, pb::Data::pad);
    EXPECT_EQ(ranks[0].steps_per_epoch(), 6u);
    const auto taken = TakenInEpochOne(ranks, partition == pb::Data::shared);
    EXPECT_EQ(taken.size(), 32u);
    int all = 0;
    for (const auto& [sample, times] : taken) all += times;
    EXPECT_EQ(all, 36);
  }
}

TEST(Epochs, LeaveGivesShortRanksNoSamples) {
  const auto shared = Ranks(32, 6, pb::Data::shared, pb::Data::leave);
  EXPECT_EQ(shared[0].steps_per_epoch(), 6u);
  EXPECT_EQ(shared[0].At(5).count, 2u) << "30 and 31";
  EXPECT_EQ(shared[1].At(5).count, 0u);
  EXPECT_EQ(shared[1].At(6).count, 2u) << "the next epoch";
  // Ranks own 12, 11 and 11 samples and take 2 per step.
  const auto owned = Ranks(34, 6, pb::Data::by_sample, pb::Data::leave);
  EXPECT_EQ(owned[0].steps_per_epoch(), 6u);
  EXPECT_EQ(owned[0].At(5).count, 2u);
  EXPECT_EQ(owned[2].At(5).count, 0u);
  for (const Epochs& rank : owned) EXPECT_EQ(rank.At(6).epoch, 1u);
}

TEST(Epochs, EveryRankHasTheSameSteps) {
  for (const auto end : {pb::Data::wrap, pb::Data::drop_last, pb::Data::pad, pb::Data::leave}) {
    for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
      const auto ranks = Ranks(34, 6, partition, end);
      std::set<uint64_t> steps;
      for (const Epochs& rank : ranks) steps.insert(rank.StepsOf(2.5));
      EXPECT_EQ(steps.size(), 1u) << end;
    }
  }
}

TEST(Epochs, BatchesGrowWithoutLosingOrRepeatingASample) {
  pb::BatchGrowth growth;
  growth.set_at_epoch(1);
  growth.set_batch_total(12);
  const auto ranks = Ranks(36, 6, pb::Data::shared, pb::Data::wrap, {growth});
  EXPECT_EQ(ranks[0].StepsOf(1), 6u);
  EXPECT_EQ(ranks[0].StepsOf(3), 6u + 6u);
  EXPECT_EQ(ranks[0].At(5).count, 2u);
  EXPECT_EQ(ranks[0].At(6).count, 4u);
  std::map<std::pair<uint64_t, uint64_t>, int> taken;
  for (const Epochs& rank : ranks) {
    for (uint64_t step = 0; step < 12; ++step) {
      const EpochSlice slice = rank.At(step);
      for (uint64_t i = 0; i < slice.count; ++i) ++taken[{slice.epoch, slice.begin + i}];
    }
  }
  EXPECT_EQ(taken.size(), 3u * 36);
  for (const auto& [sample, times] : taken) EXPECT_EQ(times, 1);
}

TEST(Epochs, RefusesAGrownBatchThatDoesNotDivide) {
  pb::BatchGrowth growth;
  growth.set_at_epoch(1);
  growth.set_batch_total(13);
  const auto epochs = Epochs::Make({0, kRanks, 6, pb::Data::shared, pb::Data::wrap, {growth}, 100});
  EXPECT_EQ(epochs.status().code(), Code::kBadJob);
}

}  // namespace
}  // namespace tern::data

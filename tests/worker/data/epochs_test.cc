#include "worker/data/epochs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tern::data {
namespace {

constexpr uint32_t kRankCount = 3;

std::vector<Epochs> MakeEpochs(uint64_t images, uint32_t batch, pb::Data::Partition partition,
                               pb::Data::EpochEnd end, std::vector<pb::BatchGrowth> growth = {}) {
  std::vector<Epochs> ranks;
  for (uint32_t rank = 0; rank < kRankCount; ++rank) {
    auto epochs = Epochs::Make({rank, kRankCount, batch, partition, end, growth, images});
    EXPECT_TRUE(epochs.ok()) << epochs.status().message();
    ranks.push_back(std::move(*epochs));
  }
  return ranks;
}

// How often the steps of epoch 1 use each sample; the key is (rank whose own samples these are, or
// 0 if the ranks share all samples; position of the sample).
std::map<std::pair<uint32_t, uint64_t>, int> UsesInEpochOne(const std::vector<Epochs>& ranks,
                                                            bool shared) {
  std::map<std::pair<uint32_t, uint64_t>, int> uses;
  const uint64_t steps = ranks[0].steps_per_epoch();
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    for (uint64_t step = steps; step < 2 * steps; ++step) {
      const EpochSlice slice = ranks[rank].At(step);
      EXPECT_EQ(slice.epoch, 1u);
      for (uint64_t i = 0; i < slice.count; ++i)
        ++uses[{shared ? 0 : rank, (slice.begin + i) % ranks[rank].epoch_length()}];
    }
  }
  return uses;
}

TEST(Epochs, DropLastUsesOnlyWholeSteps) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto ranks = MakeEpochs(32, 6, partition, pb::Data::drop_last);
    EXPECT_EQ(ranks[0].steps_per_epoch(), 5u);  // shared: 32 / 6; by_sample: 10 / 2
    const auto uses = UsesInEpochOne(ranks, partition == pb::Data::shared);
    EXPECT_EQ(uses.size(), 30u);
    for (const auto& [sample, times] : uses) EXPECT_EQ(times, 1);
  }
}

TEST(Epochs, PadRepeatsTheFirstSamples) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto ranks = MakeEpochs(32, 6, partition, pb::Data::pad);
    EXPECT_EQ(ranks[0].steps_per_epoch(), 6u);
    const auto uses = UsesInEpochOne(ranks, partition == pb::Data::shared);
    EXPECT_EQ(uses.size(), 32u);
    int total_uses = 0;
    for (const auto& [sample, times] : uses) total_uses += times;
    EXPECT_EQ(total_uses, 36);
  }
}

TEST(Epochs, LeaveGivesShortRanksNoSamples) {
  const auto shared_ranks = MakeEpochs(32, 6, pb::Data::shared, pb::Data::leave);
  EXPECT_EQ(shared_ranks[0].steps_per_epoch(), 6u);
  EXPECT_EQ(shared_ranks[0].At(5).count, 2u) << "30 and 31";
  EXPECT_EQ(shared_ranks[1].At(5).count, 0u);
  EXPECT_EQ(shared_ranks[1].At(6).count, 2u) << "the next epoch";
  // Ranks own 12, 11 and 11 samples and take 2 per step.
  const auto owned_ranks = MakeEpochs(34, 6, pb::Data::by_sample, pb::Data::leave);
  EXPECT_EQ(owned_ranks[0].steps_per_epoch(), 6u);
  EXPECT_EQ(owned_ranks[0].At(5).count, 2u);
  EXPECT_EQ(owned_ranks[2].At(5).count, 0u);
  for (const Epochs& rank : owned_ranks) EXPECT_EQ(rank.At(6).epoch, 1u);
}

TEST(Epochs, EveryRankHasTheSameSteps) {
  for (const auto epoch_end :
       {pb::Data::wrap, pb::Data::drop_last, pb::Data::pad, pb::Data::leave}) {
    for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
      const auto ranks = MakeEpochs(34, 6, partition, epoch_end);
      std::set<uint64_t> different_steps;
      for (const Epochs& rank : ranks) different_steps.insert(rank.StepsOf(2.5));
      EXPECT_EQ(different_steps.size(), 1u) << epoch_end;
    }
  }
}

TEST(Epochs, BatchesGrowWithoutLosingOrRepeatingASample) {
  pb::BatchGrowth growth_at_epoch_1;
  growth_at_epoch_1.set_at_epoch(1);
  growth_at_epoch_1.set_batch_total(12);
  const auto ranks = MakeEpochs(36, 6, pb::Data::shared, pb::Data::wrap, {growth_at_epoch_1});
  EXPECT_EQ(ranks[0].StepsOf(1), 6u);
  EXPECT_EQ(ranks[0].StepsOf(3), 6u + 6u);
  EXPECT_EQ(ranks[0].At(5).count, 2u);
  EXPECT_EQ(ranks[0].At(6).count, 4u);
  std::map<std::pair<uint64_t, uint64_t>, int> uses;
  for (const Epochs& rank : ranks) {
    for (uint64_t step = 0; step < 12; ++step) {
      const EpochSlice slice = rank.At(step);
      for (uint64_t i = 0; i < slice.count; ++i) ++uses[{slice.epoch, slice.begin + i}];
    }
  }
  EXPECT_EQ(uses.size(), 3u * 36);
  for (const auto& [sample, times] : uses) EXPECT_EQ(times, 1);
}

TEST(Epochs, RefusesAGrownBatchThatDoesNotDivide) {
  pb::BatchGrowth growth_at_epoch_1;
  growth_at_epoch_1.set_at_epoch(1);
  growth_at_epoch_1.set_batch_total(13);
  const auto epochs =
      Epochs::Make({0, kRankCount, 6, pb::Data::shared, pb::Data::wrap, {growth_at_epoch_1}, 100});
  EXPECT_EQ(epochs.status().code(), Code::kBadJob);
}

}  // namespace
}  // namespace tern::data

#include "worker/data/epochs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace tern::data {
namespace {

constexpr uint32_t kRankCount = 3;

std::vector<Epochs> MakeEpochs(uint64_t images, uint32_t batch, pb::Data::Partition partition,
                               pb::Data::EpochEnd epoch_end,
                               std::vector<pb::BatchGrowth> growth = {}) {
  std::vector<Epochs> epochs_by_rank;
  for (uint32_t rank = 0; rank < kRankCount; ++rank) {
    auto epochs = Epochs::Make({rank, kRankCount, batch, partition, epoch_end, growth, images});
    EXPECT_TRUE(epochs.ok()) << epochs.status().message();
    epochs_by_rank.push_back(std::move(*epochs));
  }
  return epochs_by_rank;
}

// How often the steps of epoch 1 use each sample. The key is the rank that owns the sample (0 if
// the ranks share all samples), and the position of the sample in the epoch.
std::map<std::pair<uint32_t, uint64_t>, int> UsesInEpochOne(
    const std::vector<Epochs>& epochs_by_rank, bool ranks_share_samples) {
  std::map<std::pair<uint32_t, uint64_t>, int> uses_by_sample;
  const uint64_t num_steps = epochs_by_rank[0].steps_per_epoch();
  for (uint32_t rank = 0; rank < epochs_by_rank.size(); ++rank) {
    for (uint64_t step = num_steps; step < 2 * num_steps; ++step) {
      const EpochSlice slice = epochs_by_rank[rank].SliceAt(step);
      EXPECT_EQ(slice.epoch, 1u);
      for (uint64_t i = 0; i < slice.count; ++i)
        ++uses_by_sample[{ranks_share_samples ? 0 : rank,
                          (slice.begin + i) % epochs_by_rank[rank].epoch_length()}];
    }
  }
  return uses_by_sample;
}

TEST(Epochs, DropLastUsesOnlyWholeSteps) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto epochs_by_rank = MakeEpochs(32, 6, partition, pb::Data::drop_last);
    // Shared: 32 / 6, rounded down. By sample: 10 / 2, as one of the ranks owns only 10.
    EXPECT_EQ(epochs_by_rank[0].steps_per_epoch(), 5u);
    const auto uses_by_sample = UsesInEpochOne(epochs_by_rank, partition == pb::Data::shared);
    EXPECT_EQ(uses_by_sample.size(), 30u);
    for (const auto& [sample, times] : uses_by_sample) EXPECT_EQ(times, 1);
  }
}

TEST(Epochs, PadRepeatsTheFirstSamples) {
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto epochs_by_rank = MakeEpochs(32, 6, partition, pb::Data::pad);
    EXPECT_EQ(epochs_by_rank[0].steps_per_epoch(), 6u);
    const auto uses_by_sample = UsesInEpochOne(epochs_by_rank, partition == pb::Data::shared);
    EXPECT_EQ(uses_by_sample.size(), 32u);
    int total_uses = 0;
    for (const auto& [sample, times] : uses_by_sample) total_uses += times;
    EXPECT_EQ(total_uses, 36);
  }
}

TEST(Epochs, LeaveGivesShortRanksNoSamples) {
  const auto epochs_of_shared_samples = MakeEpochs(32, 6, pb::Data::shared, pb::Data::leave);
  EXPECT_EQ(epochs_of_shared_samples[0].steps_per_epoch(), 6u);
  EXPECT_EQ(epochs_of_shared_samples[0].SliceAt(5).count, 2u) << "30 and 31";
  EXPECT_EQ(epochs_of_shared_samples[1].SliceAt(5).count, 0u);
  EXPECT_EQ(epochs_of_shared_samples[1].SliceAt(6).count, 2u) << "the next epoch";
  // Ranks own 12, 11 and 11 samples and take 2 per step.
  const auto epochs_of_owned_samples = MakeEpochs(34, 6, pb::Data::by_sample, pb::Data::leave);
  EXPECT_EQ(epochs_of_owned_samples[0].steps_per_epoch(), 6u);
  EXPECT_EQ(epochs_of_owned_samples[0].SliceAt(5).count, 2u);
  EXPECT_EQ(epochs_of_owned_samples[2].SliceAt(5).count, 0u);
  for (const Epochs& epochs : epochs_of_owned_samples) EXPECT_EQ(epochs.SliceAt(6).epoch, 1u);
}

TEST(Epochs, EveryRankHasTheSameSteps) {
  for (const auto epoch_end :
       {pb::Data::wrap, pb::Data::drop_last, pb::Data::pad, pb::Data::leave}) {
    for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
      const auto epochs_by_rank = MakeEpochs(34, 6, partition, epoch_end);
      std::set<uint64_t> distinct_step_counts;
      for (const Epochs& epochs : epochs_by_rank) distinct_step_counts.insert(epochs.StepsOf(2.5));
      EXPECT_EQ(distinct_step_counts.size(), 1u) << epoch_end;
    }
  }
}

TEST(Epochs, BatchesGrowWithoutLosingOrRepeatingASample) {
  std::vector<pb::BatchGrowth> growth(2);
  growth[0].set_at_epoch(1);
  growth[0].set_batch_total(12);
  growth[1].set_at_epoch(2);
  growth[1].set_batch_total(18);
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const auto epochs_by_rank = MakeEpochs(36, 6, partition, pb::Data::wrap, growth);
    EXPECT_EQ(epochs_by_rank[0].StepsOf(1), 6u);
    EXPECT_EQ(epochs_by_rank[0].StepsOf(3), 6u + 3u + 2u);
    EXPECT_EQ(epochs_by_rank[0].SliceAt(5).count, 2u);
    EXPECT_EQ(epochs_by_rank[0].SliceAt(6).count, 4u);
    EXPECT_EQ(epochs_by_rank[0].SliceAt(9).count, 6u);
    // (rank, if each has samples of its own; epoch; position in the epoch)
    std::map<std::tuple<uint32_t, uint64_t, uint64_t>, int> uses_by_sample;
    for (uint32_t rank = 0; rank < kRankCount; ++rank) {
      for (uint64_t step = 0; step < 11; ++step) {
        const EpochSlice slice = epochs_by_rank[rank].SliceAt(step);
        for (uint64_t i = 0; i < slice.count; ++i)
          ++uses_by_sample[{partition == pb::Data::shared ? 0 : rank, slice.epoch,
                            slice.begin + i}];
      }
    }
    EXPECT_EQ(uses_by_sample.size(), 3u * 36);
    for (const auto& [sample, times] : uses_by_sample) EXPECT_EQ(times, 1);
  }
}

TEST(Epochs, OfAJobWithLateJoinersAreThoseOfAllRanks) {
  pb::Job job;
  job.mutable_workers()->set_count(2);
  job.mutable_workers()->set_max(3);
  job.mutable_train()->set_batch_total(8);
  pb::BatchGrowth& growth = *job.mutable_train()->add_batch_growth();
  growth.set_at_epoch(1);
  growth.set_batch_total(16);
  Epochs::Options options = Epochs::OptionsOf(job);
  options.num_images = 24;
  std::map<uint64_t, int> uses_by_sample;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    const auto epochs = Epochs::Make(options);
    ASSERT_TRUE(epochs.ok()) << epochs.status().message();
    EXPECT_EQ(epochs->steps_per_epoch(), 2u);
    EXPECT_EQ(epochs->SliceAt(2).count, 8u);  // Of the second epoch, in which batches have grown.
    for (uint64_t step = 0; step < 2; ++step) {
      const EpochSlice slice = epochs->SliceAt(step);
      EXPECT_EQ(slice.epoch, 0u);
      EXPECT_EQ(slice.count, 4u);
      for (uint64_t i = 0; i < slice.count; ++i) ++uses_by_sample[slice.begin + i];
    }
  }
  EXPECT_EQ(uses_by_sample.size(), 24u);
  for (const auto& [sample, times] : uses_by_sample) EXPECT_EQ(times, 1) << sample;
}

TEST(Epochs, RefusesAGrownBatchThatDoesNotDivide) {
  pb::BatchGrowth growth_at_epoch_1;
  growth_at_epoch_1.set_at_epoch(1);
  growth_at_epoch_1.set_batch_total(13);
  const auto epochs =
      Epochs::Make({0, kRankCount, 6, pb::Data::shared, pb::Data::wrap, {growth_at_epoch_1}, 100});
  EXPECT_EQ(epochs.status().code(), Code::kBadJob);
}

TEST(StepsOfJob, AreThoseOfTheKeyOrOfTheEpochs) {
  const Epochs epochs = MakeEpochs(100, 6, pb::Data::shared, pb::Data::wrap)[0];
  pb::Job job;
  job.mutable_train()->set_epochs(3);
  EXPECT_EQ(*StepsOfJob(job, epochs), 50u);
  job.mutable_train()->set_steps(7);
  EXPECT_EQ(*StepsOfJob(job, epochs), 7u);
}

TEST(StepsOfJob, AreEnoughForLookahead) {
  const Epochs epochs = MakeEpochs(100, 6, pb::Data::shared, pb::Data::wrap)[0];
  pb::Job job;
  job.mutable_train()->set_algorithm("ssgd");
  job.mutable_train()->set_epochs(3);
  job.mutable_train()->mutable_ssgd()->mutable_lookahead()->set_every_steps(50);
  EXPECT_TRUE(StepsOfJob(job, epochs).ok());
  job.mutable_train()->mutable_ssgd()->mutable_lookahead()->set_every_steps(51);
  const Status status = StepsOfJob(job, epochs).status();
  EXPECT_EQ(status.code(), Code::kBadJob);
  EXPECT_EQ(status.message().find("train.ssgd.lookahead.every_steps: saw 51; allowed: at most 50"),
            0u)
      << status.message();
}

}  // namespace
}  // namespace tern::data

#include "worker/data/batches.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/worker/data/idx_files.h"
#include "worker/data/order.h"

namespace tern::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Batches MakeBatches(const Samples& samples, const Epochs::Options& options, uint64_t seed = 1) {
  auto batches = Batches::Make(samples, options, seed);
  EXPECT_TRUE(batches.ok()) << batches.status().message();
  return std::move(*batches);
}

std::vector<uint64_t> IndicesOf(Batches& batches, uint64_t step) {
  std::vector<uint64_t> indices;
  for (const auto& sample : batches.SamplesAt(step)) indices.push_back(sample.index);
  return indices;
}

// The samples of a step over all ranks, in rank order.
std::vector<uint64_t> SamplesOfStep(std::vector<Batches>& batches_by_rank, uint64_t step) {
  std::vector<uint64_t> indices;
  for (Batches& batches : batches_by_rank) {
    for (const uint64_t index : IndicesOf(batches, step)) indices.push_back(index);
  }
  return indices;
}

std::vector<Batches> MakeBatchesByRank(const Samples& samples, Epochs::Options options,
                                       uint64_t seed = 1) {
  std::vector<Batches> batches_by_rank;
  for (options.rank = 0; options.rank < options.workers; ++options.rank) {
    batches_by_rank.push_back(MakeBatches(samples, options, seed));
  }
  return batches_by_rank;
}

// The expected orders were computed by an implementation in another language, written from the
// descriptions in order.h and philox.h.
TEST(EpochPermutation, MatchesGoldenOrder) {
  EXPECT_THAT(EpochPermutation(1, 0, 0, 12), ElementsAre(2, 6, 11, 8, 5, 3, 4, 0, 7, 9, 10, 1));
  EXPECT_THAT(EpochPermutation(1, 0, 1, 12), ElementsAre(6, 4, 10, 0, 3, 9, 2, 1, 8, 5, 11, 7));
  EXPECT_THAT(EpochPermutation(2, 0, 0, 12), ElementsAre(8, 1, 2, 4, 0, 6, 7, 10, 3, 9, 11, 5));
  EXPECT_THAT(EpochPermutation(1, 3, 0, 12), ElementsAre(3, 7, 11, 10, 1, 5, 0, 8, 2, 9, 4, 6));
  EXPECT_THAT(EpochPermutation(uint64_t{7} << 32 | 1, 0, 0, 12),
              ElementsAre(6, 0, 9, 2, 10, 8, 3, 4, 11, 5, 1, 7));
  const auto large_order = EpochPermutation(1, 0, 0, 60000);
  EXPECT_THAT(std::vector(large_order.begin(), large_order.begin() + 4),
              ElementsAre(19048, 36570, 54303, 52712));
  EXPECT_THAT(std::vector(large_order.end() - 4, large_order.end()),
              ElementsAre(53009, 55646, 58798, 5498));
}

TEST(EpochPermutation, ContainsEachIndexOnce) {
  for (const uint32_t count : {1u, 2u, 7u, 1000u, 60000u}) {
    auto order = EpochPermutation(5, 0, 9, count);
    ASSERT_EQ(order.size(), count);
    std::sort(order.begin(), order.end());
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(order[i], i);
  }
  EXPECT_TRUE(EpochPermutation(5, 0, 9, 0).empty());
}

// A chi-square test over the 24 orders of 4 elements. With 23 degrees of freedom, the 0.999
// quantile is 49.7. The seed is fixed, so the test always has the same result.
TEST(EpochPermutation, IsUniform) {
  std::map<std::vector<uint32_t>, int> counts;
  constexpr int kNumEpochs = 24'000;
  for (int epoch = 0; epoch < kNumEpochs; ++epoch) ++counts[EpochPermutation(1, 0, epoch, 4)];
  EXPECT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += (count - 1000.) * (count - 1000.) / 1000.;
  EXPECT_LT(chi_square, 49.7);
}

TEST(Batches, SharedSamplesDoNotDependOnWorkers) {
  const auto samples = SmallSamples(50);  // 12 does not divide 50: batches straddle epochs
  std::vector<Batches> batches_of_single_rank =
      MakeBatchesByRank(*samples, {.workers = 1, .batch_total = 12}, 3);
  for (const uint32_t workers : {2u, 3u, 4u}) {
    auto batches_by_rank = MakeBatchesByRank(*samples, {.workers = workers, .batch_total = 12}, 3);
    for (uint64_t step = 0; step < 30; ++step) {
      EXPECT_EQ(SamplesOfStep(batches_by_rank, step), SamplesOfStep(batches_of_single_rank, step))
          << workers << " workers, step " << step;
    }
  }
}

TEST(Batches, SharedUsesEverySampleOncePerEpochAndReshuffles) {
  const auto samples = SmallSamples(50);
  auto batches_by_rank = MakeBatchesByRank(*samples, {.workers = 2, .batch_total = 10}, 3);
  std::vector<std::vector<uint64_t>> epochs(4);
  for (uint64_t step = 0; step < 20; ++step) {
    for (const uint64_t index : SamplesOfStep(batches_by_rank, step))
      epochs[step / 5].push_back(index);
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 50u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(Batches, StraddlesAnEpochWithoutLosingASample) {
  const auto samples = SmallSamples(50);
  auto batches_of_single_rank = MakeBatchesByRank(*samples, {.workers = 1, .batch_total = 12});
  std::map<uint64_t, int> times_seen;  // 25 steps of 12 are 6 epochs of 50
  for (uint64_t step = 0; step < 25; ++step) {
    for (const uint64_t index : SamplesOfStep(batches_of_single_rank, step)) ++times_seen[index];
  }
  EXPECT_EQ(times_seen.size(), 50u);
  for (const auto& [index, times] : times_seen) EXPECT_EQ(times, 6) << index;
}

TEST(Batches, BySampleUsesOnlyAWorkersOwnImages) {
  const auto samples = SmallSamples(50);  // ranks own 17, 17 and 16 images
  auto batches_by_rank = MakeBatchesByRank(
      *samples, {.workers = 3, .batch_total = 12, .partition = pb::Data::by_sample});
  for (uint64_t rank = 0; rank < 3; ++rank) {
    const uint64_t num_owned_images = rank < 2 ? 17 : 16;
    std::map<uint64_t, int> times_seen;
    for (uint64_t step = 0; step < num_owned_images; ++step) {  // 4 a step, each image 4 times
      for (const uint64_t index : IndicesOf(batches_by_rank[rank], step)) {
        ASSERT_EQ(index % 3, rank);
        ++times_seen[index];
      }
    }
    EXPECT_EQ(times_seen.size(), num_owned_images);
    for (const auto& [index, times] : times_seen) EXPECT_EQ(times, 4) << index;
  }
}

TEST(Batches, BySampleEveryWorkerHasAnOrderOfItsOwn) {
  const auto samples = SmallSamples(51);  // each rank owns 17
  auto batches_by_rank = MakeBatchesByRank(
      *samples, {.workers = 3, .batch_total = 51, .partition = pb::Data::by_sample});
  std::set<std::vector<uint64_t>> orders;
  for (Batches& batches : batches_by_rank) {
    std::vector<uint64_t> order = IndicesOf(batches, 0);
    for (uint64_t& index : order) index /= 3;
    orders.insert(std::move(order));
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(Batches, DoNotDependOnTheOrderOfSteps) {
  const auto samples = SmallSamples(50);
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    const Epochs::Options options = {
        .rank = 1, .workers = 2, .batch_total = 12, .partition = partition};
    Batches batches_in_order = MakeBatches(*samples, options);
    std::vector<std::vector<uint64_t>> expected_indices;
    for (uint64_t step = 0; step <= 1000; ++step)
      expected_indices.push_back(IndicesOf(batches_in_order, step));
    Batches batches_at_random = MakeBatches(*samples, options);
    for (const uint64_t step : {1000, 3, 4, 500, 0, 999}) {
      EXPECT_EQ(IndicesOf(batches_at_random, step), expected_indices[step]) << step;
    }
  }
}

TEST(Batches, ByClassDividesTheImagesByLabel) {
  const auto samples = SmallSamples(50);  // labels 0 to 9, five of each; ranks own 17, 17 and 16
  auto batches_by_rank = MakeBatchesByRank(
      *samples, {.workers = 3, .batch_total = 12, .partition = pb::Data::by_class});
  const std::vector<std::set<uint64_t>> labels_of_rank = {{0, 1, 2, 3}, {3, 4, 5, 6}, {6, 7, 8, 9}};
  std::set<uint64_t> seen_images;
  for (uint64_t rank = 0; rank < 3; ++rank) {
    const uint64_t num_owned_images = rank < 2 ? 17 : 16;
    std::map<uint64_t, int> times_seen;
    for (uint64_t step = 0; step < num_owned_images; ++step) {  // 4 a step, each image 4 times
      for (const uint64_t index : IndicesOf(batches_by_rank[rank], step)) {
        ASSERT_TRUE(labels_of_rank[rank].contains(index % 10)) << index << " on " << rank;
        ++times_seen[index];
        seen_images.insert(index);
      }
    }
    EXPECT_EQ(times_seen.size(), num_owned_images);
    for (const auto& [index, times] : times_seen) EXPECT_EQ(times, 4) << index;
  }
  EXPECT_EQ(seen_images.size(), 50u);
}

TEST(Batches, SamplesCarryTheirEpoch) {
  const auto samples = SmallSamples(50);
  Batches batches = MakeBatches(*samples, {.batch_total = 12});
  std::map<std::pair<uint64_t, uint64_t>, int> times_seen;  // 25 steps of 12 are 6 epochs of 50
  for (uint64_t step = 0; step < 25; ++step) {
    for (const auto& sample : batches.SamplesAt(step)) ++times_seen[{sample.epoch, sample.index}];
  }
  EXPECT_EQ(times_seen.size(), 6u * 50);
}

TEST(Batches, AllRanksHaveTheSameStepsPerEpoch) {
  const auto samples = SmallSamples(50);
  std::vector<uint64_t> steps_per_epoch_of_ranks;
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample}) {
    for (Batches& batches :
         MakeBatchesByRank(*samples, {.workers = 3, .batch_total = 12, .partition = partition})) {
      steps_per_epoch_of_ranks.push_back(batches.epochs().steps_per_epoch());
    }
  }
  EXPECT_THAT(steps_per_epoch_of_ranks, Each(4u));
}

TEST(Batches, RejectsABatchThatDoesNotDivide) {
  const auto batches = Batches::Make(*SmallSamples(50), {.workers = 3, .batch_total = 10});
  ASSERT_FALSE(batches.ok());
  EXPECT_EQ(batches.status().code(), Code::kBadJob);
  EXPECT_THAT(batches.status().message(),
              HasSubstr("train.batch_total is 10; expected a multiple of the 3 workers"));
  EXPECT_FALSE(Batches::Make(*SmallSamples(50), {.batch_total = 0}).ok());
}

TEST(Batches, RejectsABatchLargerThanTheSet) {
  EXPECT_TRUE(Batches::Make(*SmallSamples(8), {.batch_total = 8}).ok());
  const auto batches = Batches::Make(*SmallSamples(7), {.batch_total = 8});
  ASSERT_FALSE(batches.ok());
  EXPECT_EQ(batches.status().code(), Code::kBadJob);
  EXPECT_THAT(batches.status().message(),
              HasSubstr("holds 7 images, fewer than train.batch_total (8)"));
}

TEST(Batches, RejectsARankOutOfRange) {
  for (const uint32_t workers : {0u, 2u}) {
    const auto batches =
        Batches::Make(*SmallSamples(50), {.rank = 2, .workers = workers, .batch_total = 2});
    ASSERT_FALSE(batches.ok());
    EXPECT_EQ(batches.status().code(), Code::kBadJob);
  }
}

TEST(DivideSamples, CoversTheSetExactlyInEqualParts) {
  for (const uint64_t count : {0, 1, 5, 10000, 10007}) {
    for (const uint32_t workers : {1u, 2u, 3u, 4u, 8u, 127u}) {
      uint64_t expected_begin = 0;
      for (uint32_t rank = 0; rank < workers; ++rank) {
        const Range rank_range = DivideSamples(count, rank, workers);
        EXPECT_EQ(rank_range.begin, expected_begin);
        EXPECT_GE(rank_range.end - rank_range.begin, count / workers);
        EXPECT_LE(rank_range.end - rank_range.begin, count / workers + 1);
        expected_begin = rank_range.end;
      }
      EXPECT_EQ(expected_begin, count);
    }
  }
}

}  // namespace
}  // namespace tern::data

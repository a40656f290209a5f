#include <gmock/gmock.h>

#include <thread>

#include "tests/data/idx_files.h"
#include "worker/data/batches.h"

namespace tern::data {
namespace {

Batches MakeBatches(const Dataset& dataset) {
  auto batches = Batches::Make(dataset, {.rank = 1, .workers = 2, .batch_total = 12});
  EXPECT_TRUE(batches.ok()) << batches.status().message();
  return std::move(*batches);
}

TEST(Prefetcher, GivesTheBatchesInOrderFromItsFirstStep) {
  const Dataset dataset = SmallDataset(50);
  Batches direct = MakeBatches(dataset);
  for (const int depth : {0, 1, 3, 8}) {
    Prefetcher prefetcher(MakeBatches(dataset), 1000, depth);
    for (uint64_t step = 1000; step < 1100; ++step) {
      const Batch& batch = prefetcher.Next();
      Batch expected;
      direct.Fill(step, &expected);
      ASSERT_EQ(batch.step, step);
      ASSERT_EQ(batch.images, expected.images);
      ASSERT_EQ(batch.labels, expected.labels);
    }
  }
}

// The batch in hand stays as it is while the thread runs as far ahead as it may.
TEST(Prefetcher, LeavesTheBatchInHandAlone) {
  const Dataset dataset = SmallDataset(50);
  Prefetcher prefetcher(MakeBatches(dataset), 0, 1);
  for (int i = 0; i < 200; ++i) {
    const Batch& batch = prefetcher.Next();
    const Batch before = batch;
    std::this_thread::yield();
    ASSERT_EQ(batch.step, before.step);
    ASSERT_EQ(batch.images, before.images);
  }
}

TEST(Prefetcher, StopsAtAnyMoment) {
  const Dataset dataset = SmallDataset(50);
  for (int i = 0; i < 200; ++i) {
    Prefetcher prefetcher(MakeBatches(dataset), 7, 1 + i % 3);
    for (int taken = 0; taken < i % 7; ++taken) prefetcher.Next();
  }
}

}  // namespace
}  // namespace tern::data

#include "worker/data/prefetcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/worker/data/idx_files.h"
#include "worker/data/batches.h"

namespace tern::data {
namespace {

constexpr char kAugmentation[] =
    "standardize: true augmentation { pad: 1 random_crop: true mirror: true brightness: 60 "
    "contrast_min: 0.5 contrast_max: 2 }";

Prefetcher::SamplePlan MakeSamplePlan(const Samples& samples) {
  auto batches = Batches::Make(samples, {.rank = 1, .workers = 2, .batch_total = 44});
  EXPECT_TRUE(batches.ok()) << batches.status().message();
  return [batches = std::move(*batches)](uint64_t step) mutable { return batches.SamplesAt(step); };
}

// The expected batch of a step, filled image by image without a prefetcher.
Batch ExpectedBatch(const Samples& samples, uint64_t step) {
  Batch batch;
  batch.step = step;
  Samples::Scratch scratch;
  for (const auto& sample : MakeSamplePlan(samples)(step)) {
    std::vector<float> image(samples.image_size());
    uint32_t label = 0;
    EXPECT_TRUE(samples.FillFloats(sample, &scratch, image.data(), &label).ok());
    batch.images.insert(batch.images.end(), image.begin(), image.end());
    batch.labels.push_back(label);
  }
  return batch;
}

TEST(Prefetcher, BatchesDoNotDependOnThreads) {
  const auto samples = SmallSamples(50, ParseData(kAugmentation));
  for (const auto& [threads, depth] : {std::pair{1u, 0u}, {1u, 3u}, {2u, 1u}, {3u, 3u}, {8u, 8u}}) {
    Prefetcher prefetcher(*samples, MakeSamplePlan(*samples),
                          {.first_step = 1000, .threads = threads, .depth = depth});
    for (uint64_t step = 1000; step < 1050; ++step) {
      const auto batch = prefetcher.Next();
      const Batch expected = ExpectedBatch(*samples, step);
      ASSERT_TRUE(batch.ok());
      ASSERT_EQ((*batch)->step, step);
      ASSERT_EQ((*batch)->images, expected.images);
      ASSERT_EQ((*batch)->labels, expected.labels);
    }
  }
}

// Batches can also be delivered as bytes. Converted to floats, the bytes equal the float images.
TEST(Prefetcher, BytesEqualTheFloatImages) {
  const auto samples = SmallSamples(50, ParseData(kAugmentation));
  const kernels::PixelTables pixel_tables(samples->rule());
  Prefetcher prefetcher(*samples, MakeSamplePlan(*samples), {.threads = 3, .fills_bytes = true});
  for (uint64_t step = 0; step < 20; ++step) {
    const auto batch = prefetcher.Next();
    const Batch expected = ExpectedBatch(*samples, step);
    ASSERT_TRUE(batch.ok());
    EXPECT_TRUE((*batch)->images.empty());
    ASSERT_EQ((*batch)->labels, expected.labels);
    ASSERT_EQ((*batch)->bytes.size(), expected.images.size());
    std::vector<float> images(expected.images.size());
    for (size_t i = 0; i < expected.labels.size(); ++i) {
      const size_t begin = i * samples->image_size();
      pixel_tables.ToFloats((*batch)->bytes.data() + begin, samples->size().height,
                            samples->size().width, (*batch)->draws[i], images.data() + begin);
    }
    ASSERT_EQ(images, expected.images);
  }
}

// Peek shows the batch that the next call of Next returns. Next does not change that batch.
TEST(Prefetcher, PeekReturnsTheNextBatch) {
  const auto samples = SmallSamples(50);
  Prefetcher prefetcher(*samples, MakeSamplePlan(*samples),
                        {.threads = 2, .depth = 2, .fills_bytes = true});
  for (uint64_t step = 0; step < 50; ++step) {
    ASSERT_TRUE(prefetcher.Next().ok());
    const Batch* peeked_batch = nullptr;
    while ((peeked_batch = prefetcher.Peek()) == nullptr) std::this_thread::yield();
    EXPECT_EQ(peeked_batch->step, ++step);
    const Batch peeked_copy = *peeked_batch;
    const auto batch = prefetcher.Next();
    ASSERT_EQ(*batch, peeked_batch);
    EXPECT_EQ(peeked_batch->bytes, peeked_copy.bytes);
  }
}

TEST(Prefetcher, PinsBytesOnceAndUnpinsBeforeFreeing) {
  const auto samples = SmallSamples(50);
  std::atomic<int> num_pinned_buffers = 0, times_pinned = 0;
  const PinFunction pin = [&](const void* begin, size_t bytes) {
    EXPECT_GE(bytes, 22 * samples->image_size());
    ++times_pinned;
    ++num_pinned_buffers;
    return std::shared_ptr<void>(const_cast<void*>(begin), [&num_pinned_buffers](void* memory) {
      *static_cast<volatile uint8_t*>(memory) = 0;  // The address sanitizer sees if it is freed.
      --num_pinned_buffers;
    });
  };
  {
    Prefetcher prefetcher(*samples, MakeSamplePlan(*samples),
                          {.threads = 2, .depth = 2, .fills_bytes = true, .pin = pin});
    for (int step = 0; step < 20; ++step) EXPECT_TRUE(prefetcher.Next().ok());
    EXPECT_EQ(num_pinned_buffers, 3) << "two ahead and the one in hand";
  }
  EXPECT_EQ(num_pinned_buffers, 0);
  EXPECT_EQ(times_pinned, 3);
}

// The current batch stays unchanged while the threads run as far ahead as allowed.
TEST(Prefetcher, DoesNotChangeTheCurrentBatch) {
  const auto samples = SmallSamples(50);
  Prefetcher prefetcher(*samples, MakeSamplePlan(*samples), {.threads = 2, .depth = 1});
  for (int i = 0; i < 200; ++i) {
    const auto batch = prefetcher.Next();
    const Batch batch_copy = **batch;
    std::this_thread::yield();
    ASSERT_EQ((*batch)->step, batch_copy.step);
    ASSERT_EQ((*batch)->images, batch_copy.images);
  }
}

TEST(Prefetcher, StopsAtAnyMoment) {
  const auto samples = SmallSamples(50);
  for (uint32_t i = 0; i < 200; ++i) {
    Prefetcher prefetcher(*samples, MakeSamplePlan(*samples),
                          {.first_step = 7, .threads = 1 + i % 4, .depth = 1 + i % 3});
    for (uint32_t taken_batches = 0; taken_batches < i % 7; ++taken_batches)
      EXPECT_TRUE(prefetcher.Next().ok());
  }
}

TEST(Prefetcher, AllowsEmptyAndPaddedBatches) {
  const auto samples = SmallSamples(50);
  Prefetcher prefetcher(*samples,
                        [](uint64_t step) { return std::vector<Augmenter::SampleId>(step % 3); },
                        {.threads = 2, .min_images = 5});
  for (uint64_t step = 0; step < 30; ++step) {
    const auto batch = prefetcher.Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ((*batch)->labels.size(), step % 3);
    EXPECT_EQ((*batch)->images.size(), 5 * samples->image_size());
  }
}

}  // namespace
}  // namespace tern::data

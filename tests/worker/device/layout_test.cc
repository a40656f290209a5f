#include "worker/device/layout.h"

#include <gtest/gtest.h>

#include "kernels/device/tiling.h"
#include "tests/client/train/train_job.h"

namespace tern::device {
namespace {

bool SmallJobStaysOnGpu(std::vector<std::string> settings) {
  settings.insert(settings.begin(), "workers.device=cuda");
  const auto setup = client::SmallJob(settings);
  return setup != nullptr && StaysOnDevice(*setup, setup->job);
}

TEST(StaysOnDevice, IfOnlyTheExchangeUsesGradients) {
  EXPECT_TRUE(SmallJobStaysOnGpu({}));
  EXPECT_TRUE(SmallJobStaysOnGpu({"train.optimizer.name=adam", "exchange.scaler_elements=64"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"workers.device=cpu"}));
  EXPECT_TRUE(SmallJobStaysOnGpu({"train.algorithm=odsgd"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"train.algorithm=psgd", "train.psgd.p=4"}))
      << "its own optimizer is the CPU's";
  EXPECT_FALSE(SmallJobStaysOnGpu({"train.algorithm=asgd"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"train.parameters=central"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"train.compute=wait", "train.compute_wait_ms=1"}));
}

TEST(StaysOnDevice, ForCodecsWithADeviceForm) {
  for (const char* codec : {"ternary", "qsgd", "onebit", "topk", "fp32", "fp16", "bf16"})
    EXPECT_TRUE(SmallJobStaysOnGpu({std::string("exchange.codec=") + codec})) << codec;
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.codec=ternary_ans"})) << "its sums are coded";
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.codec=qsgd_shared"})) << "it has no kernels";
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.codec=qsgd", "exchange.qsgd.sums=exact"}))
      << "its sums are floats";
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.codec=fp16", "exchange.error_feedback=true"}));
  EXPECT_TRUE(SmallJobStaysOnGpu({"exchange.rotate=64"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.rotate=64", "exchange.codec=ternary_ans"}));
  EXPECT_TRUE(SmallJobStaysOnGpu({"exchange.scaler=previous", "metrics.tensorboard=true"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"exchange.scaler=per_worker"})) << "its sums are floats";
}

TEST(StaysOnDevice, ForAllOptimizers) {
  EXPECT_TRUE(SmallJobStaysOnGpu({"train.optimizer.name=lars"}));
  EXPECT_FALSE(SmallJobStaysOnGpu({"train.optimizer.name=lars", "exchange.scaler_elements=64"}))
      << "its tensors are not whole";
  EXPECT_TRUE(SmallJobStaysOnGpu({"train.clip_norm=1", "evaluation.ema_decay=0.9"}));
}

TEST(LayoutOf, ChunksCoverEveryElementOnce) {
  const auto setup = client::SmallJob({"exchange.chunk_kib=1"});
  ASSERT_NE(setup, nullptr);
  const auto layout = LayoutOf(*setup, 1);
  EXPECT_EQ(layout.elements, setup->table.total);
  EXPECT_EQ(layout.buckets.size(), setup->plan.buckets.size());
  std::vector<int> times_covered(layout.elements);
  for (const auto& chunk : layout.chunks) {
    for (const kernels::Part& part : chunk) {
      EXPECT_EQ(part.begin, setup->plan.tensor_begin[part.tensor] + part.first);
      for (uint64_t i = 0; i < part.count; ++i) ++times_covered[part.begin + i];
    }
  }
  for (const int times : times_covered) ASSERT_EQ(times, 1);
  const auto& last_chunk = setup->plan.buckets.back().chunks.back();
  EXPECT_EQ(setup->plan.ChunkIndex(last_chunk) + 1, layout.chunks.size());
}

}  // namespace
}  // namespace tern::device

// Tests of a GPU's nets for a batch that grows. cuda_on_host emulates the GPU.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/client/train/train_job.h"
#include "worker/net_compute.h"

namespace tern::worker {
namespace {

class GrowingBatch : public testing::Test {
 protected:
  void TearDown() override { cuda_on_host::max_allocation_bytes = ~uint64_t{0}; }
  Result<std::unique_ptr<BatchCompute>> MakeCompute() {
    return MakeNetCompute(*setup_, 0, {parameters_.data(), gradients_.data(), nullptr});
  }
  static double Step(BatchCompute& compute, uint32_t samples) {
    data::Batch batch;
    batch.images.assign(samples * size_t{4} * 4, 0.5f);
    batch.labels.assign(samples, 1);
    const double loss = compute.Forward(batch, nullptr);
    compute.Backward([](uint32_t) {});
    return loss;
  }

  // Each of the two workers computes 2, then 20, then 200 samples a step.
  const std::unique_ptr<setup::Setup> setup_ =
      client::SmallJob({"workers.device=cuda",
                        "train.batch_growth=[{at_epoch: 1, batch_total: 40}, "
                        "{at_epoch: 2, batch_total: 400}]"});
  std::vector<float> parameters_ = std::vector<float>(setup_->table.total, 0.01f);
  std::vector<float> gradients_ = std::vector<float>(setup_->table.total);
};

// A worker that planned while it trains would count as lost: planning may take minutes.
TEST_F(GrowingBatch, PlansNoNetInTraining) {
  auto compute = MakeCompute();
  ASSERT_TRUE(compute.ok()) << compute.status().message();
  cuda_on_host::max_allocation_bytes = 0;
  for (const uint32_t samples : {2, 20, 200}) {
    EXPECT_TRUE(std::isfinite(Step(**compute, samples))) << samples;
    EXPECT_TRUE((*compute)->status().ok()) << (*compute)->status().message();
  }
}

TEST_F(GrowingBatch, FailsBeforeTrainingIfItsLastSizeIsTooLarge) {
  cuda_on_host::max_allocation_bytes = 10000;  // The images of 200 samples take 12,800.
  const auto compute = MakeCompute();
  ASSERT_FALSE(compute.ok());
  EXPECT_THAT(compute.status().message(), testing::HasSubstr("take a smaller batch"));
}

}  // namespace
}  // namespace tern::worker

// A net of many kinds of layers with activations of 16 bits on a GPU, and the scaling of the loss.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/worker/engine/problem.h"
#include "worker/engine/cuda/loss_scale.h"

namespace tern::engine {
namespace {

constexpr const char* kManyKindsOfLayers =
    "conv { outputs: 16 kernel: 3 bias: false }; batch_norm {}; relu {}; "
    "max_pool { kernel: 2 stride: 2 }; lrn {}; conv { outputs: 10 kernel: 3 }; relu { max: 6 }; "
    "avg_pool { kernel: 3 stride: 2 }; dropout { rate: 0.25 }; dense { outputs: 10 }";

struct StepResult {
  double loss = 0;
  std::vector<float> gradients, statistics;
  uint32_t fused_norms = 0;
};

StepResult RunStep(Precision precision, float image_factor = 1) {
  Problem problem(MakeChain(kManyKindsOfLayers, MakeImageShape(3, 14, 14), 10), 4);
  for (float& x : problem.images) x *= image_factor;
  auto net = problem.MakeNet(/*training=*/true, precision);
  StepResult result;
  result.loss = net->Forward({problem.images, problem.labels, 4}, nullptr);
  net->Backward(nullptr);
  EXPECT_TRUE(net->status().ok()) << net->status().message();
  result.gradients = problem.gradients;
  result.statistics = problem.statistics;
  result.fused_norms = net->planning().fused_norms;
  return result;
}

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(error / norm);
}

TEST(DevicePrecision, AllLayersAreCloseInSixteenBits) {
  const StepResult exact_result = RunStep(Precision::kFp32);
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::kBf16, 0.06}, std::pair{Precision::kFp16, 0.02}}) {
    const StepResult rounded_result = RunStep(precision);
    EXPECT_NEAR(rounded_result.loss, exact_result.loss, tolerance * exact_result.loss);
    EXPECT_LT(RelativeDistance(rounded_result.gradients, exact_result.gradients), tolerance);
    EXPECT_LT(RelativeDistance(rounded_result.statistics, exact_result.statistics), tolerance);
    EXPECT_NE(rounded_result.gradients, exact_result.gradients);
  }
}

// With images of large values, gradients of the first weights overflow fp16 at a loss scale of
// 2^16. The step is repeated with a smaller scale. The result is close to that in fp32.
TEST(DevicePrecision, OverflowingStepIsRepeated) {
  constexpr float kImageFactor = 2000;
  const StepResult exact_result = RunStep(Precision::kFp32, kImageFactor);
  const StepResult rounded_result = RunStep(Precision::kFp16, kImageFactor);
  for (const float gradient : rounded_result.gradients) ASSERT_TRUE(std::isfinite(gradient));
  EXPECT_LT(RelativeDistance(rounded_result.gradients, exact_result.gradients), 0.02);
  EXPECT_LT(RelativeDistance(rounded_result.statistics, exact_result.statistics), 0.02)
      << "they have followed one step";
}

TEST(DevicePrecision, NormsTakeSumsOfConvolutionsInFp16Alone) {
  EXPECT_EQ(RunStep(Precision::kFp16).fused_norms, 1u);
  EXPECT_EQ(RunStep(Precision::kBf16).fused_norms, 0u);
}

// How many kernels a step launches.
uint64_t LaunchesOfStep(Precision precision) {
  const uint64_t left_before = cuda_on_host::launches_left;
  RunStep(precision);
  return left_before - cuda_on_host::launches_left;
}

TEST(DevicePrecision, StepWithoutOverflowIsNotRepeated) {
  EXPECT_EQ(LaunchesOfStep(Precision::kFp16), LaunchesOfStep(Precision::kBf16) + 2)
      << "the search for an overflow, and the sums for a batch norm, which cuDNN adds up in the "
         "same "
         "launch";
}

TEST(DevicePrecision, NonFiniteGradientsAreReported) {
  Problem problem(MakeChain("dense { outputs: 10 }", MakeImageShape(1, 4, 4), 10), 2);
  problem.parameters[0] = std::numeric_limits<float>::infinity();
  auto net = problem.MakeNet(/*training=*/true, Precision::kFp16);
  net->Forward({problem.images, problem.labels, 2}, nullptr);
  uint32_t num_ready_gradients = 0;
  net->Backward([&num_ready_gradients](uint32_t) { ++num_ready_gradients; });
  EXPECT_EQ(num_ready_gradients, 2u) << "the coder says which gradient it is";
  EXPECT_FALSE(std::isfinite(problem.gradients[0]));
}

TEST(LossScale, HalvesAtOnceAndDoublesAfterManySteps) {
  LossScale loss_scale;
  const float first_scale = loss_scale.scale();
  EXPECT_TRUE(loss_scale.UpdateAfterStep(true));
  EXPECT_EQ(loss_scale.scale(), first_scale / 2);
  for (int step = 0; step < 1999; ++step) EXPECT_FALSE(loss_scale.UpdateAfterStep(false));
  EXPECT_EQ(loss_scale.scale(), first_scale / 2);
  EXPECT_FALSE(loss_scale.UpdateAfterStep(false));
  EXPECT_EQ(loss_scale.scale(), first_scale);
  while (loss_scale.scale() > 1) EXPECT_TRUE(loss_scale.UpdateAfterStep(true));
  EXPECT_FALSE(loss_scale.UpdateAfterStep(true)) << "nothing is left to halve";
}

}  // namespace
}  // namespace tern::engine

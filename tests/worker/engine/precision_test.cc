// Results of a net in 16-bit precision must be close to those in fp32, but not equal.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

struct StepResult {
  double loss = 0;
  std::vector<float> gradients;
};

StepResult RunStep(const pb::NetDef& def, Precision precision) {
  Problem problem(def, 4);
  auto net = problem.MakeNet(/*training=*/true, precision);
  const double loss = net->Forward({problem.images, problem.labels, 4}, nullptr);
  net->Backward(nullptr);
  EXPECT_TRUE(net->status().ok()) << net->status().message();
  return {loss, problem.gradients};
}

// bfloat16 has 8 significant bits, half precision 11: the rounding error of a factor is at most
// 2^-8 or 2^-11 of the factor. If the error moves the input of a ReLU across zero, that unit's
// whole gradient is wrong. This happens to less than one unit in a thousand. The norm of the
// gradient's error, relative to the gradient's norm, is about the root of that share.
double GradientToleranceOf(Precision precision) {
  return precision == Precision::kBf16 ? 0.03 : 0.02;
}

bool DeviceMultipliesBf16() {
  return DeviceUnderTest() != Device::kCpu || __builtin_cpu_supports("avx512bw");
}

std::vector<Precision> PrecisionsOfDevice() {
  if (DeviceUnderTest() == Device::kCpu) return {Precision::kBf16};
  return {Precision::kBf16, Precision::kFp16};
}

using PrecisionCase = std::tuple<const char*, Precision>;
class PrecisionOfNet : public testing::TestWithParam<PrecisionCase> {};

TEST_P(PrecisionOfNet, IsCloseToFp32) {
  const auto [layers, precision] = GetParam();
  if (!DeviceMultipliesBf16()) GTEST_SKIP() << "this CPU lacks AVX-512";
  const pb::NetDef def = MakeChain(layers, MakeImageShape(3, 12, 12), 10);
  const StepResult exact_result = RunStep(def, Precision::kFp32),
                   rounded_result = RunStep(def, precision);
  const double tolerance = GradientToleranceOf(precision);
  EXPECT_NEAR(rounded_result.loss, exact_result.loss, tolerance * exact_result.loss);
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact_result.gradients.size(); ++i) {
    error += std::pow(double{rounded_result.gradients[i]} - exact_result.gradients[i], 2);
    norm += std::pow(double{exact_result.gradients[i]}, 2);
  }
  EXPECT_LT(std::sqrt(error), tolerance * std::sqrt(norm));
  EXPECT_GT(error, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, PrecisionOfNet,
    testing::Combine(
        testing::Values("conv { outputs: 16 kernel: 3 }; relu {}; dense { outputs: 10 }",
                        "conv { outputs: 32 kernel: 3 padding: same }; "
                        "conv { outputs: 32 kernel: 3 padding: same groups: 32 }; "
                        "conv { outputs: 32 kernel: 5 }; relu {}; dense { outputs: 10 }",
                        "dense { outputs: 33 }; relu {}; dense { outputs: 10 }"),
        testing::ValuesIn(PrecisionsOfDevice())));

}  // namespace
}  // namespace tern::engine

// bf16 against fp32: near, and not the same.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/problem.h"

namespace tern::engine {
namespace {

// bfloat16 keeps 8 bits: each factor is off by at most 2^-9 of itself.
constexpr double kFar = 0.03;

struct Step {
  double loss = 0;
  std::vector<float> gradients;
};

Step Take(const pb::NetDef& def, bool bf16) {
  Problem problem(def, 4);
  auto net = problem.Make(/*training=*/true, bf16);
  const double loss = net->Forward({problem.images, problem.labels, 4}, nullptr);
  net->Backward(nullptr);
  return {loss, problem.gradients};
}

class Precision : public testing::TestWithParam<const char*> {};

TEST_P(Precision, Bf16IsNear) {
  const pb::NetDef def = Chain(GetParam(), Image(3, 12, 12), 10);
  const Step exact = Take(def, false), rounded = Take(def, true);
  EXPECT_NEAR(rounded.loss, exact.loss, kFar * exact.loss);
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    error += std::pow(double{rounded.gradients[i]} - exact.gradients[i], 2);
    norm += std::pow(double{exact.gradients[i]}, 2);
  }
  EXPECT_LT(std::sqrt(error), kFar * std::sqrt(norm));
  EXPECT_GT(error, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, Precision,
    testing::Values("conv { outputs: 16 kernel: 3 }; relu {}; dense { outputs: 10 }",
                    "conv { outputs: 32 kernel: 3 padding: same }; "
                    "conv { outputs: 32 kernel: 3 padding: same groups: 32 }; "
                    "conv { outputs: 32 kernel: 5 }; relu {}; dense { outputs: 10 }",
                    "dense { outputs: 33 }; relu {}; dense { outputs: 10 }"));

}  // namespace
}  // namespace tern::engine

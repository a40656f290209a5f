// Compares the gradients of every test network with central differences of the loss that the
// network's own forward pass computes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

class GradientChecker {
 public:
  explicit GradientChecker(Problem* problem) : problem_(*problem), net_(problem->MakeNet()) {}

  void CheckGradients() {
    ComputeLoss();
    net_->Backward(nullptr);
    const std::vector<float> gradients = problem_.gradients;
    double largest_gradient = 0;
    for (float g : gradients)
      largest_gradient = std::max(largest_gradient, std::fabs(static_cast<double>(g)));
    ASSERT_GT(largest_gradient, 0);
    size_t num_kinks = 0;
    // Checks at most 300 parameters, spread evenly, because each costs four forward passes.
    const size_t stride = gradients.size() / 300 + 1;
    size_t num_checked = 0;
    for (size_t i = 0; i < gradients.size(); i += stride, ++num_checked) {
      const double wide_slope = ComputeSlope(i, 0x1p-8f);
      const double narrow_slope = ComputeSlope(i, 0x1p-11f);
      // The loss has no derivative where a ReLU or a max pooling switches. If that happens inside
      // the interval, the two slopes differ, and this parameter is skipped.
      if (std::fabs(wide_slope - narrow_slope) > kTolerance / 4 * largest_gradient) {
        ++num_kinks;
        continue;
      }
      EXPECT_NEAR(gradients[i], narrow_slope, kTolerance * largest_gradient)
          << "parameter element " << i;
    }
    EXPECT_LE(num_kinks, num_checked / 4);
  }

 private:
  static constexpr double kTolerance = 2e-3;

  double ComputeLoss() {
    return net_->Forward({problem_.images, problem_.labels, problem_.batch}, nullptr);
  }

  // Returns the central difference of the loss with respect to parameter i.
  double ComputeSlope(size_t i, float step) {
    const float original = problem_.parameters[i];
    problem_.parameters[i] = original + step;
    const double loss_above = ComputeLoss();
    problem_.parameters[i] = original - step;
    const double loss_below = ComputeLoss();
    problem_.parameters[i] = original;
    const double width =
        static_cast<double>(original + step) - static_cast<double>(original - step);
    return (loss_above - loss_below) / width;
  }

  Problem& problem_;
  std::unique_ptr<Net> net_;
};

class FiniteDifferences : public testing::TestWithParam<NetCase> {};

TEST_P(FiniteDifferences, MatchTheGradients) {
  Problem problem(NetOf(GetParam()), GetParam().batch, /*seed=*/7);
  GradientChecker(&problem).CheckGradients();
}

INSTANTIATE_TEST_SUITE_P(Nets, FiniteDifferences, testing::ValuesIn(NetCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tern::engine

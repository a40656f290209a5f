// The gradient checker: d(loss)/d(parameter) against central differences of the engine's own
// forward pass, independent of the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

class Checker {
 public:
  explicit Checker(Problem* problem) : problem_(*problem), net_(problem->Make()) {}

  void CheckAll() {
    Loss();
    net_->Backward(nullptr);
    const std::vector<float> gradients = problem_.gradients;
    double largest = 0;
    for (float g : gradients) largest = std::max(largest, std::fabs(static_cast<double>(g)));
    ASSERT_GT(largest, 0);
    size_t kinks = 0;
    // At most some hundreds of parameters, spread evenly: each costs four forward passes.
    const size_t stride = gradients.size() / 300 + 1;
    size_t checked = 0;
    for (size_t i = 0; i < gradients.size(); i += stride, ++checked) {
      const double wide = Slope(i, 0x1p-8f);
      const double narrow = Slope(i, 0x1p-11f);
      // If a ReLU or a maximum switches inside the interval, the two differ, because there is no
      // derivative.
      if (std::fabs(wide - narrow) > kTolerance / 4 * largest) {
        ++kinks;
        continue;
      }
      EXPECT_NEAR(gradients[i], narrow, kTolerance * largest) << "parameter element " << i;
    }
    EXPECT_LE(kinks, checked / 4);
  }

 private:
  static constexpr double kTolerance = 2e-3;

  double Loss() {
    return net_->Forward({problem_.images, problem_.labels, problem_.batch}, nullptr);
  }

  double Slope(size_t i, float step) {
    const float kept = problem_.parameters[i];
    problem_.parameters[i] = kept + step;
    const double up = Loss();
    problem_.parameters[i] = kept - step;
    const double down = Loss();
    problem_.parameters[i] = kept;
    const double width = static_cast<double>(kept + step) - static_cast<double>(kept - step);
    return (up - down) / width;
  }

  Problem& problem_;
  std::unique_ptr<Net> net_;
};

class FiniteDifferences : public testing::TestWithParam<NetCase> {};

TEST_P(FiniteDifferences, MatchTheGradients) {
  Problem problem(NetOf(GetParam()), GetParam().batch, /*seed=*/7);
  Checker(&problem).CheckAll();
}

INSTANTIATE_TEST_SUITE_P(Nets, FiniteDifferences, testing::ValuesIn(NetCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tern::engine

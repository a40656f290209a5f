// The ReLU on a CPU against its definition, element by element.
#include "kernels/nn/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tern::kernels {
namespace {

using testing::NanSensitiveFloatEq;
using testing::Pointwise;

// Runs of 8 kinds of values, in every length up to several vectors.
TEST(Relu, OfEveryLengthInPlaceAndToOtherMemory) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> kinds = {-3, 0.5f, nan, 9, infinity, -infinity, 0, 6};
  for (const float upper : {infinity, 6.f}) {
    const std::vector<float> results = {0, 0.5f, nan, std::min(9.f, upper), upper, 0, 0, 6};
    for (size_t n = 0; n < 70; ++n) {
      std::vector<float> x(n + 1, -1), expected(n + 1, -1), y(n + 1, -1);
      for (size_t i = 0; i < n; ++i) x[i] = kinds[i % 8], expected[i] = results[i % 8];
      ReluForward(x.data(), n, upper, y.data());
      EXPECT_THAT(y, Pointwise(NanSensitiveFloatEq(), expected));
      ReluForward(x.data(), n, upper, x.data());
      EXPECT_THAT(x, Pointwise(NanSensitiveFloatEq(), expected));
    }
  }
}

}  // namespace
}  // namespace tern::kernels

// Tests of clipping a gradient to a largest norm.
#include "common/update/clip.h"

#include <limits>

#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

TEST(Clip, ScalesOnlyLongerGradients) {
  EXPECT_EQ(ClipScale(5, 10), 1);
  EXPECT_EQ(ClipScale(10, 10), 1);
  EXPECT_EQ(ClipScale(20, 10), 0.5);
  EXPECT_EQ(ClipScale(20, 0), 1);
  EXPECT_EQ(ClipScale(0, 10), 1);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(ClipScale(bad, 10), 1);
}

TEST(Clip, NormIsExactAtAnyLength) {
  EXPECT_EQ(Norm(nullptr, 0), 0);
  const std::vector<float> three_four = {3, -4};
  EXPECT_EQ(Norm(three_four.data(), 2), 5);
  const std::vector<float> x = RandomValues(10'001, 1);
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  EXPECT_NEAR(Norm(x.data(), x.size()), std::sqrt(sum), 1e-12 * std::sqrt(sum));
  const std::vector<float> large(4, 1e38f);  // The squares exceed the largest float.
  EXPECT_NEAR(Norm(large.data(), 4), 2e38, 1e32);
}

TEST(Clip, ScalesAGradientToTheNorm) {
  const std::vector<float> g = RandomValues(5000, 2);
  std::vector<float> clipped = g;
  const double scale = ClipByNorm(clipped.data(), clipped.size(), 2.5);
  EXPECT_NEAR(Norm(clipped.data(), clipped.size()), 2.5, 1e-6);
  for (size_t i = 0; i < g.size(); ++i) EXPECT_EQ(clipped[i], g[i] * static_cast<float>(scale));
  std::vector<float> unclipped = g;
  EXPECT_EQ(ClipByNorm(unclipped.data(), unclipped.size(), 1e6), 1);
  EXPECT_EQ(ClipByNorm(unclipped.data(), unclipped.size(), 0), 1);
  EXPECT_EQ(unclipped, g);
}

}  // namespace
}  // namespace tern::update

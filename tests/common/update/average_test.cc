// Tests of the moving average of the weights.
#include "common/update/average.h"

#include "tests/common/update/numbers.h"

namespace tern::update {
namespace {

TEST(EmaDecay, WarmsUpThenStaysConstant) {
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 0), 0.1);
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 8), 0.5);
  EXPECT_DOUBLE_EQ(EmaDecay(0.9999, 100'000), 0.9999);
  EXPECT_DOUBLE_EQ(EmaDecay(0.05, 0), 0.05);
}

TEST(AverageWeights, FollowsTensorFlowsRule) {
  std::vector<float> average = RandomValues(100, 1);
  std::vector<double> expected = ToDouble(average);
  for (uint64_t update = 1; update <= 40; ++update) {
    const std::vector<float> w = RandomValues(100, 10 + update);
    // TensorFlow's rule: average = d * average + (1 - d) * w, where d grows up to 0.7 with the
    // number t of earlier updates.
    const double t = static_cast<double>(update) - 1;
    const double d = std::min(0.7, (1 + t) / (10 + t));
    for (size_t i = 0; i < w.size(); ++i) expected[i] = d * expected[i] + (1 - d) * w[i];
    AverageWeights(average.data(), w.data(), w.size(), 0.7, update);
    ASSERT_LT(RelativeDistance(average, expected), 1e-6);
  }
}

}  // namespace
}  // namespace tern::update

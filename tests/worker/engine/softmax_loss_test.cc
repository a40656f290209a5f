#include "worker/engine/softmax_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tern::engine {
namespace {

TEST(SoftmaxLoss, MatchesTheDefinition) {
  const std::vector<float> scores = {1, 2, 3, 0.5f, -1, 0};
  const std::vector<uint32_t> labels = {2, 1};
  std::vector<float> gradient(6);
  const SoftmaxSums sums = SoftmaxLoss(scores.data(), labels, 2, 3, 2, 0, gradient.data());
  double expected_loss = 0;
  for (int n = 0; n < 2; ++n) {
    double sum = 0;
    std::vector<double> exponentials(3);
    for (int c = 0; c < 3; ++c) sum += exponentials[c] = std::exp(double{scores[3 * n + c]});
    expected_loss -= std::log(exponentials[labels[n]] / sum);
    for (uint32_t c = 0; c < 3; ++c) {
      const double expected = (exponentials[c] / sum - (c == labels[n])) / 2;
      EXPECT_NEAR(gradient[3 * n + c], expected, 1e-7);
    }
  }
  EXPECT_NEAR(sums.loss, expected_loss, 1e-12);
  EXPECT_EQ(sums.correct, 1u);
}

TEST(SoftmaxLoss, StaysFiniteForLargeScores) {
  const std::vector<float> scores = {1e30f, -1e30f, 0};
  std::vector<float> gradient(3);
  EXPECT_EQ(SoftmaxLoss(scores.data(), std::vector<uint32_t>{0}, 1, 3, 1, 0, gradient.data()).loss,
            0);
  const auto wrong_label_sums =
      SoftmaxLoss(scores.data(), std::vector<uint32_t>{1}, 1, 3, 1, 0, gradient.data());
  EXPECT_NEAR(wrong_label_sums.loss / 2e30, 1, 1e-6);
  EXPECT_EQ(gradient, (std::vector<float>{1, -1, 0}));
}

TEST(SoftmaxLoss, TiesGoToTheFirstClass) {
  const std::vector<float> scores(8, 0.25f);
  const std::vector<uint32_t> labels = {0, 3};
  const SoftmaxSums sums = SoftmaxLoss(scores.data(), labels, 2, 4, 2, 0, nullptr);
  EXPECT_EQ(sums.correct, 1u);
  EXPECT_NEAR(sums.loss, 2 * std::log(4.0), 1e-12);
}

TEST(SoftmaxLoss, CountsOnlyTheRowsInUse) {
  const std::vector<float> scores = {1, 2, 3, 4, 5, 7};
  std::vector<float> gradient(6, 9);
  const std::vector<uint32_t> labels = {1};
  const SoftmaxSums sums = SoftmaxLoss(scores.data(), labels, 3, 2, 1, 0, gradient.data());
  EXPECT_NEAR(sums.loss, std::log(1 + std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(gradient[0], 1 / (1 + std::exp(1.0)), 1e-7);
  EXPECT_NEAR(gradient[1], -gradient[0], 1e-7);
  for (int i = 2; i < 6; ++i) EXPECT_EQ(gradient[i], 0) << i;
}

TEST(SoftmaxLoss, ARowWithAScoreThatIsNotFiniteHasNoLossAndIsNotRight) {
  for (const std::vector<float>& scores :
       {std::vector<float>{NAN, 1}, {0, NAN}, {NAN, NAN}, {0, INFINITY}, {NAN, INFINITY}}) {
    std::vector<float> gradient(2);
    const auto sums =
        SoftmaxLoss(scores.data(), std::vector<uint32_t>{1}, 1, 2, 1, 0, gradient.data());
    EXPECT_FALSE(std::isfinite(sums.loss));
    EXPECT_FALSE(std::isfinite(gradient[1]));
    EXPECT_EQ(sums.correct, 0u);
    EXPECT_EQ(sums.among_five, 0u);
  }
}

TEST(SoftmaxLoss, CountsTheFiniteRowsBesideOneThatIsNot) {
  const std::vector<float> scores = {0, 1, NAN, NAN, 0, 1};
  const auto sums = SoftmaxLoss(scores.data(), std::vector<uint32_t>{1, 1, 0}, 3, 2, 3, 0, nullptr);
  EXPECT_TRUE(std::isnan(sums.loss));
  EXPECT_EQ(sums.correct, 1u);
  EXPECT_EQ(sums.among_five, 2u);
}

}  // namespace
}  // namespace tern::engine

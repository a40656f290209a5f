#include "worker/tensorboard/code_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tern::tensorboard {
namespace {

TEST(CodeFigures, OfAnExactCodeAreZero) {
  const std::vector<float> values = {1, -2, 3};
  const CodeFigures figures = CodeFiguresOf(values, values);
  EXPECT_EQ(figures.zero_share, 0);
  EXPECT_EQ(figures.q, 0);
  EXPECT_NEAR(figures.angle_degrees, 0, 1e-6);
}

// |(3, 4, 0, 0) - (5, 0, 0, 0)|^2 = 4 + 16, |(3, 4, 0, 0)|^2 = 25, and the cosine is 3 / 5.
TEST(CodeFigures, AreThoseOfTheirEquations) {
  const CodeFigures figures = CodeFiguresOf(std::vector<float>{3, 4, 0, 0},  // the values
                                            std::vector<float>{5, 0, 0, 0});
  EXPECT_EQ(figures.zero_share, 0.75);
  EXPECT_DOUBLE_EQ(figures.q, 20.0 / 25);
  EXPECT_NEAR(figures.angle_degrees, 53.130102, 1e-5);
}

TEST(CodeFigures, OfACodeThatIsZeroAreARightAngle) {
  const CodeFigures figures = CodeFiguresOf(std::vector<float>{1, 2}, std::vector<float>{0, -0.f});
  EXPECT_EQ(figures.zero_share, 1);
  EXPECT_EQ(figures.q, 1);
  EXPECT_DOUBLE_EQ(figures.angle_degrees, 90);
}

// |(1, -4, 2, 2) - (1, -3, 2, 2)|^2 = 1 of 25.
TEST(ClipFigures, AreThoseOfTheirEquations) {
  const ClipFigures figures = ClipFiguresOf(std::vector<float>{1, -4, 2, 2},  // the values
                                            std::vector<float>{1, -3, 2, 2});
  EXPECT_EQ(figures.share, 0.25);
  EXPECT_DOUBLE_EQ(figures.bias, 1.0 / 25);
}

}  // namespace
}  // namespace tern::tensorboard

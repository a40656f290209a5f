// Tests of local response normalization (LRN) against its equations in double precision:
// y = x * s^-beta, where s = k + alpha / size * (sum of x^2 over `size` neighbouring channels).
#include "kernels/nn/lrn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

struct LrnCase {
  LrnImage image;
  LrnRule rule;
};

class LrnOf : public testing::TestWithParam<LrnCase> {
 protected:
  std::vector<float> RandomValues(uint32_t tensor) const {
    std::vector<float> values(image_.channels * image_.pixels);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) * 0x1p-30 - 2);
    return values;
  }
  // Returns the index of an element. Blocked images store 16 channels of a pixel together.
  size_t IndexOf(size_t pixel, size_t c) const {
    if (!image_.is_blocked) return pixel * image_.channels + c;
    return c / 16 * 16 * image_.pixels + pixel * 16 + c % 16;
  }
  // Calls visit(j) for each channel j in the window around channel c.
  template <typename Visit>
  void ForEachInWindow(size_t c, const Visit& visit) const {
    const size_t half_window = rule_.size / 2;
    for (size_t j = c < half_window ? 0 : c - half_window;
         j <= c + half_window && j < image_.channels; ++j)
      visit(j);
  }
  // Returns s of the equation.
  double ScaleAt(size_t pixel, size_t c) const {
    double sum = 0;
    ForEachInWindow(c, [&](size_t j) { sum += std::pow(double{x_[IndexOf(pixel, j)]}, 2); });
    return double{rule_.k} + double{rule_.alpha} / static_cast<double>(rule_.size) * sum;
  }

  const LrnImage image_ = GetParam().image;
  const LrnRule rule_ = GetParam().rule;
  const std::vector<float> x_ = RandomValues(1), dy_ = RandomValues(2);
};

TEST_P(LrnOf, ForwardFollowsTheEquation) {
  std::vector<float> y(x_.size());
  LrnForward(x_.data(), image_, rule_, y.data());
  for (size_t pixel = 0; pixel < image_.pixels; ++pixel) {
    for (size_t c = 0; c < image_.channels; ++c) {
      const size_t i = IndexOf(pixel, c);
      EXPECT_NEAR(y[i], x_[i] * std::pow(ScaleAt(pixel, c), -double{rule_.beta}), 2e-6) << i;
    }
  }
}

TEST_P(LrnOf, BackwardFollowsTheEquation) {
  std::vector<float> dx = dy_;  // The kernel overwrites dy with dx.
  LrnBackward(x_.data(), dx.data(), image_, rule_, dx.data());
  const double beta = rule_.beta;
  for (size_t pixel = 0; pixel < image_.pixels; ++pixel) {
    for (size_t c = 0; c < image_.channels; ++c) {
      double window_sum = 0;
      ForEachInWindow(c, [&](size_t j) {
        const size_t index = IndexOf(pixel, j);
        window_sum += double{dy_[index]} * x_[index] * std::pow(ScaleAt(pixel, j), -beta - 1);
      });
      const size_t i = IndexOf(pixel, c);
      const double expected =
          dy_[i] * std::pow(ScaleAt(pixel, c), -beta) -
          2 * double{rule_.alpha} * beta / static_cast<double>(rule_.size) * x_[i] * window_sum;
      EXPECT_NEAR(dx[i], expected, 5e-6) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Images, LrnOf,
                         testing::Values(LrnCase{{1, 1, false}, {1, 0.5f, 0.75f, 1}},
                                         LrnCase{{7, 5, false}, {3, 1, 0.75f, 2}},
                                         LrnCase{{20, 3, false}, {5, 0.3f, 0.6f, 1}},
                                         LrnCase{{16, 4, true}, {9, 0.9f, 0.75f, 1}},
                                         LrnCase{{48, 6, true}, {5, 0.4f, 1.3f, 0.5f}},
                                         LrnCase{{3, 2, false}, {9, 1, 0.5f, 1}}));

}  // namespace
}  // namespace tern::kernels

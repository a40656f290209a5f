// Tests of Winograd's algorithm for convolutions with 5 x 5 kernels: the transforms of inputs,
// filters and outputs, and their gradients, against plain loops in double precision.
#include "kernels/nn/winograd.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

struct Case {
  size_t height, width, pad, inputs, outputs;
};

class WinogradOf : public testing::TestWithParam<Case> {
 protected:
  static std::vector<float> Random(uint32_t tensor, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) * 0x1p-31 - 1);
    return values;
  }
  // Calls visit(output pixel, input pixel, tap) for all 25 taps of every window that are inside the
  // image.
  template <typename Visit>
  void ForTaps(const Visit& visit) const {
    for (size_t p = 0; p < out_height_ * out_width_; ++p) {
      for (size_t tap = 0; tap < 25; ++tap) {
        const size_t row = p / out_width_ + tap / 5, column = p % out_width_ + tap % 5;
        if (row < c_.pad || row >= c_.height + c_.pad) continue;
        if (column < c_.pad || column >= c_.width + c_.pad) continue;
        visit(p, (row - c_.pad) * c_.width + column - c_.pad, tap);
      }
    }
  }
  // Calls visit(t) for each of the matrix products of Winograd's algorithm.
  template <typename Visit>
  static void ForMatrices(const Visit& visit) {
    for (size_t t = 0; t < kWinogradMatrices; ++t) visit(t);
  }
  // Returns the index of a weight.
  size_t Weight(size_t o, size_t i, size_t tap) const { return (o * c_.inputs + i) * 25 + tap; }
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-4) << i;
  }

  const Case c_ = GetParam();
  const size_t out_height_ = c_.height + 2 * c_.pad - 4, out_width_ = c_.width + 2 * c_.pad - 4;
  const size_t rows_ = (out_height_ + 3) / 4, columns_ = (out_width_ + 3) / 4;
  const size_t tiles_ = rows_ * columns_, pixels_ = c_.height * c_.width;
  const size_t out_pixels_ = out_height_ * out_width_;
  const WinogradImage from_ = {c_.height, c_.width, c_.inputs, c_.inputs};
  const WinogradImage to_ = {out_height_, out_width_, c_.outputs, c_.outputs};
  const WinogradTiles from_tiles_ = {rows_, columns_, tiles_* c_.inputs, c_.inputs};
  const WinogradTiles to_tiles_ = {rows_, columns_, tiles_* c_.outputs, c_.outputs};
  const std::vector<float> x_ = Random(1, pixels_* c_.inputs);
  const std::vector<float> w_ = Random(2, c_.outputs* c_.inputs * 25);
  const std::vector<float> dy_ = Random(3, out_pixels_* c_.outputs);
  // The transformed input, filter and output.
  std::vector<float> u_ = std::vector<float>(kWinogradMatrices * tiles_ * c_.inputs);
  std::vector<float> f_ = std::vector<float>(kWinogradMatrices * c_.inputs * c_.outputs);
  std::vector<float> m_ = std::vector<float>(kWinogradMatrices * tiles_ * c_.outputs);
};

TEST_P(WinogradOf, ForwardEqualsTheConvolution) {
  WinogradInput(x_.data(), from_, c_.pad, c_.pad, from_tiles_, u_.data());
  for (size_t i = 0; i < c_.inputs; ++i)
    WinogradFilter(w_.data(), c_.outputs, c_.inputs, i, f_.data());
  ForMatrices([&](size_t t) {
    for (size_t k = 0; k < tiles_ * c_.inputs * c_.outputs; ++k) {
      const size_t o = k % c_.outputs, i = k / c_.outputs % c_.inputs;
      const size_t tile = k / c_.outputs / c_.inputs;
      m_[(t * tiles_ + tile) * c_.outputs + o] +=
          u_[(t * tiles_ + tile) * c_.inputs + i] * f_[(t * c_.inputs + i) * c_.outputs + o];
    }
  });
  const std::vector<float> bias = Random(4, c_.outputs);
  for (const bool relu : {false, true}) {
    std::vector<double> expected(out_pixels_ * c_.outputs);
    for (size_t k = 0; k < expected.size(); ++k) expected[k] = bias[k % c_.outputs];
    ForTaps([&](size_t p, size_t q, size_t tap) {
      for (size_t o = 0; o < c_.outputs; ++o)
        for (size_t i = 0; i < c_.inputs; ++i)
          expected[p * c_.outputs + o] += double{x_[q * c_.inputs + i]} * w_[Weight(o, i, tap)];
    });
    for (double& e : expected) e = relu ? std::max(0.0, e) : e;
    std::vector<float> y(expected.size());
    WinogradOutput(m_.data(), to_tiles_, bias.data(), relu, to_, y.data());
    ExpectNear(y, expected);
  }
}

TEST_P(WinogradOf, BackwardEqualsTheAdjoint) {
  WinogradInput(x_.data(), from_, c_.pad, c_.pad, from_tiles_, u_.data());
  for (size_t i = 0; i < c_.inputs; ++i)
    WinogradFilter(w_.data(), c_.outputs, c_.inputs, i, f_.data());
  std::vector<float> sums(c_.outputs);
  WinogradOutputBackward(dy_.data(), to_, to_tiles_, m_.data(), sums.data());
  std::vector<float> du(u_.size()), df(f_.size()), dx(x_.size(), 99), dw(w_.size(), 99);
  ForMatrices([&](size_t t) {
    for (size_t k = 0; k < tiles_ * c_.inputs * c_.outputs; ++k) {
      const size_t o = k % c_.outputs, i = k / c_.outputs % c_.inputs;
      const size_t tile = t * tiles_ + k / c_.outputs / c_.inputs;
      const float dm = m_[tile * c_.outputs + o];
      du[tile * c_.inputs + i] += dm * f_[(t * c_.inputs + i) * c_.outputs + o];
      df[(t * c_.inputs + i) * c_.outputs + o] += dm * u_[tile * c_.inputs + i];
    }
  });
  WinogradInputBackward(du.data(), from_tiles_, c_.pad, c_.pad, from_, dx.data());
  for (size_t i = 0; i < c_.inputs; ++i)
    WinogradFilterBackward(df.data(), c_.outputs, c_.inputs, i, dw.data());
  std::vector<double> expected_dx(x_.size()), expected_dw(w_.size()), expected_sums(c_.outputs);
  for (size_t k = 0; k < dy_.size(); ++k) expected_sums[k % c_.outputs] += dy_[k];
  ForTaps([&](size_t p, size_t q, size_t tap) {
    for (size_t o = 0; o < c_.outputs; ++o) {
      for (size_t i = 0; i < c_.inputs; ++i) {
        const double dy = dy_[p * c_.outputs + o];
        expected_dx[q * c_.inputs + i] += dy * w_[Weight(o, i, tap)];
        expected_dw[Weight(o, i, tap)] += dy * x_[q * c_.inputs + i];
      }
    }
  });
  ExpectNear(dx, expected_dx);
  ExpectNear(dw, expected_dw);
  ExpectNear(sums, expected_sums);
}

INSTANTIATE_TEST_SUITE_P(Images, WinogradOf,
                         testing::Values(Case{5, 5, 0, 1, 1}, Case{7, 6, 2, 3, 5},
                                         Case{8, 9, 1, 16, 20}, Case{6, 11, 2, 17, 16}));

}  // namespace
}  // namespace tern::kernels

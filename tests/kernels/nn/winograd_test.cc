// Tests of Winograd's algorithm for convolutions with 5 x 5 kernels: the transforms of inputs,
// filters and outputs, and their gradients, against plain loops in double precision.
#include "kernels/nn/winograd.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

struct ConvShape {
  size_t height, width, pad, inputs, outputs;  // inputs, outputs: numbers of channels
};

class WinogradOf : public testing::TestWithParam<ConvShape> {
 protected:
  static std::vector<float> RandomValues(uint32_t tensor, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) * 0x1p-31 - 1);
    return values;
  }
  // Calls visit(output pixel, input pixel, tap) for those of the 25 taps of every window that are
  // inside the image.
  template <typename Visit>
  void ForEachTap(const Visit& visit) const {
    for (size_t p = 0; p < out_height_ * out_width_; ++p) {
      for (size_t tap = 0; tap < 25; ++tap) {
        const size_t row = p / out_width_ + tap / 5, column = p % out_width_ + tap % 5;
        if (row < shape_.pad || row >= shape_.height + shape_.pad) continue;
        if (column < shape_.pad || column >= shape_.width + shape_.pad) continue;
        visit(p, (row - shape_.pad) * shape_.width + column - shape_.pad, tap);
      }
    }
  }
  // Calls visit(t) for each of the matrix products of Winograd's algorithm.
  template <typename Visit>
  static void ForEachMatrix(const Visit& visit) {
    for (size_t t = 0; t < kWinogradMatrices; ++t) visit(t);
  }
  // Returns the index of the weight from input channel i to output channel o at a tap.
  size_t WeightIndex(size_t o, size_t i, size_t tap) const {
    return (o * shape_.inputs + i) * 25 + tap;
  }
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-4) << i;
  }

  const ConvShape shape_ = GetParam();
  const size_t out_height_ = shape_.height + 2 * shape_.pad - 4,
               out_width_ = shape_.width + 2 * shape_.pad - 4;
  const size_t tile_rows_ = (out_height_ + 3) / 4, tile_columns_ = (out_width_ + 3) / 4;
  const size_t num_tiles_ = tile_rows_ * tile_columns_, num_pixels_ = shape_.height * shape_.width;
  const size_t num_out_pixels_ = out_height_ * out_width_;
  const WinogradImage input_image_ = {shape_.height, shape_.width, shape_.inputs, shape_.inputs};
  const WinogradImage output_image_ = {out_height_, out_width_, shape_.outputs, shape_.outputs};
  const WinogradTiles input_tiles_ = {tile_rows_, tile_columns_, num_tiles_* shape_.inputs,
                                      shape_.inputs};
  const WinogradTiles output_tiles_ = {tile_rows_, tile_columns_, num_tiles_* shape_.outputs,
                                       shape_.outputs};
  const std::vector<float> x_ = RandomValues(1, num_pixels_* shape_.inputs);
  const std::vector<float> w_ = RandomValues(2, shape_.outputs* shape_.inputs * 25);
  const std::vector<float> dy_ = RandomValues(3, num_out_pixels_* shape_.outputs);
  // The transformed input, filter and output.
  std::vector<float> u_ = std::vector<float>(kWinogradMatrices * num_tiles_ * shape_.inputs);
  std::vector<float> f_ = std::vector<float>(kWinogradMatrices * shape_.inputs * shape_.outputs);
  std::vector<float> m_ = std::vector<float>(kWinogradMatrices * num_tiles_ * shape_.outputs);
};

TEST_P(WinogradOf, ForwardEqualsTheConvolution) {
  WinogradInput(x_.data(), input_image_, shape_.pad, shape_.pad, input_tiles_, u_.data());
  for (size_t i = 0; i < shape_.inputs; ++i)
    WinogradFilter(w_.data(), shape_.outputs, shape_.inputs, i, f_.data());
  ForEachMatrix([&](size_t t) {
    for (size_t k = 0; k < num_tiles_ * shape_.inputs * shape_.outputs; ++k) {
      const size_t o = k % shape_.outputs, i = k / shape_.outputs % shape_.inputs;
      const size_t tile = k / shape_.outputs / shape_.inputs;
      m_[(t * num_tiles_ + tile) * shape_.outputs + o] +=
          u_[(t * num_tiles_ + tile) * shape_.inputs + i] *
          f_[(t * shape_.inputs + i) * shape_.outputs + o];
    }
  });
  const std::vector<float> bias = RandomValues(4, shape_.outputs);
  for (const bool has_relu : {false, true}) {
    std::vector<double> expected(num_out_pixels_ * shape_.outputs);
    for (size_t k = 0; k < expected.size(); ++k) expected[k] = bias[k % shape_.outputs];
    ForEachTap([&](size_t p, size_t q, size_t tap) {
      for (size_t o = 0; o < shape_.outputs; ++o)
        for (size_t i = 0; i < shape_.inputs; ++i)
          expected[p * shape_.outputs + o] +=
              double{x_[q * shape_.inputs + i]} * w_[WeightIndex(o, i, tap)];
    });
    for (double& e : expected) e = has_relu ? std::max(0.0, e) : e;
    std::vector<float> y(expected.size());
    WinogradOutput(m_.data(), output_tiles_, bias.data(), has_relu, output_image_, y.data());
    ExpectNear(y, expected);
  }
}

TEST_P(WinogradOf, BackwardEqualsTheAdjoint) {
  WinogradInput(x_.data(), input_image_, shape_.pad, shape_.pad, input_tiles_, u_.data());
  for (size_t i = 0; i < shape_.inputs; ++i)
    WinogradFilter(w_.data(), shape_.outputs, shape_.inputs, i, f_.data());
  std::vector<float> sums(shape_.outputs);
  WinogradOutputBackward(dy_.data(), output_image_, output_tiles_, m_.data(), sums.data());
  std::vector<float> du(u_.size()), df(f_.size()), dx(x_.size(), 99), dw(w_.size(), 99);
  ForEachMatrix([&](size_t t) {
    for (size_t k = 0; k < num_tiles_ * shape_.inputs * shape_.outputs; ++k) {
      const size_t o = k % shape_.outputs, i = k / shape_.outputs % shape_.inputs;
      const size_t tile = t * num_tiles_ + k / shape_.outputs / shape_.inputs;
      const float dm = m_[tile * shape_.outputs + o];
      du[tile * shape_.inputs + i] += dm * f_[(t * shape_.inputs + i) * shape_.outputs + o];
      df[(t * shape_.inputs + i) * shape_.outputs + o] += dm * u_[tile * shape_.inputs + i];
    }
  });
  WinogradInputBackward(du.data(), input_tiles_, shape_.pad, shape_.pad, input_image_, dx.data());
  for (size_t i = 0; i < shape_.inputs; ++i)
    WinogradFilterBackward(df.data(), shape_.outputs, shape_.inputs, i, dw.data());
  std::vector<double> expected_dx(x_.size()), expected_dw(w_.size()), expected_sums(shape_.outputs);
  for (size_t k = 0; k < dy_.size(); ++k) expected_sums[k % shape_.outputs] += dy_[k];
  ForEachTap([&](size_t p, size_t q, size_t tap) {
    for (size_t o = 0; o < shape_.outputs; ++o) {
      for (size_t i = 0; i < shape_.inputs; ++i) {
        const double dy = dy_[p * shape_.outputs + o];
        expected_dx[q * shape_.inputs + i] += dy * w_[WeightIndex(o, i, tap)];
        expected_dw[WeightIndex(o, i, tap)] += dy * x_[q * shape_.inputs + i];
      }
    }
  });
  ExpectNear(dx, expected_dx);
  ExpectNear(dw, expected_dw);
  ExpectNear(sums, expected_sums);
}

INSTANTIATE_TEST_SUITE_P(Images, WinogradOf,
                         testing::Values(ConvShape{5, 5, 0, 1, 1}, ConvShape{7, 6, 2, 3, 5},
                                         ConvShape{8, 9, 1, 16, 20}, ConvShape{6, 11, 2, 17, 16}));

}  // namespace
}  // namespace tern::kernels

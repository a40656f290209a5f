// Tests of the four kernels of batch normalization (moments, output, sums of the backward pass,
// input gradient) against their equations in double precision. A slab has rows (pixels) of
// `channels` elements each; consecutive rows begin `stride` elements apart.
#include "kernels/nn/batch_norm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

struct SlabShape {
  size_t rows, stride, channels;
};

class BatchNormOf : public testing::TestWithParam<SlabShape> {
 protected:
  using PerChannel = std::array<float, kNormChannels>;

  // Returns values that are uniform in [middle - 1, middle + 1).
  std::vector<float> RandomValues(uint32_t tensor, float middle) const {
    std::vector<float> values(size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          middle + static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) * 0x1p-31 - 1);
    return values;
  }
  // Returns first, first + step, first + 2 step ...
  static PerChannel Ramp(float first, float step) {
    PerChannel values;
    for (size_t c = 0; c < values.size(); ++c) values[c] = first + step * static_cast<float>(c);
    return values;
  }
  size_t size() const { return slab_.rows * slab_.stride; }
  size_t IndexOf(size_t row, size_t c) const { return row * slab_.stride + c; }

  const Slab slab_ = {GetParam().rows, GetParam().stride, GetParam().channels};
  const std::vector<float> x_ = RandomValues(1, 2), dy_ = RandomValues(2, 0),
                           addend_ = RandomValues(3, 0);
  const PerChannel scale_ = Ramp(0.5f, -0.1f), shift_ = Ramp(-1, 0.2f), mean_ = Ramp(1.9f, 0.01f);
};

TEST_P(BatchNormOf, MomentsAccumulate) {
  PerChannel sum = Ramp(7, 0), sum_of_squares = Ramp(8, 0);
  NormMoments(x_.data(), slab_, mean_.data(), sum.data(), sum_of_squares.data());
  for (size_t c = 0; c < kNormChannels; ++c) {
    double expected_sum = 7, expected_squares = 8;
    for (size_t row = 0; c < slab_.channels && row < slab_.rows; ++row) {
      const double centered = double{x_[IndexOf(row, c)]} - mean_[c];
      expected_sum += centered;
      expected_squares += centered * centered;
    }
    EXPECT_NEAR(sum[c], expected_sum, 1e-4) << c;
    EXPECT_NEAR(sum_of_squares[c], expected_squares, 1e-4) << c;
  }
}

TEST_P(BatchNormOf, OutputIsScaledShiftedAddedAndRectified) {
  for (const bool has_addend : {false, true}) {
    for (const bool has_relu : {false, true}) {
      for (const bool bypasses_caches : {false, true}) {
        std::vector<float> y(size(), 99);
        NormApply(x_.data(), has_addend ? addend_.data() : nullptr, slab_, scale_.data(),
                  shift_.data(), has_relu, bypasses_caches, y.data());
        for (size_t i = 0; i < size(); ++i) {
          const size_t c = i % slab_.stride;
          double expected = 99;  // Elements outside the slab's channels must not change.
          if (c < slab_.channels) {
            expected = double{x_[i]} * scale_[c] + shift_[c] + (has_addend ? addend_[i] : 0);
            if (has_relu) expected = std::max(0.0, expected);
          }
          EXPECT_NEAR(y[i], expected, 1e-5) << i;
        }
      }
    }
  }
}

TEST_P(BatchNormOf, NansStayNans) {
  std::vector<float> x = x_, y(size());
  x[0] = std::nanf("");
  NormApply(x.data(), nullptr, slab_, scale_.data(), shift_.data(), /*has_relu=*/true, false,
            y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST_P(BatchNormOf, BackwardFollowsTheEquations) {
  std::vector<float> y(size());
  for (const bool has_addend : {false, true}) {
    for (const bool has_relu : {false, true}) {
      NormApply(x_.data(), has_addend ? addend_.data() : nullptr, slab_, scale_.data(),
                shift_.data(), has_relu, false, y.data());
      const NormMask mask = {has_relu, has_addend ? y.data() : nullptr, scale_.data(),
                             shift_.data()};
      PerChannel sum = Ramp(1, 0), sum_of_products = Ramp(2, 0);
      std::vector<float> passed_gradients = dy_;
      NormBackwardSums(x_.data(), dy_.data(), slab_, mask, mean_.data(), sum.data(),
                       sum_of_products.data(), has_addend ? passed_gradients.data() : nullptr);
      // dx = scale * (passed gradient) + slope * (x - mean) + offset. The passed gradient is dy, or
      // 0 where the output of a ReLU is not positive.
      const PerChannel slope = Ramp(0.3f, 0.1f), offset = Ramp(-0.2f, 0.1f);
      std::vector<float> dx = dy_;  // The kernel overwrites dy with dx.
      NormBackwardApply(x_.data(), dx.data(), slab_, mask, mean_.data(), scale_.data(),
                        slope.data(), offset.data(), dx.data());
      for (size_t c = 0; c < slab_.channels; ++c) {
        double expected_sum = 1, expected_sum_of_products = 2;
        for (size_t row = 0; row < slab_.rows; ++row) {
          const size_t i = IndexOf(row, c);
          const double passed_gradient = !has_relu || y[i] > 0 ? dy_[i] : 0,
                       centered = double{x_[i]} - mean_[c];
          expected_sum += passed_gradient;
          expected_sum_of_products += passed_gradient * centered;
          EXPECT_EQ(passed_gradients[i], has_addend ? static_cast<float>(passed_gradient) : dy_[i]);
          EXPECT_NEAR(dx[i], scale_[c] * passed_gradient + (slope[c] * centered + offset[c]), 1e-5);
        }
        EXPECT_NEAR(sum[c], expected_sum, 1e-4);
        EXPECT_NEAR(sum_of_products[c], expected_sum_of_products, 1e-4);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Slabs, BatchNormOf,
                         testing::Values(SlabShape{1, 16, 16}, SlabShape{2, 16, 16},
                                         SlabShape{49, 16, 16}, SlabShape{5, 48, 16},
                                         SlabShape{7, 20, 16}, SlabShape{7, 20, 4},
                                         SlabShape{3, 1, 1}, SlabShape{6, 7, 7},
                                         SlabShape{9, 13, 11}));

}  // namespace
}  // namespace tern::kernels

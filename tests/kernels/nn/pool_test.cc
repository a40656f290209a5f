// Pooling on a CPU against its definition, element by element.
#include "kernels/nn/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

using testing::NanSensitiveFloatEq;
using testing::Pointwise;

struct PoolCase {
  uint32_t h, w, channels, kernel, stride, pad;
};

void PrintTo(const PoolCase& c, std::ostream* out) {
  *out << c.h << "x" << c.w << "x" << c.channels << " by " << c.kernel << "/" << c.stride << " pad "
       << c.pad;
}

class PoolOf : public testing::TestWithParam<PoolCase> {
 protected:
  PoolOf() {
    const PoolCase& c = GetParam();
    const DeviceAxis axis{.kernel = c.kernel, .stride = c.stride, .pad = c.pad};
    const auto outputs = [&c](uint32_t size) {
      return (size + 2 * c.pad - c.kernel) / c.stride + 1;
    };
    slide_ = {{1, c.h, c.w, c.channels}, {1, outputs(c.h), outputs(c.w), c.channels}, {axis, axis}};
    x_ = RandomValues(1, slide_.in.size());
    dy_ = RandomValues(2, slide_.out.size());
  }
  // Multiples of 1/4, so that sums are exact and equal values are frequent.
  static std::vector<float> RandomValues(uint32_t tensor, uint64_t n) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) % 17) / 4 - 2;
    return values;
  }
  static size_t IndexOf(const DeviceImages& images, uint32_t h, uint32_t w, uint32_t c) {
    return (size_t{h} * images.w + w) * images.c + c;
  }
  // Calls use(tap, index in the input) for the elements of an output's window that are in the
  // image.
  template <typename Use>
  void ForWindow(uint32_t h, uint32_t w, uint32_t c, const Use& use) const {
    const auto [kernel, stride, dilation, pad] = slide_.window.rows;
    for (uint32_t tap = 0; tap < kernel * kernel; ++tap) {
      const uint32_t row = h * stride + tap / kernel, column = w * stride + tap % kernel;
      if (row < pad || row - pad >= slide_.in.h || column < pad || column - pad >= slide_.in.w)
        continue;
      use(tap, IndexOf(slide_.in, row - pad, column - pad, c));
    }
  }
  // Calls use(h, w, c, index in the output) for each output.
  template <typename Use>
  void ForOutputs(const Use& use) const {
    for (uint32_t h = 0; h < slide_.out.h; ++h)
      for (uint32_t w = 0; w < slide_.out.w; ++w)
        for (uint32_t c = 0; c < slide_.out.c; ++c) use(h, w, c, IndexOf(slide_.out, h, w, c));
  }
  float DivisorAt(uint32_t h, uint32_t w, bool include_padding) const {
    if (include_padding) return static_cast<float>(GetParam().kernel * GetParam().kernel);
    float divisor = 0;
    ForWindow(h, w, 0, [&](uint32_t, size_t) { ++divisor; });
    return divisor;
  }

  DeviceSlide slide_;
  std::vector<float> x_, dy_;
};

TEST_P(PoolOf, MaximaAndTheirGradients) {
  for (const size_t i : {x_.size() / 2, x_.size() / 3})
    x_[i] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y(slide_.out.size()), dx(slide_.in.size(), 99.f), without(y.size());
  std::vector<uint16_t> winner(y.size());
  MaxPoolForward(slide_, x_.data(), y.data(), winner.data());
  MaxPoolForward(slide_, x_.data(), without.data(), nullptr);
  MaxPoolBackward(slide_, dy_.data(), winner.data(), dx.data());
  std::vector<float> expected_dx(slide_.in.size());
  ForOutputs([&](uint32_t h, uint32_t w, uint32_t c, size_t out) {
    float largest = -std::numeric_limits<float>::infinity();
    uint32_t expected_winner = 0;
    size_t input = 0;
    ForWindow(h, w, c, [&](uint32_t tap, size_t in) {
      if (x_[in] <= largest || (std::isnan(largest) && !std::isnan(x_[in]))) return;
      expected_winner = tap;
      input = in;
      largest = x_[in];
    });
    EXPECT_THAT(y[out], NanSensitiveFloatEq(largest));
    EXPECT_EQ(winner[out], expected_winner);
    expected_dx[input] += dy_[out];
  });
  EXPECT_THAT(without, Pointwise(NanSensitiveFloatEq(), y));
  EXPECT_EQ(dx, expected_dx);
}

TEST_P(PoolOf, MeansAndTheirGradients) {
  for (const bool include_padding : {false, true}) {
    std::vector<float> y(slide_.out.size()), dx(slide_.in.size(), 99.f);
    AvgPoolForward(slide_, include_padding, x_.data(), y.data());
    AvgPoolBackward(slide_, include_padding, dy_.data(), dx.data());
    std::vector<float> expected_dx(slide_.in.size());
    ForOutputs([&](uint32_t h, uint32_t w, uint32_t c, size_t out) {
      const float divisor = DivisorAt(h, w, include_padding);
      float sum = 0;
      ForWindow(h, w, c, [&](uint32_t, size_t in) {
        sum += x_[in];
        expected_dx[in] += dy_[out] / divisor;
      });
      EXPECT_EQ(y[out], sum / divisor);
    });
    EXPECT_EQ(dx, expected_dx);
  }
}

// Numbers of channels below, at and between the sizes of vectors; windows that overlap, that leave
// inputs out, that reach beyond the image, and one as large as the image.
INSTANTIATE_TEST_SUITE_P(Windows, PoolOf,
                         testing::Values(PoolCase{24, 24, 20, 2, 2, 0}, PoolCase{8, 8, 50, 2, 2, 0},
                                         PoolCase{13, 9, 16, 3, 2, 0}, PoolCase{13, 9, 96, 3, 2, 1},
                                         PoolCase{7, 7, 3, 3, 1, 1}, PoolCase{9, 8, 1, 2, 3, 0},
                                         PoolCase{9, 10, 6, 3, 4, 2}, PoolCase{5, 6, 13, 3, 1, 0},
                                         PoolCase{12, 12, 7, 12, 12, 0},
                                         PoolCase{6, 6, 33, 5, 2, 2}));

}  // namespace
}  // namespace tern::kernels

// Tests of local response normalization on a GPU against the CPU's.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/codes/philox.h"
#include "kernels/nn/lrn.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {
namespace {

struct DeviceLrnCase {
  uint32_t channels, pixels, size;
};

std::vector<float> RandomValues(size_t n, uint32_t tensor) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(Draw32({.seed = 3, .tensor = tensor}, i) * 0x1p-30 - 2);
  return values;
}

class DeviceLrnOf : public testing::TestWithParam<DeviceLrnCase> {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
};

TEST_P(DeviceLrnOf, MatchesTheCpu) {
  const auto [channels, pixels, size] = GetParam();
  const size_t n = size_t{channels} * pixels;
  const std::vector<float> x = RandomValues(n, 1), dy = RandomValues(n, 2);
  const LrnImage image{channels, pixels, /*is_blocked=*/false};
  const LrnRule rule{size, 0.8f, 0.75f, 1.5f};
  const DeviceLrn device_rule{size, rule.alpha, rule.beta, rule.k};
  std::vector<float> y(n), dx(n);
  LrnForward(x.data(), image, rule, y.data());
  LrnBackward(x.data(), dy.data(), image, rule, dx.data());

  DeviceArray<float> device_x(x), device_dy(dy), device_y(n), device_dx(n);
  ASSERT_EQ(LrnForwardOnDevice(nullptr, DeviceType::kFloat, device_x.data(), pixels, channels,
                               device_rule, device_y.data()),
            0);
  ASSERT_EQ(LrnBackwardOnDevice(nullptr, DeviceType::kFloat, device_x.data(), device_dy.data(),
                                pixels, channels, device_rule, device_dx.data()),
            0);
  const std::vector<float> device_output = device_y.Read(), device_gradient = device_dx.Read();
  for (size_t i = 0; i < n; ++i) {
    ASSERT_NEAR(device_output[i], y[i], 2e-6) << i;
    ASSERT_NEAR(device_gradient[i], dx[i], 1e-5) << i;
  }
}

// Windows of one channel, of more channels than there are, and so large that the threads of a block
// do not share powers; arrays of less than one block and of several.
INSTANTIATE_TEST_SUITE_P(Windows, DeviceLrnOf,
                         testing::Values(DeviceLrnCase{96, 40, 5}, DeviceLrnCase{1, 3, 1},
                                         DeviceLrnCase{7, 301, 3}, DeviceLrnCase{5, 900, 17},
                                         DeviceLrnCase{300, 9, 257}, DeviceLrnCase{2048, 2, 9},
                                         DeviceLrnCase{40, 50, 301}));

}  // namespace
}  // namespace tern::kernels

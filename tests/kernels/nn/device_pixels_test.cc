// Tests that a GPU converts image bytes to the same numbers as the CPU, bit for bit. The GPU stores
// the channels of a pixel together; the CPU stores each channel as a plane. `draws` are the random
// color changes of each image.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/codes/half.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/pixels.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {
namespace {

struct Batch {
  Batch(const DeviceImages& images, uint64_t seed) : images(images), bytes(images.size()) {
    std::mt19937_64 random(seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    for (uint32_t n = 0; n < images.n; ++n) {
      const auto uniform = [&] { return static_cast<float>(random() >> 11) * 0x1p-53f; };
      draws.push_back({-60 + 120 * uniform(), 0.2f + 1.6f * uniform(), n % 2});
    }
    // The first image has equal pixels, so its deviation is 0. The last image becomes so bright
    // that values must be clipped.
    std::fill_n(bytes.begin(), images.size() / images.n, 77);
    draws.back().brightness_shift = 200;
  }
  const DeviceImages images;
  std::vector<uint8_t> bytes;
  std::vector<PixelDraws> draws;
};

// Converts on the CPU and returns the numbers in the GPU's order.
std::vector<float> ConvertOnCpu(const Batch& batch, const PixelRule& rule) {
  const DeviceImages& images = batch.images;
  const uint64_t image_size = images.size() / images.n, plane_size = uint64_t{images.h} * images.w;
  const PixelTables tables(rule);
  std::vector<float> channels_first(image_size), channels_last;
  for (uint32_t n = 0; n < images.n; ++n) {
    tables.ToFloats(batch.bytes.data() + n * image_size, images.h, images.w, batch.draws[n],
                    channels_first.data());
    for (uint64_t i = 0; i < plane_size; ++i)
      for (uint32_t c = 0; c < images.c; ++c)
        channels_last.push_back(channels_first[c * plane_size + i]);
  }
  return channels_last;
}

// `more_channels`: how many channels of zeros each pixel gets. Checks them and leaves them out.
template <typename T>
std::vector<T> ConvertOnDevice(const Batch& batch, const PixelRule& rule, DeviceType type,
                               uint32_t more_channels = 0) {
  const DeviceImages& images = batch.images;
  DeviceArray<uint8_t> bytes(batch.bytes);
  DeviceArray<PixelDraws> draws(batch.draws);
  DeviceArray<ChannelScale> channels(rule.channels);
  DeviceArray<float> moments(images.n * (images.c + 2));
  DeviceStep step;
  step.bytes = bytes.data();
  step.draws = draws.data();
  DeviceArray<DeviceStep> steps(std::vector<DeviceStep>{step});
  const uint32_t y_channels = images.c + more_channels;
  DeviceArray<T> y(std::vector<T>(images.pixels() * y_channels, T{1}));
  EXPECT_EQ(PixelsToImagesOnDevice(nullptr, steps.data(), images,
                                   {channels.data(), rule.changes_colors, rule.standardizes},
                                   moments.data(), y_channels, type, y.data()),
            0);
  std::vector<T> converted;
  const std::vector<T> all = y.Read();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % y_channels < images.c)
      converted.push_back(all[i]);
    else
      EXPECT_EQ(all[i], T{0}) << i;
  }
  return converted;
}

template <typename T>
void ExpectSameBits(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << i << ": " << +a[i] << ", " << +b[i];
}

constexpr ChannelScale kDefaultScale, kSymmetricScale{.scale = 2, .offset = -1},
    kImageNetRedScale{.mean = 0.485f, .deviation = 0.229f},
    kImageNetBlueScale{.mean = 0.406f, .deviation = 0.225f};

class DevicePixels : public testing::TestWithParam<DeviceImages> {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
  static PixelRule RuleOf(bool changes_colors, bool standardizes) {
    const ChannelScale scales[] = {kImageNetRedScale, kSymmetricScale, kImageNetBlueScale,
                                   kDefaultScale};
    PixelRule rule{{}, changes_colors, standardizes};
    for (uint32_t c = 0; c < GetParam().c; ++c) rule.channels.push_back(scales[c % 4]);
    return rule;
  }
};

TEST_P(DevicePixels, MatchCpu) {
  const Batch batch(GetParam(), 5);
  for (const bool changes_colors : {false, true}) {
    for (const bool standardizes : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << "colors " << changes_colors << " standardize " << standardizes);
      const PixelRule rule = RuleOf(changes_colors, standardizes);
      const std::vector<float> expected = ConvertOnCpu(batch, rule);
      for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
      ExpectSameBits(ConvertOnDevice<float>(batch, rule, DeviceType::kFloat), expected);
      std::vector<uint16_t> rounded(expected.size());
      FloatToBfloat(expected.data(), expected.size(), rounded.data());
      ExpectSameBits(ConvertOnDevice<uint16_t>(batch, rule, DeviceType::kBfloat), rounded);
      FloatToHalf(expected.data(), expected.size(), rounded.data());
      ExpectSameBits(ConvertOnDevice<uint16_t>(batch, rule, DeviceType::kHalf), rounded);
      ExpectSameBits(ConvertOnDevice<uint16_t>(batch, rule, DeviceType::kHalf, 5), rounded);
    }
  }
}

// Sizes below and above a warp's and a block's numbers of threads, and CIFAR's size.
INSTANTIATE_TEST_SUITE_P(Of, DevicePixels,
                         testing::Values(DeviceImages{3, 1, 5, 1}, DeviceImages{2, 7, 9, 3},
                                         DeviceImages{5, 32, 32, 3}, DeviceImages{2, 41, 53, 4},
                                         DeviceImages{1, 67, 64, 1}),
                         [](const auto& test) {
                           const DeviceImages& images = test.param;
                           return std::to_string(images.n) + "x" + std::to_string(images.h) + "x" +
                                  std::to_string(images.w) + "x" + std::to_string(images.c);
                         });

}  // namespace
}  // namespace tern::kernels

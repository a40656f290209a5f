// Tests that GPU kernels that process arrays element by element give the same bits as the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/codes/half.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/arrays.h"
#include "kernels/update/optimizer.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {
namespace {

constexpr size_t kNumElements = 5000;

std::vector<float> NormalArray(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kNumElements);
  for (float& value : values) value = normal(random);
  return values;
}

// Returns some special values, and floats with random bits, so with exponents of every size.
std::vector<float> RandomBits() {
  std::mt19937_64 random(3);
  std::vector<float> values(kNumElements);
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(&value, &bits, sizeof value);
  }
  const float odd_values[] = {
      0.f, -0.f, 65504.f, 65520.f, 1e-45f, std::nanf(""), std::numeric_limits<float>::infinity()};
  std::copy(std::begin(odd_values), std::end(odd_values), values.begin());
  return values;
}

template <typename T>
void ExpectSameBits(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0);
}

class DeviceArrays : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "there is no GPU here";
  }
};

TEST_F(DeviceArrays, SixteenBitConversionsMatchCpu) {
  const std::vector<float> values = RandomBits();
  DeviceArray<float> x(values), round_trip(kNumElements);
  DeviceArray<uint16_t> encoded(kNumElements);
  std::vector<uint16_t> encoded_on_cpu(kNumElements);
  std::vector<float> round_trip_on_cpu(kNumElements);
  ASSERT_EQ(FloatToHalfOnDevice(nullptr, x.data(), kNumElements, encoded.data()), 0);
  ASSERT_EQ(HalfToFloatOnDevice(nullptr, encoded.data(), kNumElements, round_trip.data()), 0);
  FloatToHalf(values.data(), kNumElements, encoded_on_cpu.data());
  HalfToFloat(encoded_on_cpu.data(), kNumElements, round_trip_on_cpu.data());
  ExpectSameBits(encoded.Read(), encoded_on_cpu);
  ExpectSameBits(round_trip.Read(), round_trip_on_cpu);
  ASSERT_EQ(FloatToBfloatOnDevice(nullptr, x.data(), kNumElements, encoded.data()), 0);
  ASSERT_EQ(BfloatToFloatOnDevice(nullptr, encoded.data(), kNumElements, round_trip.data()), 0);
  FloatToBfloat(values.data(), kNumElements, encoded_on_cpu.data());
  BfloatToFloat(encoded_on_cpu.data(), kNumElements, round_trip_on_cpu.data());
  ExpectSameBits(encoded.Read(), encoded_on_cpu);
  ExpectSameBits(round_trip.Read(), round_trip_on_cpu);
}

TEST_F(DeviceArrays, ScalingMatchesCpu) {
  std::vector<float> x = NormalArray(1);
  DeviceArray<float> x_on_device(x);
  ASSERT_EQ(ScaleOnDevice(nullptr, x_on_device.data(), kNumElements, 0.3f), 0);
  Scale(x.data(), kNumElements, 0.3f);
  ExpectSameBits(x_on_device.Read(), x);
}

TEST_F(DeviceArrays, NonFiniteValuesAreCounted) {
  const std::vector<float> x = RandomBits();
  DeviceArray<float> x_on_device(x);
  DeviceArray<uint32_t> num_non_finite(std::vector<uint32_t>{5});
  ASSERT_EQ(
      CountNotFiniteOnDevice(nullptr, x_on_device.data(), kNumElements, num_non_finite.data()), 0);
  const auto expected_count =
      std::count_if(x.begin(), x.end(), [](float v) { return !std::isfinite(v); });
  ASSERT_GT(expected_count, 2);
  EXPECT_EQ(num_non_finite.Read()[0], 5u + expected_count);
}

TEST_F(DeviceArrays, DecayAndAverageMatchCpu) {
  std::vector<float> g = NormalArray(1), w = NormalArray(2), out(kNumElements);
  DeviceArray<float> g_on_device(g), w_on_device(w), out_on_device(kNumElements);
  ASSERT_EQ(AddDecayOnDevice(nullptr, g_on_device.data(), w_on_device.data(), kNumElements, 0.0005f,
                             out_on_device.data()),
            0);
  AddDecay(g.data(), w.data(), kNumElements, 0.0005f, out.data());
  ExpectSameBits(out_on_device.Read(), out);
  ASSERT_EQ(
      EmaUpdateOnDevice(nullptr, g_on_device.data(), w_on_device.data(), kNumElements, 0.001f), 0);
  EmaUpdate(g.data(), w.data(), kNumElements, 0.001f);
  ExpectSameBits(g_on_device.Read(), g);
}

}  // namespace
}  // namespace tern::kernels

// Tests of the conversions between float and the 16-bit formats half (IEEE binary16) and bfloat,
// against their definitions and against plain reference functions. The value 7 marks elements that
// must not change.
#include "kernels/codes/half.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class HalfOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(HalfOnTarget);

uint16_t ToHalf(float x) {
  uint16_t half;
  FloatToHalf(&x, 1, &half);
  return half;
}

// Returns all 65536 patterns of 16 bits.
std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  return halves;
}

std::vector<uint32_t> BitsOf(const std::vector<float>& x) {
  std::vector<uint32_t> bits;
  for (const float value : x) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST_P(HalfOnTarget, EveryHalfDecodesLikeReference) {
  const std::vector<uint16_t> halves = AllPatterns();
  std::vector<float> actual(halves.size()), reference(halves.size());
  HalfToFloat(halves.data(), halves.size(), actual.data());
  HalfToFloatRef(halves.data(), halves.size(), reference.data());
  EXPECT_EQ(BitsOf(actual), BitsOf(reference));
}

TEST_P(HalfOnTarget, EveryHalfDecodesByDefinition) {
  const std::vector<uint16_t> halves = AllPatterns();
  std::vector<float> x(halves.size());
  HalfToFloat(halves.data(), halves.size(), x.data());
  for (unsigned i = 0; i < 0x7C00; ++i) {
    const int exponent = static_cast<int>(i >> 10);
    const int fraction = static_cast<int>(i & 0x3FF);
    const double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(x[i], expected) << i;
    ASSERT_EQ(x[i | 0x8000], -expected) << i;
  }
  EXPECT_TRUE(std::isinf(x[0x7C00]) && std::isinf(x[0xFC00]));
  EXPECT_TRUE(std::isnan(x[0x7C01]) && std::isnan(x[0xFFFF]));
}

TEST_P(HalfOnTarget, EveryHalfRoundTrips) {
  std::vector<uint16_t> halves = AllPatterns();
  std::erase_if(halves, [](uint16_t half) { return (half & 0x7FFF) > 0x7C00; });
  std::vector<float> x(halves.size());
  std::vector<uint16_t> round_trip(halves.size());
  HalfToFloat(halves.data(), halves.size(), x.data());
  FloatToHalf(x.data(), x.size(), round_trip.data());
  EXPECT_EQ(round_trip, halves);
}

TEST_P(HalfOnTarget, EqualsTheReferenceOnAllKindsOfFloats) {
  std::vector<float> x;
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  // Floats that equal a half, their neighbours, and the midpoints between two halves.
  for (const uint16_t half : AllPatterns()) {
    if ((half & 0x7FFF) >= 0x7C00) continue;
    float value;
    HalfToFloatRef(&half, 1, &value);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (const uint32_t step : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu}) {
      x.push_back(std::bit_cast<float>(bits + step));
    }
    x.push_back(std::ldexp(static_cast<float>(half & 0x3FF) + 0.5f, -24));
  }
  std::vector<uint16_t> actual(x.size()), reference(x.size());
  FloatToHalf(x.data(), x.size(), actual.data());
  FloatToHalfRef(x.data(), x.size(), reference.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(actual[i], reference[i]) << std::hex << std::bit_cast<uint32_t>(x[i]);
  }
}

TEST_P(HalfOnTarget, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(ToHalf(1.0f + 0x1p-11f), 0x3C00);
  EXPECT_EQ(ToHalf(1.0f + 3 * 0x1p-11f), 0x3C02);
  EXPECT_EQ(ToHalf(1.0f + 0x1p-11f + 0x1p-23f), 0x3C01);
  EXPECT_EQ(ToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(ToHalf(0x1p-25f + 0x1p-40f), 0x0001);
  EXPECT_EQ(ToHalf(3 * 0x1p-25f), 0x0002);
  EXPECT_EQ(ToHalf(0x1p-14f - 0x1p-26f), 0x0400);  // Rounds up to the smallest normal half.
  EXPECT_EQ(ToHalf(-0.0f), 0x8000);
}

TEST_P(HalfOnTarget, SaturatesFiniteValuesAndKeepsNonFinite) {
  EXPECT_EQ(ToHalf(65504.0f), 0x7BFF);
  EXPECT_EQ(ToHalf(65520.0f), 0x7BFF);
  EXPECT_EQ(ToHalf(1e6f), 0x7BFF);
  EXPECT_EQ(ToHalf(std::numeric_limits<float>::lowest()), 0xFBFF);
  EXPECT_EQ(ToHalf(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(ToHalf(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(ToHalf(std::numeric_limits<float>::quiet_NaN()), 0x7E00);
}

TEST_P(HalfOnTarget, WorksAtEveryLengthAndAlignment) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = Gaussian(n + 1, n);
    std::vector<uint16_t> actual(n + 2, 7), reference(n);
    FloatToHalf(x.data() + 1, n, actual.data() + 1);
    FloatToHalfRef(x.data() + 1, n, reference.data());
    EXPECT_TRUE(actual[0] == 7 && actual[n + 1] == 7);
    EXPECT_TRUE(std::equal(reference.begin(), reference.end(), actual.begin() + 1));
    std::vector<float> round_trip(n + 2, 7), reference_round_trip(n);
    HalfToFloat(actual.data() + 1, n, round_trip.data() + 1);
    HalfToFloatRef(reference.data(), n, reference_round_trip.data());
    EXPECT_TRUE(round_trip[0] == 7 && round_trip[n + 1] == 7);
    EXPECT_TRUE(std::equal(reference_round_trip.begin(), reference_round_trip.end(),
                           round_trip.begin() + 1));
  }
}

uint16_t ToBfloat(float x) {
  uint16_t bfloat;
  FloatToBfloat(&x, 1, &bfloat);
  return bfloat;
}

TEST_P(HalfOnTarget, EveryBfloatIsTheUpperHalfOfItsFloat) {
  const std::vector<uint16_t> all_bits = AllPatterns();
  std::vector<float> actual(all_bits.size()), reference(all_bits.size());
  BfloatToFloat(all_bits.data(), all_bits.size(), actual.data());
  BfloatToFloatRef(all_bits.data(), all_bits.size(), reference.data());
  for (size_t i = 0; i < all_bits.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), i << 16);
    ASSERT_EQ(std::bit_cast<uint32_t>(reference[i]), i << 16);
  }
}

TEST_P(HalfOnTarget, EveryBfloatRoundTrips) {
  const std::vector<uint16_t> all_bits = AllPatterns();
  std::vector<float> x(all_bits.size());
  std::vector<uint16_t> round_trip(all_bits.size());
  BfloatToFloatRef(all_bits.data(), all_bits.size(), x.data());
  FloatToBfloat(x.data(), x.size(), round_trip.data());
  for (size_t i = 0; i < all_bits.size(); ++i) {
    const bool is_nan = (all_bits[i] & 0x7FFF) > 0x7F80;
    // FloatToBfloat makes a NaN quiet.
    ASSERT_EQ(round_trip[i], is_nan ? all_bits[i] | 0x40 : all_bits[i]) << i;
  }
}

// Tests floats between all pairs of neighbouring finite bfloats. The expected result is the nearer
// neighbour, or the even one if both are equally near. Doubles hold the distances exactly.
TEST_P(HalfOnTarget, EveryFloatRoundsToTheNearestBfloat) {
  std::vector<float> x;
  std::vector<uint16_t> expected;
  for (uint32_t upper_bits = 0; upper_bits < 0x7F7F; ++upper_bits) {
    const double lower_neighbour = std::bit_cast<float>(upper_bits << 16);
    const double upper_neighbour = std::bit_cast<float>((upper_bits + 1) << 16);
    for (const uint32_t lower_bits : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const float value = std::bit_cast<float>(upper_bits << 16 | lower_bits);
      const double distance_below = value - lower_neighbour,
                   distance_above = upper_neighbour - value;
      const bool rounds_up = distance_above < distance_below ||
                             (distance_above == distance_below && upper_bits % 2 == 1);
      for (const uint16_t sign : {0, 0x8000}) {
        x.push_back(sign != 0 ? -value : value);
        expected.push_back(static_cast<uint16_t>(sign | (rounds_up ? upper_bits + 1 : upper_bits)));
      }
    }
  }
  std::vector<uint16_t> actual(x.size()), reference(x.size());
  FloatToBfloat(x.data(), x.size(), actual.data());
  FloatToBfloatRef(x.data(), x.size(), reference.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(actual[i], expected[i]) << std::hex << std::bit_cast<uint32_t>(x[i]);
    ASSERT_EQ(reference[i], expected[i]) << std::hex << std::bit_cast<uint32_t>(x[i]);
  }
}

TEST_P(HalfOnTarget, BfloatsSaturateFiniteValuesAndKeepNonFinite) {
  const std::vector<std::pair<uint32_t, uint16_t>> expected_by_bits = {
      {0x7F7F8000, 0x7F7F}, {0x7F7FFFFF, 0x7F7F}, {0xFF7FFFFF, 0xFF7F}, {0x7F800000, 0x7F80},
      {0xFF800000, 0xFF80}, {0x7F800001, 0x7FC0}, {0xFFC12345, 0xFFC1}, {0x80000000, 0x8000},
      {0x00000001, 0x0000}, {0x00008001, 0x0001}};
  for (const auto& [bits, expected] : expected_by_bits) {
    const float x = std::bit_cast<float>(bits);
    uint16_t reference;
    FloatToBfloatRef(&x, 1, &reference);
    EXPECT_EQ(ToBfloat(x), expected) << std::hex << bits;
    EXPECT_EQ(reference, expected) << std::hex << bits;
  }
}

TEST_P(HalfOnTarget, BfloatsWorkAtEveryLengthAndAlignment) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = Gaussian(n + 1, n);
    std::vector<uint16_t> actual(n + 2, 7), reference(n);
    FloatToBfloat(x.data() + 1, n, actual.data() + 1);
    FloatToBfloatRef(x.data() + 1, n, reference.data());
    EXPECT_TRUE(actual[0] == 7 && actual[n + 1] == 7);
    EXPECT_TRUE(std::equal(reference.begin(), reference.end(), actual.begin() + 1));
    std::vector<float> round_trip(n + 2, 7), reference_round_trip(n);
    BfloatToFloat(actual.data() + 1, n, round_trip.data() + 1);
    BfloatToFloatRef(reference.data(), n, reference_round_trip.data());
    EXPECT_TRUE(round_trip[0] == 7 && round_trip[n + 1] == 7);
    EXPECT_TRUE(std::equal(reference_round_trip.begin(), reference_round_trip.end(),
                           round_trip.begin() + 1));
  }
}

}  // namespace
}  // namespace tern::kernels

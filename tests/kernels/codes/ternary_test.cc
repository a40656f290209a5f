// Tests of Ternarize, which codes each element g as sign(g) with the probability |g| / s, and
// otherwise as 0, where s is the scaler. A code is a mask (one bit per element: is it not 0?) and
// one sign bit per element. The fast kernels must equal a plain reference function on every
// instruction set.
#include "kernels/codes/ternary.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr NoiseKey kKey = {
    .seed = 99, .stream = NoiseStream::kCodes, .rank = 3, .round = 5, .tensor = 7};

class TernaryOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(TernaryOnTarget);

struct Codes {
  size_t num_ones = 0;
  std::vector<uint8_t> mask;
  std::vector<uint8_t> signs;
  bool operator==(const Codes&) const = default;
};

using Kernel = decltype(Ternarize);

// Runs a kernel on memory whose address is unaligned by `shift`, and checks that it does not write
// outside its arrays. `first` is the position of g[0] in its tensor.
Codes RunKernel(Kernel* kernel, const std::vector<float>& g, float s, float clip, uint64_t first,
                size_t shift = 0, const NoiseKey& key = kKey) {
  constexpr uint8_t kGuardByte = 0xA5;
  const size_t size = PlaneBytes(g.size());
  std::vector<float> shifted_g(g.size() + shift);
  std::copy(g.begin(), g.end(), shifted_g.begin() + static_cast<ptrdiff_t>(shift));
  std::vector<uint8_t> mask(size + shift + 1, kGuardByte);
  std::vector<uint8_t> signs(size + shift + 1, kGuardByte);
  Codes codes;
  codes.num_ones = kernel(shifted_g.data() + shift, g.size(), s, clip, key, first,
                          mask.data() + shift, signs.data() + shift);
  for (size_t i = 0; i < shift; ++i) EXPECT_TRUE(mask[i] == kGuardByte && signs[i] == kGuardByte);
  EXPECT_TRUE(mask.back() == kGuardByte && signs.back() == kGuardByte);
  const auto begin = static_cast<ptrdiff_t>(shift);
  codes.mask.assign(mask.begin() + begin, mask.end() - 1);
  codes.signs.assign(signs.begin() + begin, signs.end() - 1);
  return codes;
}

std::vector<int8_t> Expand(const Codes& codes, size_t n) {
  std::vector<int8_t> expanded(n);
  ExpandCodes(codes.mask.data(), codes.signs.data(), n, expanded.data());
  return expanded;
}

TEST_P(TernaryOnTarget, EqualsTheReferenceAtEveryLength) {
  for (const size_t n : Lengths()) {
    SCOPED_TRACE(n);
    const std::vector<float> g = Gaussian(n, n + 1);
    const Codes reference = RunKernel(TernarizeRef, g, 2.5f, 2.4f, 8);
    EXPECT_EQ(RunKernel(Ternarize, g, 2.5f, 2.4f, 8), reference);
    EXPECT_EQ(RunKernel(Ternarize, g, 2.5f, 2.4f, 8, 1), reference);
    EXPECT_EQ(RunKernel(Ternarize, g, 2.5f, 2.4f, 8, 3), reference);
  }
}

TEST_P(TernaryOnTarget, EqualsTheReferenceFromEveryFirstElement) {
  for (uint64_t first = 0; first <= 20; ++first) {
    for (const size_t n : {1, 63, 200, 4097, 9001}) {
      SCOPED_TRACE(testing::Message() << first << " " << n);
      const std::vector<float> g = Gaussian(n, n);
      EXPECT_EQ(RunKernel(Ternarize, g, 1.0f, kInfinity, first),
                RunKernel(TernarizeRef, g, 1.0f, kInfinity, first));
    }
  }
}

TEST_P(TernaryOnTarget, EqualsTheReferenceAcrossTheEndOfTheBlockCounter) {
  const uint64_t first = (uint64_t{1} << 35) - 1000;
  const std::vector<float> g = Gaussian(3000, 1);
  EXPECT_EQ(RunKernel(Ternarize, g, 2, 2, first), RunKernel(TernarizeRef, g, 2, 2, first));
}

TEST_P(TernaryOnTarget, EqualsTheReferenceForEveryPartOfTheKey) {
  const std::vector<float> g = Gaussian(500, 1);
  for (uint64_t bit = 0; bit < 64; bit += 7) {
    const uint64_t key_part = uint64_t{1} << bit | 3;
    const NoiseKey key = {.seed = key_part * 977,
                          .stream = bit % 2 == 0 ? NoiseStream::kCodes : NoiseStream::kServerCodes,
                          .rank = static_cast<uint16_t>(0xFFFF - bit),
                          .round = key_part,
                          .tensor = static_cast<uint32_t>(key_part >> 3)};
    EXPECT_EQ(RunKernel(Ternarize, g, 2, 2, 5, 0, key),
              RunKernel(TernarizeRef, g, 2, 2, 5, 0, key));
  }
}

// Each probability is the upper 16 bits of its element's random number plus `fraction`, in units of
// 2^-16. So the code is not 0 if the lower 16 bits of the random number, divided by 2^16, are less
// than `fraction`.
TEST_P(TernaryOnTarget, EqualsTheReferenceIfEveryDrawTies) {
  constexpr size_t kN = 6000;
  for (const double fraction : {0.0, 0.25, 0.5, 0.999, 1.0}) {
    std::vector<float> g(kN);
    for (size_t i = 0; i < kN; ++i) {
      const double draw = Draw16(kKey, i, 0);
      g[i] = static_cast<float>((draw + fraction) * 0x1p-16) * (i % 3 == 0 ? -1.0f : 1.0f);
    }
    const Codes reference = RunKernel(TernarizeRef, g, 1, kInfinity, 0);
    EXPECT_EQ(RunKernel(Ternarize, g, 1, kInfinity, 0), reference);
    EXPECT_NEAR(static_cast<double>(reference.num_ones) / kN, fraction, 0.03);
  }
}

// An element is coded as non-zero if its 32-bit random number (the draw) is less than
// |g| / s * 2^32. Tests both sides of that threshold, wherever they are exact floats.
TEST_P(TernaryOnTarget, ComparesAll32BitsOfTheDraw) {
  int num_found = 0;
  for (uint64_t element = 0; element < 20000; ++element) {
    const double draw = Draw32(kKey, element);
    const auto g_at_draw = static_cast<float>(draw * 0x1p-32);
    const auto g_above_draw = static_cast<float>((draw + 1) * 0x1p-32);
    if (g_at_draw == draw * 0x1p-32) {
      ++num_found;
      EXPECT_EQ(RunKernel(Ternarize, {g_at_draw}, 1, kInfinity, element).num_ones, 0u) << element;
    }
    if (g_above_draw == (draw + 1) * 0x1p-32) {
      ++num_found;
      EXPECT_EQ(RunKernel(Ternarize, {g_above_draw}, 1, kInfinity, element).num_ones, 1u)
          << element;
    }
  }
  EXPECT_GT(num_found, 100);
}

TEST_P(TernaryOnTarget, DecidesByTheQuotientInFloat) {
  // The quotients g / s are inexact. They must be those of a float division, not of a
  // multiplication by 1 / s.
  for (const float s : {3.0f, 0.1f, 7e-5f, 1e-40f, 3e38f}) {
    std::vector<float> g = Gaussian(20000, 17);
    for (float& value : g) value *= s / 3;
    EXPECT_EQ(RunKernel(Ternarize, g, s, kInfinity, 3), RunKernel(TernarizeRef, g, s, kInfinity, 3))
        << s;
  }
}

TEST_P(TernaryOnTarget, GivesOnlyZerosForAZeroScaler) {
  const std::vector<float> g = Gaussian(1000, 1);
  for (Kernel* kernel : {Ternarize, TernarizeRef}) {
    const Codes codes = RunKernel(kernel, g, 0, kInfinity, 0);
    EXPECT_EQ(codes.num_ones, 0u);
    EXPECT_EQ(codes.mask, std::vector<uint8_t>(125, 0));
    EXPECT_EQ(codes.signs, std::vector<uint8_t>(125, 0));
  }
}

TEST_P(TernaryOnTarget, GivesZeroForZeroAndTheSignForMagnitudesFromTheScalerOn) {
  std::vector<float> g(3000);
  const float values[] = {0.0f, -0.0f, 1.5f, -1.5f, 4.0f, kInfinity};
  for (size_t i = 0; i < g.size(); ++i) g[i] = values[i % 6];
  const std::vector<int8_t> codes = Expand(RunKernel(Ternarize, g, 1.5f, kInfinity, 0), g.size());
  const int8_t expected[] = {0, 0, 1, -1, 1, 1};
  for (size_t i = 0; i < g.size(); ++i) ASSERT_EQ(codes[i], expected[i % 6]) << i;
}

TEST_P(TernaryOnTarget, AcceptsNonFiniteAndInvalidValues) {
  std::vector<float> g = Gaussian(1000, 1);
  g[3] = kInfinity;
  g[4] = std::numeric_limits<float>::quiet_NaN();
  g[5] = std::numeric_limits<float>::denorm_min();
  const float odd_values[] = {kInfinity, -1.0f, std::numeric_limits<float>::quiet_NaN(), 1.0f};
  for (const float s : odd_values) {
    for (const float clip : odd_values) {
      EXPECT_EQ(RunKernel(Ternarize, g, s, clip, 0), RunKernel(TernarizeRef, g, s, clip, 0))
          << s << " " << clip;
    }
  }
}

TEST_P(TernaryOnTarget, CodesOfAPartEqualThatPartOfTheWhole) {
  const std::vector<float> g = Gaussian(5000, 2);
  const std::vector<int8_t> all_codes = Expand(RunKernel(Ternarize, g, 2, 2, 0), g.size());
  for (const size_t first : {1, 8, 777, 4096}) {
    const std::vector<float> rest(g.begin() + static_cast<ptrdiff_t>(first), g.end());
    const std::vector<int8_t> codes_of_rest =
        Expand(RunKernel(Ternarize, rest, 2, 2, first), rest.size());
    EXPECT_TRUE(std::equal(codes_of_rest.begin(), codes_of_rest.end(),
                           all_codes.begin() + static_cast<ptrdiff_t>(first)));
  }
}

TEST_P(TernaryOnTarget, LeavesUnusedBitsZeroAndCountsItsOnes) {
  for (const size_t n : {1, 9, 63, 65, 4099}) {
    const std::vector<float> g(n, -9.0f);
    const Codes codes = RunKernel(Ternarize, g, 1, kInfinity, 0);
    EXPECT_EQ(codes.num_ones, n);
    EXPECT_EQ(CountOnes(codes.mask.data(), n), n);
    EXPECT_EQ(codes.mask.back(), n % 8 == 0 ? 0xFF : (1 << n % 8) - 1);
    EXPECT_EQ(codes.signs, codes.mask);
  }
}

TEST_P(TernaryOnTarget, CountsOnesAtAnyPosition) {
  std::mt19937 random(1);
  for (const size_t n : Lengths()) {
    std::vector<uint8_t> plane(PlaneBytes(n) + 1);
    size_t expected = 0;
    for (size_t i = 0; i < n; ++i) {
      if (random() % 3 != 0) continue;
      plane[1 + i / 8] |= static_cast<uint8_t>(1 << (i % 8));
      ++expected;
    }
    EXPECT_EQ(CountOnes(plane.data() + 1, n), expected);
  }
}

TEST(ExpandCodes, ReadsMaskAndSignsInElementOrder) {
  const uint8_t mask[] = {0b10110010, 0b1};
  const uint8_t signs[] = {0b10110};
  int8_t codes[9];
  ExpandCodes(mask, signs, 9, codes);
  const int8_t expected[] = {0, 1, 0, 0, -1, -1, 0, 1, -1};
  EXPECT_TRUE(std::equal(codes, codes + 9, expected));
}

}  // namespace
}  // namespace tern::kernels

// Tests of the codes of several levels with a shared norm (levels.h): the vector code writes the
// bytes of the scalar code, and the scalar code follows the law.
#include "kernels/codes/levels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class LevelsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(LevelsOnTarget);

constexpr float kNoClip = std::numeric_limits<float>::infinity();

NoiseKey SomeKey() {
  NoiseKey key;
  key.seed = 2017;
  key.round = 3;
  key.rank = 5;
  key.tensor = 2;
  return key;
}

// Returns n normally distributed values, of which some are exactly 0.
std::vector<float> SomeValues(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = random() % 16 == 0 ? 0.0f : normal(random);
  return values;
}

float LargestMagnitude(const std::vector<float>& values) {
  float largest = 0;
  for (float v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

// Expects that both functions write the same planes, and nothing beyond them.
void ExpectSamePlanes(const std::vector<float>& g, const LevelScale& scale, uint64_t first) {
  const size_t size = static_cast<size_t>(scale.bits) * PlaneBytes(g.size());
  std::vector<uint8_t> actual(size + 1, 0x5A), reference(size + 1, 0x5A);
  EncodeLevels(g.data(), g.size(), scale, SomeKey(), first, actual.data());
  EncodeLevelsRef(g.data(), g.size(), scale, SomeKey(), first, reference.data());
  ASSERT_EQ(actual, reference);
}

TEST_P(LevelsOnTarget, CodesEqualTheReferenceAtEveryLengthAndPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> g = SomeValues(n, n);
    for (const int bits : {2, 4, 8}) {
      SCOPED_TRACE(testing::Message() << bits << " bits, n " << n);
      ExpectSamePlanes(g, {bits, LargestMagnitude(g), kNoClip}, n % 13);
    }
  }
}

TEST_P(LevelsOnTarget, CodesEqualTheReferenceWithAnyNormAndClip) {
  const std::vector<float> g = SomeValues(3000, 9);
  for (int bits = kMinLevelBits; bits <= kMaxLevelBits; ++bits) {
    for (const float norm : {0.0f, 1e-40f, 1e-31f, 0.5f, 4.7f, 3e38f}) {
      for (const float clip : {kNoClip, 1.5f, 0.25f}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, norm " << norm << ", clip " << clip);
        std::vector<float> scaled = g;
        const float unit = norm > 0 ? norm / 4.8f : 1;
        for (float& v : scaled) v *= unit;
        ExpectSamePlanes(scaled, {bits, norm, clip}, 3);
        ExpectSamePlanes(g, {bits, norm, clip}, 0);
      }
    }
  }
}

// Values whose level depends on the last of their 32 random bits.
TEST_P(LevelsOnTarget, TheDrawDecidesToItsLastBits) {
  for (const bool is_rounded_up : {false, true}) {
    std::vector<float> g(4000);
    for (size_t i = 0; i < g.size(); ++i) {
      const double draw = Draw32(SomeKey(), i);
      g[i] = static_cast<float>((draw + 1) * 0x1p-32);
      if (double{g[i]} * 0x1p32 < draw + 1) g[i] = std::nextafter(g[i], 1.0f);
      if (!is_rounded_up) g[i] = std::nextafter(g[i], 0.0f);
    }
    const LevelScale scale{2, 1, kNoClip};
    ExpectSamePlanes(g, scale, 0);
    for (size_t i = 0; i < g.size(); ++i)
      ASSERT_EQ(LevelOf(g[i], scale, SomeKey(), i), is_rounded_up || g[i] == 1 ? 1 : 0) << i;
  }
}

TEST_P(LevelsOnTarget, TwoBitsAreTernaryCodes) {
  for (const size_t n : {1, 70, 517, 4100}) {
    const std::vector<float> g = SomeValues(n, n);
    for (const float clip : {kNoClip, 1.2f}) {
      const float norm = 0.9f * LargestMagnitude(g);
      const size_t plane_bytes = PlaneBytes(n);
      std::vector<uint8_t> planes(2 * plane_bytes), mask(plane_bytes), signs(plane_bytes);
      EncodeLevels(g.data(), n, {2, norm, clip}, SomeKey(), 5, planes.data());
      Ternarize(g.data(), n, norm, clip, SomeKey(), 5, mask.data(), signs.data());
      std::vector<int8_t> codes(n);
      ExpandCodes(mask.data(), signs.data(), n, codes.data());
      for (size_t i = 0; i < n; ++i) {
        const int low = planes[i / 8] >> (i % 8) & 1;
        const int sign = planes[plane_bytes + i / 8] >> (i % 8) & 1;
        ASSERT_EQ(low - 2 * sign, codes[i]) << i;
      }
    }
  }
}

// Over many random numbers, the mean of an element's levels is s |g| / norm.
TEST(Levels, AreUnbiased) {
  constexpr int kDraws = 100000;
  for (const int bits : {2, 3, 5, 8}) {
    const double s = LargestLevel(bits);
    for (const float g : {0.013f, -0.5f, 0.77f, -1.0f}) {
      double sum = 0;
      for (int draw = 0; draw < kDraws; ++draw)
        sum += LevelOf(g, {bits, 1, kNoClip}, SomeKey(), static_cast<uint64_t>(draw));
      const double x = s * double{g}, p = std::abs(x) - std::floor(std::abs(x));
      EXPECT_NEAR(sum / kDraws, x, 4.5 * std::sqrt(p * (1 - p) / kDraws) + 1e-6)
          << bits << ' ' << g;
    }
  }
}

TEST(Levels, ValuesBeyondNormOrClipAreClamped) {
  for (const int bits : {2, 4, 8}) {
    const int s = LargestLevel(bits);
    for (uint64_t element = 0; element < 100; ++element) {
      EXPECT_EQ(LevelOf(7, {bits, 2, kNoClip}, SomeKey(), element), s);
      EXPECT_EQ(LevelOf(-2, {bits, 2, kNoClip}, SomeKey(), element), -s);
      EXPECT_LE(LevelOf(7, {bits, 2, 0.5f}, SomeKey(), element), (s + 3) / 4);
      EXPECT_EQ(LevelOf(7, {bits, 0, kNoClip}, SomeKey(), element), 0);
    }
  }
}

}  // namespace
}  // namespace tern::kernels

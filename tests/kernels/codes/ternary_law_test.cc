// Statistical tests of ternary codes (TernGrad, equations 1, 2 and 9). A code of element g is
// sign(g) with the probability |g| / s, and otherwise 0, where s is the scaler; g is clipped first.
// All seeds are fixed.
#include <algorithm>
#include <limits>

#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int8_t> CodesOf(const std::vector<float>& g, float s, float clip, const NoiseKey& key,
                            uint64_t first_element = 0) {
  std::vector<uint8_t> mask(PlaneBytes(g.size()));
  std::vector<uint8_t> signs(PlaneBytes(g.size()));
  std::vector<int8_t> codes(g.size());
  Ternarize(g.data(), g.size(), s, clip, key, first_element, mask.data(), signs.data());
  ExpandCodes(mask.data(), signs.data(), g.size(), codes.data());
  return codes;
}

TEST(TernaryLaw, IsUnbiasedWithTheVarianceOfTheory) {
  constexpr int kNumDraws = 120000;
  constexpr float kScaler = 1.6f;
  constexpr float kClip = 1.5f;
  std::vector<float> g;
  for (int i = 0; i < 61; ++i) g.push_back(static_cast<float>(i - 30) * 0.0625f);
  std::vector<int64_t> code_sums(g.size()), square_sums(g.size());
  for (uint64_t round = 0; round < kNumDraws; ++round) {
    const std::vector<int8_t> codes = CodesOf(g, kScaler, kClip, {.seed = 11, .round = round});
    for (size_t i = 0; i < g.size(); ++i) {
      code_sums[i] += codes[i];
      square_sums[i] += codes[i] * codes[i];
    }
  }
  for (size_t i = 0; i < g.size(); ++i) {
    const double s = kScaler;
    const double clipped_g = std::clamp<double>(g[i], -kClip, kClip);
    const double variance = std::abs(clipped_g) * (s - std::abs(clipped_g));
    const double mean = s * static_cast<double>(code_sums[i]) / kNumDraws;
    const double standard_error = std::sqrt(variance / kNumDraws);
    EXPECT_NEAR(mean, clipped_g, 4 * standard_error + 1e-7) << g[i];
    const double sample_variance =
        s * s * static_cast<double>(square_sums[i]) / kNumDraws - mean * mean;
    // A decoded value (s times the code) with mean magnitude m = |clipped_g| has the variance
    // m (s - m). Its derivative s - 2 m turns an error of m into an error of the variance.
    const double slope = std::abs(s - 2 * std::abs(clipped_g));
    EXPECT_NEAR(sample_variance, variance,
                4 * standard_error * slope + 16 * standard_error * standard_error + 1e-6)
        << g[i];
  }
}

TEST(TernaryLaw, PassesChiSquareOfEquation2OverBinsOfTheMagnitude) {
  constexpr size_t kNumBins = 64;
  constexpr size_t kN = 1 << 20;
  constexpr float kScaler = 0.7f;
  for (const uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    std::vector<float> g(kN);
    for (float& value : g) {
      value = static_cast<float>(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63 *
                                 kScaler);
    }
    const std::vector<int8_t> codes = CodesOf(g, kScaler, kInfinity, {.seed = seed});
    std::vector<double> observed(kNumBins), expected(kNumBins), variance(kNumBins);
    for (size_t i = 0; i < kN; ++i) {
      const double p = std::abs(static_cast<double>(g[i])) / kScaler;
      const size_t bin = std::min(kNumBins - 1, static_cast<size_t>(p * kNumBins));
      if (codes[i] != 0) {
        ASSERT_EQ(codes[i] < 0, g[i] < 0);
        observed[bin] += 1;
      }
      expected[bin] += p;
      variance[bin] += p * (1 - p);
    }
    double chi_square = 0;
    for (size_t bin = 0; bin < kNumBins; ++bin) {
      chi_square += std::pow(observed[bin] - expected[bin], 2) / variance[bin];
    }
    EXPECT_LT(chi_square, 104.7) << seed;  // The 99.9 % quantile for 64 degrees of freedom.
    // The 0.1 % quantile: a fit that is too good is an error, too.
    EXPECT_GT(chi_square, 33.0) << seed;
  }
}

TEST(TernaryLaw, DrawsOfNeighboursRoundsAndRanksAreIndependent) {
  constexpr size_t kN = 1 << 18;
  const std::vector<float> g(kN, 0.5f);
  const std::vector<int8_t> codes = CodesOf(g, 1, 1, {.seed = 5});
  const auto agreement_in_sigmas = [&](const std::vector<int8_t>& other_codes, size_t shift) {
    size_t num_equal = 0;
    for (size_t i = 0; i + shift < kN; ++i) num_equal += codes[i] == other_codes[i + shift];
    return (static_cast<double>(num_equal) / static_cast<double>(kN - shift) - 0.5) * 2 *
           std::sqrt(kN);
  };
  for (size_t shift = 1; shift <= 16; ++shift)
    EXPECT_LT(std::abs(agreement_in_sigmas(codes, shift)), 4);
  EXPECT_LT(std::abs(agreement_in_sigmas(CodesOf(g, 1, 1, {.seed = 5, .round = 1}), 0)), 4);
  EXPECT_LT(std::abs(agreement_in_sigmas(CodesOf(g, 1, 1, {.seed = 5, .rank = 1}), 0)), 4);
  EXPECT_LT(std::abs(agreement_in_sigmas(CodesOf(g, 1, 1, {.seed = 5, .tensor = 1}), 0)), 4);
}

// For Gaussian gradients clipped at 2.5 standard deviations, theory predicts how many values are
// clipped, the change of the norm and of the direction, and the share of zeros (docs/ALGORITHMS.md,
// section 3).
TEST(TernaryLaw, MatchesTheTheoryOfAGaussianClippedAtTwoAndAHalfSigma) {
  const std::vector<float> g = Gaussian(4'000'000, 42, 0.01);
  const Stats stats = ComputeStats(g.data(), g.size());
  const auto s = static_cast<float>(2.5 * Sigma(stats));
  double num_clipped = 0;
  double squared_norm = 0;
  double dot_product = 0;
  for (const float value : g) {
    const double clipped_value = std::clamp<double>(value, -s, s);
    num_clipped += std::abs(value) > s;
    squared_norm += clipped_value * clipped_value;
    dot_product += clipped_value * value;
  }
  const auto n = static_cast<double>(g.size());
  EXPECT_NEAR(100 * num_clipped / n, 1.24, 0.03);
  EXPECT_NEAR(100 * (1 - std::sqrt(squared_norm / stats.sum_squares)), 1.13, 0.02);
  const double angle_degrees =
      std::acos(dot_product / std::sqrt(squared_norm * stats.sum_squares)) * 180 / std::numbers::pi;
  EXPECT_NEAR(angle_degrees, 2.75, 0.03);

  std::vector<uint8_t> mask(PlaneBytes(g.size()));
  std::vector<uint8_t> signs(PlaneBytes(g.size()));
  const size_t num_ones =
      Ternarize(g.data(), g.size(), s, s, {.seed = 1}, 0, mask.data(), signs.data());
  EXPECT_NEAR(100 * (1 - static_cast<double>(num_ones) / n), 68.2, 0.3);
}

// Returns whether `num_nonzero`, the number of codes among n that are not 0, is within 4 standard
// deviations of the number n p that the probability p predicts.
bool MatchesProbability(double num_nonzero, double n, double p) {
  return std::abs(num_nonzero - n * p) <= 4 * std::sqrt(n * p * (1 - p));
}

TEST(TernaryLaw, ResolvesThresholdsFinerThan16Bits) {
  constexpr size_t kPieceSize = 1 << 20;
  for (const double p : {0x1p-20, 3 * 0x1p-18, 5 * 0x1p-19}) {
    const std::vector<float> g(kPieceSize, static_cast<float>(p));
    std::vector<uint8_t> mask(PlaneBytes(kPieceSize)), signs(PlaneBytes(kPieceSize));
    size_t num_nonzero = 0;
    for (uint64_t piece = 0; piece < 64; ++piece) {
      num_nonzero += Ternarize(g.data(), kPieceSize, 1, 1, {.seed = 8}, piece * kPieceSize,
                               mask.data(), signs.data());
    }
    EXPECT_TRUE(MatchesProbability(static_cast<double>(num_nonzero), 64.0 * kPieceSize, p))
        << p << " " << num_nonzero;
  }
}

// Shows that the test above is sharp enough: codes from only 16 random bits have a wrong share of
// non-zero codes, whether the probability is truncated or rounded to 16 bits.
TEST(TernaryLaw, DetectsNoiseTruncatedTo16Bits) {
  constexpr uint64_t kN = 1 << 25;
  const double p = 3 * 0x1p-18;
  const NoiseKey key = {.seed = 8};
  const auto truncated_threshold = static_cast<uint32_t>(std::floor(p * 65536));
  const auto rounded_threshold = static_cast<uint32_t>(std::round(p * 65536));
  size_t num_truncated = 0;
  size_t num_rounded = 0;
  size_t num_refined = 0;
  for (uint64_t i = 0; i < kN; i += 8) {
    const auto words = NoiseBlock(key, static_cast<uint32_t>(i / 8), 0);
    for (uint64_t slot = 0; slot < 8; ++slot) {
      const uint32_t draw = words[slot / 2] >> (slot % 2 * 16) & 0xFFFF;
      num_truncated += draw < truncated_threshold;
      num_rounded += draw < rounded_threshold;
      if (draw == 0) num_refined += TernaryFires(static_cast<float>(p), 1, 1, key, i + slot);
    }
  }
  EXPECT_FALSE(MatchesProbability(static_cast<double>(num_truncated), kN, p)) << num_truncated;
  EXPECT_FALSE(MatchesProbability(static_cast<double>(num_rounded), kN, p)) << num_rounded;
  EXPECT_TRUE(MatchesProbability(static_cast<double>(num_refined), kN, p)) << num_refined;
}

}  // namespace
}  // namespace tern::kernels

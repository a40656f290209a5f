// Statistical tests of ternary codes, which are random: an element g is coded as its sign with
// probability |g| / scaler (equation 2 of TernGrad), else as 0. Tests the frequency of each
// element's code (chi-square), the share of non-zeros, and the variance of the workers' mean. The
// limits are wide in standard deviations; the seeds are fixed, so the results never change.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "tests/common/codec/algorithm1_mutants.h"
#include "tests/common/codec/faulty_codecs.h"

namespace tern::codec {
namespace {

std::vector<float> GaussianGradient(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> g(n);
  for (float& v : g) v = normal(random);
  return g;
}

std::unique_ptr<Codec> MakeTernary(Clip clip = Clip::kPaper) {
  Options options;
  options.clip = clip;
  return std::move(*MakeCodec("ternary", options));
}

EncodeParams PrepareGradient(const Codec& codec, const std::vector<float>& g) {
  return codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g, {});
}

std::vector<int8_t> EncodeToCodes(const Codec& codec, const std::vector<float>& g,
                                  const EncodeParams& encode_params, uint64_t round,
                                  uint16_t rank) {
  kernels::NoiseKey noise;
  noise.seed = 77;
  noise.round = round;
  noise.rank = rank;
  std::vector<uint8_t> payload;
  codec.Encode(g.data(), {3, 0, g.size()}, encode_params, noise, &payload);
  std::vector<int8_t> codes(g.size());
  kernels::ExpandCodes(payload.data(), payload.data() + kernels::PlaneBytes(g.size()), g.size(),
                       codes.data());
  return codes;
}

struct ChiSquare {
  double z = 0;          // (statistic - degrees of freedom) / the statistic's standard deviation
  int num_elements = 0;  // degrees of freedom: elements with R p (1 - p) >= 5 (see below)
  bool are_signs_right = true;
  bool are_certain_nonzero = true;  // elements with probability 1 were never coded as 0
};

// The statistic is the sum over elements of (observed - R p)^2 / (R p (1 - p)): in R rounds an
// element is not 0 `observed` times, and p = min(|g|, clip) / scaler is the probability.
ChiSquare ComputeChiSquare(const Codec& codec, int rounds) {
  const std::vector<float> g = GaussianGradient(4096, 5);
  const EncodeParams encode_params = PrepareGradient(codec, g);
  std::vector<int> num_nonzeros(g.size());
  ChiSquare result;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<int8_t> codes = EncodeToCodes(codec, g, encode_params, round, 0);
    for (size_t i = 0; i < g.size(); ++i) {
      num_nonzeros[i] += codes[i] != 0;
      if (codes[i] != 0) result.are_signs_right &= (codes[i] < 0) == (g[i] < 0);
    }
  }
  double statistic = 0;
  double variance = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const double p =
        std::min(std::abs(g[i]), encode_params.clip) / static_cast<double>(encode_params.scaler);
    if (p >= 1) result.are_certain_nonzero &= num_nonzeros[i] == rounds;
    const double binomial_variance = rounds * p * (1 - p);
    if (binomial_variance < 5) continue;
    ++result.num_elements;
    statistic +=
        (num_nonzeros[i] - rounds * p) * (num_nonzeros[i] - rounds * p) / binomial_variance;
    // The variance of a squared standardized binomial.
    variance += 2 + (1 - 6 * p * (1 - p)) / binomial_variance;
  }
  result.z = (statistic - result.num_elements) / std::sqrt(variance);
  return result;
}

TEST(TernaryStatistics, CodesFollowEquation2) {
  const ChiSquare result = ComputeChiSquare(*MakeTernary(), 1000);
  EXPECT_GT(result.num_elements, 3900);
  EXPECT_LT(std::abs(result.z), 4) << result.z;
  EXPECT_TRUE(result.are_signs_right);
  EXPECT_TRUE(result.are_certain_nonzero);
}

TEST(TernaryStatistics, ChiSquareCatchesTruncatedNoise) {
  EXPECT_GT(ComputeChiSquare(*WithTruncatedNoise(MakeTernary()), 200).z, 50);
}

TEST(TernaryStatistics, TruncatedNoiseHasTheFormOfItsCodec) {
  for (const bool scaler_per_worker : {false, true}) {
    Options options;
    options.scaler_per_worker = scaler_per_worker;
    const auto codec = WithTruncatedNoise(std::move(*MakeCodec("ternary", options)));
    const std::vector<float> g = GaussianGradient(100, 5);
    std::vector<uint8_t> code;
    codec->Encode(g.data(), {0, 0, 100}, PrepareGradient(*codec, g), {.seed = 1}, &code);
    const auto accumulator = codec->NewAccumulator({0, 0, 100}, 1, {});
    const Result<size_t> added = accumulator->Add(0, code);
    ASSERT_TRUE(added.ok()) << added.status().message();
    EXPECT_EQ(*added, code.size());
  }
}

// The probability of a non-zero code is E[min(|z|, c)] / c, for a standard normal z and the scaler
// c * sigma.
TEST(TernaryStatistics, ShareOfNonZerosMatchesTheory) {
  const std::vector<float> g = GaussianGradient(1'000'000, 6);
  const auto codec = MakeTernary();
  const EncodeParams encode_params = PrepareGradient(*codec, g);
  const double c = 2.5;
  const auto density = [](double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  };
  const double tail_probability = std::erfc(c / std::numbers::sqrt2) / 2;
  const double expected_share = (2 * (density(0) - density(c)) + 2 * c * tail_probability) / c;
  EXPECT_NEAR(expected_share, 0.318, 0.001);
  size_t num_nonzeros = 0;
  for (int8_t code : EncodeToCodes(*codec, g, encode_params, 1, 0)) num_nonzeros += code != 0;
  EXPECT_NEAR(static_cast<double>(num_nonzeros) / g.size(), expected_share, 0.002);

  kernels::NoiseKey noise;
  noise.seed = 77;
  std::vector<uint8_t> payload;
  codec->Encode(g.data(), {3, 0, g.size()}, encode_params, noise, &payload);
  EXPECT_GT(4.0 * g.size() / payload.size(), 24.0) << "times smaller than fp32";
}

// The measured variance of the mean over N workers with equal gradients, divided by the variance in
// theory. In theory the variance of an element is |g| (scaler - |g|) / N, with |g| clipped.
double VarianceRatio(const Codec& codec, int workers) {
  constexpr int kNumRounds = 200;
  const std::vector<float> g = GaussianGradient(2048, 8);
  const EncodeParams encode_params = PrepareGradient(codec, g);
  const double scaler = encode_params.scaler;
  double expected_variance = 0;
  double observed_variance = 0;
  for (float v : g) {
    const double magnitude = std::min(std::abs(v), encode_params.clip);
    expected_variance += magnitude * (scaler - magnitude) / workers;
  }
  std::vector<float> mean(g.size());
  for (int round = 0; round < kNumRounds; ++round) {
    const auto sum = codec.NewAccumulator({0, 0, g.size()}, workers);
    for (int rank = 0; rank < workers; ++rank) {
      kernels::NoiseKey noise;
      noise.round = round;
      noise.rank = static_cast<uint16_t>(rank);
      std::vector<uint8_t> payload;
      codec.Encode(g.data(), {3, 0, g.size()}, encode_params, noise, &payload);
      EXPECT_TRUE(sum->Add(rank, payload).ok());
    }
    std::vector<uint8_t> encoded_sum;
    sum->EncodeSum(&encoded_sum);
    EXPECT_TRUE(codec
                    .Decode(encoded_sum, {0, 0, g.size()}, workers, encode_params.scaler, 0,
                            g.size(), mean.data())
                    .ok());
    for (size_t i = 0; i < g.size(); ++i) {
      const double clipped = std::copysign(std::min(std::abs(g[i]), encode_params.clip), g[i]);
      observed_variance += (mean[i] - clipped) * (mean[i] - clipped) / kNumRounds;
    }
  }
  return observed_variance / expected_variance;
}

TEST(TernaryStatistics, VarianceOfTheMeanFallsWithMoreWorkers) {
  for (int workers : {1, 2, 8}) {
    EXPECT_NEAR(VarianceRatio(*MakeTernary(), workers), 1, 0.02) << workers;
    EXPECT_NEAR(VarianceRatio(*MakeTernary(Clip::kNone), workers), 1, 0.02) << workers;
  }
}

TEST(TernaryStatistics, SharedNoiseOfWorkersIsDetected) {
  EXPECT_NEAR(VarianceRatio(*WithNoiseOfOneRank(MakeTernary()), 8), 8, 0.2);
}

// The mean of the decoded codes over many rounds is the gradient, except for what is clipped
// (equation 7).
TEST(TernaryStatistics, MeanOfManyRoundsIsTheClippedGradient) {
  constexpr int kNumRounds = 4000;
  const std::vector<float> g = GaussianGradient(64, 9);
  const auto codec = MakeTernary();
  const EncodeParams encode_params = PrepareGradient(*codec, g);
  std::vector<double> sums(g.size());
  for (int round = 0; round < kNumRounds; ++round) {
    const std::vector<int8_t> codes = EncodeToCodes(*codec, g, encode_params, round, 1);
    for (size_t i = 0; i < g.size(); ++i)
      sums[i] += static_cast<double>(encode_params.scaler) * codes[i];
  }
  for (size_t i = 0; i < g.size(); ++i) {
    const double magnitude = std::min(std::abs(g[i]), encode_params.clip);
    const double standard_error =
        std::sqrt(magnitude * (encode_params.scaler - magnitude) / kNumRounds);
    EXPECT_NEAR(sums[i] / kNumRounds, std::copysign(magnitude, g[i]), 4 * standard_error + 1e-6)
        << i;
  }
}

}  // namespace
}  // namespace tern::codec

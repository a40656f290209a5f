// Tests of adaptive quantization (Dryden et al. 2016): the largest positive elements, a given share
// of all positive ones, are sent as their mean. Of the negative elements the same share, those of
// the largest magnitude, are sent as their mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codes/stats.h"
#include "tests/common/codec/sparse_cases.h"

namespace tern::codec {
namespace {

std::unique_ptr<Codec> MakeAdaptiveCodec(double share) {
  Options options;
  options.keys.mutable_adaptive()->set_share(share);
  return MakeValidCodec("adaptive", options);
}

INSTANTIATE_TEST_SUITE_P(Adaptive, CodecConformance,
                         testing::Values(CodecCase{
                             .name = "Adaptive",
                             .make = [] { return MakeAdaptiveCodec(0.3); },
                             .is_plausible =
                                 [](float g, float, float mean) {
                                   return mean == 0 || std::signbit(mean) == std::signbit(g);
                                 },
                             .unused_bits = UnusedBitsOfPairs,
                             .golden_payloads = {"000060bf0000703f"
                                                 "0400"
                                                 "3204"
                                                 "0c",
                                                 "000080bf5555153f"
                                                 "0500"
                                                 "5604"
                                                 "16"},
                             .golden_sum = "0600"
                                           "7604"
                                           "000070bf5555953e565515be0000f03e000000bfaaaa423f",
                             .sizes_vary = true,
                             .random_codes = 3}),
                         CaseName);

EncodeParams PrepareGradient(const Codec& codec, const std::vector<float>& g) {
  return codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g, {});
}

TEST(Adaptive, SendsAShareOfEachSignAsItsMean) {
  const auto codec = MakeAdaptiveCodec(0.5);
  // 4 elements are positive, 3 are negative, 1 is zero. The 2 largest magnitudes of each sign are
  // sent.
  const std::vector<float> g = {1, -8, 4, 0, 2, -1, 3, -4};
  EXPECT_EQ(Mean(*codec, MakeRound(*codec, {g})),
            (std::vector<float>{0, -6, 3.5, 0, 0, 0, 3.5, -6}));
  const EncodeParams encode_params = PrepareGradient(*codec, g);
  EXPECT_EQ(encode_params.high, 3);
  EXPECT_EQ(encode_params.low, -4);
  EXPECT_EQ(encode_params.high_value, 3.5);
  EXPECT_EQ(encode_params.low_value, -6);
}

TEST(Adaptive, SendsNothingOfAnAbsentSign) {
  const auto codec = MakeAdaptiveCodec(1);
  for (float sign : {1.f, -1.f}) {
    std::vector<float> g = {1, 2, 0, 3};
    for (float& v : g) v *= sign;
    EXPECT_EQ(Mean(*codec, MakeRound(*codec, {g})),
              (std::vector<float>{2 * sign, 2 * sign, 0, 2 * sign}));
  }
}

TEST(Adaptive, EqualValuesAreSentTogether) {
  const std::vector<float> g = {1, 1, 1, 1, 0.5};
  EXPECT_EQ(Mean(*MakeAdaptiveCodec(0.2), MakeRound(*MakeAdaptiveCodec(0.2), {g})),
            (std::vector<float>{1, 1, 1, 1, 0}));
}

// Compares the codec with an implementation of the paper's description that sorts all elements and
// computes in double precision.
TEST(Adaptive, FollowsThePaperWithErrorFeedback) {
  const double share = 0.05;
  const auto codec = MakeAdaptiveCodec(share);
  const size_t n = 4000;
  Sender worker(*codec, n);
  std::vector<float> residual(n);
  for (uint64_t round = 0; round < 20; ++round) {
    const std::vector<float> g = SomeGradient(n, round);
    const std::vector<float> sent = worker.Send(g, round, 999);
    std::vector<float> compensated(n);
    for (size_t i = 0; i < n; ++i) compensated[i] = g[i] + residual[i];
    for (float sign : {1.f, -1.f}) {
      std::vector<float> magnitudes;
      for (float x : compensated) {
        if (sign * x > 0) magnitudes.push_back(sign * x);
      }
      std::sort(magnitudes.begin(), magnitudes.end(), std::greater<>());
      const auto num_largest =
          static_cast<size_t>(std::ceil(share * static_cast<double>(magnitudes.size())));
      double mean = 0;
      for (size_t i = 0; i < num_largest; ++i)
        mean += static_cast<double>(magnitudes[i]) / static_cast<double>(num_largest);
      size_t num_sent = 0;
      for (size_t i = 0; i < n; ++i) {
        if (sign * compensated[i] < magnitudes[num_largest - 1]) continue;
        ASSERT_NEAR(static_cast<double>(sign * sent[i]), mean, 1e-6);
        ++num_sent;
      }
      ASSERT_EQ(num_sent, num_largest);
    }
    size_t num_sent = 0;
    for (size_t i = 0; i < n; ++i) {
      residual[i] = compensated[i] - sent[i];
      num_sent += sent[i] != 0 ? 1 : 0;
    }
    ASSERT_NEAR(static_cast<double>(num_sent), share * static_cast<double>(n), 15);
    ASSERT_EQ(worker.SavedArray("residual"), residual);
  }
  Sender resumed(*codec, n);
  resumed.RestoreFrom(worker);
  EXPECT_EQ(resumed.Send(residual, 20), worker.Send(residual, 20));
}

// Two percent of the elements are sent. Each takes the entropy of its position (about 7 bits if one
// element of 50 is sent), one bit for its value, and what the format adds.
TEST(Adaptive, SizeIsEntropyOfPositionsPlusOneBit) {
  const size_t n = 1 << 18;
  const auto codec = MakeAdaptiveCodec(0.02);
  Sender worker(*codec, n);
  worker.Send(SomeGradient(n, 2));
  const double bits_per_element =
      8 * static_cast<double>(worker.code().size()) / static_cast<double>(n);
  EXPECT_LT(bits_per_element, 0.02 * 9.2);
  EXPECT_GT(bits_per_element, 0.02 * 0.94 * 8);
}

TEST(Adaptive, RefusesInvalidShares) {
  for (double bad_share : {0.0, -0.5, 1.01, std::nan("")}) {
    Options options;
    options.keys.mutable_adaptive()->set_share(bad_share);
    ExpectRefused("adaptive", options, "exchange.adaptive.share");
  }
}

}  // namespace
}  // namespace tern::codec

// Tests of the codec AdaComp (Chen et al. 2018): the conformance suite, the paper's algorithm,
// bins, the saved residual and refused inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/common/codec/sparse_cases.h"

namespace tern::codec {
namespace {

std::unique_ptr<Codec> MakeAdaCompCodec(uint64_t bin_elements) {
  Options options;
  options.keys.mutable_adacomp()->set_bin_elements(bin_elements);
  return MakeValidCodec("adacomp", options);
}

INSTANTIATE_TEST_SUITE_P(AdaComp, CodecConformance,
                         testing::Values(CodecCase{
                             .name = "AdaComp",
                             .make = [] { return MakeAdaCompCodec(6); },
                             .is_plausible =
                                 [](float g, float scaler, float mean) {
                                   return mean == 0 || (std::abs(mean) == scaler &&
                                                        std::signbit(mean) == std::signbit(g));
                                 },
                             .unused_bits = UnusedBitsOfPairs,
                             .golden_payloads = {"000070bf0000703f"
                                                 "0600"
                                                 "3306"
                                                 "29",
                                                 "000090bf0000903f"
                                                 "0600"
                                                 "c505"
                                                 "3a"},
                             .golden_sum = "0a00"
                                           "f707"
                                           "0000c0bd0000f0be0000103f0000f0be0000f03e"
                                           "000010bf0000103f0000103f0000f0be0000843f",
                             .sizes_vary = true,
                             .random_codes = 3}),
                         CaseName);

// Algorithm 2 of the paper, for one worker and one tensor: Pack() returns what is sent, and keeps
// the rest in `residue`. In the paper's symbols: dW is the new gradient, G = residue + dW, and H =
// G + dW.
struct PaperAdaComp {
  explicit PaperAdaComp(size_t n, size_t bin_elements) : bin_elements(bin_elements), residue(n) {}

  std::vector<float> Pack(const std::vector<float>& dw) {
    const size_t n = dw.size();
    std::vector<float> g(n), sent(n), bin_max((n + bin_elements - 1) / bin_elements);
    double sum_of_maxima = 0, num_nonzero_bins = 0;
    for (size_t i = 0; i < n; ++i) {
      g[i] = residue[i] + dw[i];
      bin_max[i / bin_elements] = std::max(bin_max[i / bin_elements], std::abs(g[i]));
    }
    for (float m : bin_max) {
      sum_of_maxima += static_cast<double>(m);
      num_nonzero_bins += m > 0 ? 1 : 0;
    }
    const float scale =
        num_nonzero_bins > 0 ? static_cast<float>(sum_of_maxima / num_nonzero_bins) : 0;
    for (size_t i = 0; i < n; ++i) {
      const float h = g[i] + dw[i];
      if (std::abs(h) >= bin_max[i / bin_elements])
        sent[i] = scale * static_cast<float>((g[i] > 0) - (g[i] < 0));
      residue[i] = g[i] - sent[i];
    }
    return sent;
  }

  size_t bin_elements;
  std::vector<float> residue;
};

TEST(AdaComp, FollowsThePapersAlgorithm) {
  for (uint64_t bin_elements : {1, 7, 50, 500, 5000}) {
    const auto codec = MakeAdaCompCodec(bin_elements);
    const size_t n = 3017;
    Sender worker(*codec, n);
    PaperAdaComp reference(n, bin_elements);
    for (uint64_t round = 0; round < 25; ++round) {
      std::vector<float> g = SomeGradient(n, round);
      if (round % 5 == 4) std::fill(g.begin() + 200, g.begin() + 1600, 0.f);
      ASSERT_EQ(worker.Send(g, round, 2 * bin_elements), reference.Pack(g))
          << bin_elements << " " << round;
      ASSERT_EQ(worker.SavedArray("residual"), reference.residue) << bin_elements << " " << round;
    }
  }
}

// The scale is the mean of the bins' largest magnitudes: here (4 + 8) / 2, without the bin of
// zeros.
TEST(AdaComp, BinsOfZerosNeitherSendNorCount) {
  const auto codec = MakeAdaCompCodec(3);
  Sender worker(*codec, 9);
  EXPECT_EQ(worker.Send({0, 0, 0, 4, 1, -3, -8, 0, 1}),
            (std::vector<float>{0, 0, 0, 6, 0, -6, -6, 0, 0}));
  EXPECT_EQ(worker.SavedArray("residual"), (std::vector<float>{0, 0, 0, -2, 1, 3, -2, 0, 1}));
  Sender sender_of_zeros(*codec, 9);
  EXPECT_EQ(sender_of_zeros.Send(std::vector<float>(9)), std::vector<float>(9));
}

TEST(AdaComp, ChunksAreCutBetweenBins) {
  EXPECT_EQ(MakeAdaCompCodec(50)->Granularity(7), 50u);
  const auto codec = MakeAdaCompCodec(50);
  const std::vector<float> g = SomeGradient(20011, 6);
  Sender unchunked(*codec, g.size()), chunked(*codec, g.size());
  for (uint64_t round = 0; round < 3; ++round)
    ASSERT_EQ(unchunked.Send(g, round), chunked.Send(g, round, 1250));
}

TEST(AdaComp, RestoredMemoryContinuesBitForBit) {
  const auto codec = MakeAdaCompCodec(50);
  Sender uninterrupted(*codec, 5000), resumed(*codec, 5000);
  for (uint64_t round = 0; round < 10; ++round) {
    if (round == 5) resumed.RestoreFrom(uninterrupted);
    const std::vector<float> g = SomeGradient(5000, round);
    const std::vector<float> sent = uninterrupted.Send(g, round);
    if (round < 5) continue;
    ASSERT_EQ(resumed.Send(g, round), sent);
  }
  ASSERT_NE(uninterrupted.SavedArray("residual"), std::vector<float>(5000));
  uninterrupted.memory().Reset();
  EXPECT_EQ(uninterrupted.SavedArray("residual"), std::vector<float>(5000));
}

TEST(AdaComp, NonFiniteGradientsAreVisible) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> g = SomeGradient(100, 1);
    g[50] = bad;
    const auto codec = MakeAdaCompCodec(10);
    Sender worker(*codec, 100);
    worker.Send(g);
    EXPECT_FALSE(std::isfinite(worker.compensated()[50]));
  }
}

TEST(AdaComp, SendsFewElementsOfLargeBins) {
  const size_t n = 1 << 18;
  const auto codec = MakeAdaCompCodec(500);
  Sender worker(*codec, n);
  for (uint64_t round = 0; round < 20; ++round) worker.Send(SomeGradient(n, round), round);
  EXPECT_LT(8 * static_cast<double>(worker.code().size()) / static_cast<double>(n), 0.32);
}

TEST(AdaComp, RefusesEmptyBins) {
  Options options;
  options.keys.mutable_adacomp()->set_bin_elements(0);
  ExpectRefused("adacomp", options, "exchange.adacomp.bin_elements");
}

}  // namespace
}  // namespace tern::codec

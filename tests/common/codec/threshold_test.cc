// Tests of the codec threshold: a fixed threshold (Strom; MXNet's two-bit compression), or one that
// a given share of the elements reaches (gradient dropping, Aji and Heafield).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codes/ternary.h"
#include "tests/common/codec/sparse_cases.h"

namespace tern::codec {
namespace {

Options OptionsWithThreshold(double value) {
  Options options;
  options.keys.mutable_threshold()->set_value(value);
  return options;
}
Options OptionsWithSentRatio(double ratio) {
  Options options;
  options.keys.mutable_threshold()->set_ratio(ratio);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Threshold, CodecConformance,
    testing::Values(
        CodecCase{.name = "Threshold",
                  .make = [] { return MakeValidCodec("threshold", OptionsWithThreshold(0.5)); },
                  .is_plausible =
                      [](float g, float, float mean) {
                        return mean == (g >= 0.5f ? 0.5f : g <= -0.5f ? -0.5f : 0.f);
                      },
                  .unused_bits =
                      [](std::span<const uint8_t> payload, uint64_t count) {
                        return UnusedBitsOfMaskAndSigns(payload, count, 0);
                      },
                  .golden_payloads = {"330616", "560409"},
                  .golden_sum = "650242064202"},
        CodecCase{.name = "Ratio",
                  .make = [] { return MakeValidCodec("threshold", OptionsWithSentRatio(0.3)); },
                  .is_plausible = [](float g, float, float mean) { return mean == 0 || mean == g; },
                  .unused_bits = UnusedBitsOfFloats,
                  .golden_payloads = {"0400"
                                      "3204"
                                      "000080bf000040bf0000803f0000603f",
                                      "0500"
                                      "5604"
                                      "000000bf0000403f0000003f0000c0bf0000003f"},
                  .golden_sum = "0600"
                                "7604"
                                "000040bf0000c03e000000be0000003f000040bf0000303f",
                  .sizes_vary = true}),
    CaseName);

// Compares the codec with the algorithm of MXNet's kernel: r is the residual, t the threshold.
TEST(Threshold, MatchesMxnetsTwoBitKernel) {
  const float t = 0.7f;
  const auto codec = MakeValidCodec("threshold", OptionsWithThreshold(0.7));
  const size_t n = 1000;
  Sender worker(*codec, n);
  std::vector<float> r(n);
  for (uint64_t round = 0; round < 30; ++round) {
    const std::vector<float> g = SomeGradient(n, round);
    const std::vector<float> sent = worker.Send(g, round, 111);
    for (size_t i = 0; i < n; ++i) {
      r[i] += g[i];
      float expected = 0;
      if (r[i] >= t) {
        expected = t;
        r[i] -= t;
      } else if (r[i] <= -t) {
        expected = -t;
        r[i] += t;
      }
      ASSERT_EQ(sent[i], expected);
    }
    ASSERT_EQ(worker.SavedArray("residual"), r);
  }
}

// A value equal to the threshold is sent, the next smaller float is not.
TEST(Threshold, FiresAtTheThreshold) {
  const auto codec = MakeValidCodec("threshold", OptionsWithThreshold(0.25));
  const float just_below = std::nextafter(0.25f, 0.f);
  const std::vector<float> g = {0.25f, -0.25f, just_below, -just_below, 0, -0.f, 1e30f, -1e30f};
  EXPECT_EQ(Mean(*codec, MakeRound(*codec, {g})),
            (std::vector<float>{0.25f, -0.25f, 0, 0, 0, 0, 0.25f, -0.25f}));
}

TEST(Threshold, SumsAreIntegersTimesTheThreshold) {
  const float t = 0.3f;
  const auto codec = MakeValidCodec("threshold", OptionsWithThreshold(0.3));
  for (int workers : {1, 2, 3, 7, 8, 40}) {
    std::vector<std::vector<float>> gradients;
    std::vector<int> sums(67);
    for (int rank = 0; rank < workers; ++rank) {
      gradients.push_back(SomeGradient(67, rank));
      for (size_t i = 0; i < 67; ++i)
        sums[i] += (gradients[rank][i] >= t) - (gradients[rank][i] <= -t);
    }
    const std::vector<float> mean = Mean(*codec, MakeRound(*codec, gradients));
    for (size_t i = 0; i < 67; ++i)
      ASSERT_EQ(mean[i], static_cast<float>(static_cast<double>(t) * sums[i] / workers));
  }
}

TEST(Threshold, ThresholdsBeyondEveryGradientSendNothing) {
  const auto codec = MakeValidCodec("threshold", OptionsWithThreshold(100));
  Sender worker(*codec, 1000);
  EXPECT_EQ(worker.Send(SomeGradient(1000, 1)), std::vector<float>(1000));
  EXPECT_EQ(worker.code().size(), kernels::PlaneBytes(1000));
  EXPECT_EQ(worker.SavedArray("residual"), worker.compensated());
}

TEST(ThresholdRatio, DropsTheSmallestAndKeepsThemForLater) {
  const auto codec = MakeValidCodec("threshold", OptionsWithSentRatio(0.02));
  const size_t n = 10000;
  Sender worker(*codec, n);
  std::vector<float> residual(n);
  for (uint64_t round = 0; round < 20; ++round) {
    const std::vector<float> g = SomeGradient(n, round);
    const std::vector<float> sent = worker.Send(g, round, 3333);
    std::vector<float> magnitudes(n);
    for (size_t i = 0; i < n; ++i) magnitudes[i] = std::abs(worker.compensated()[i]);
    std::sort(magnitudes.begin(), magnitudes.end());
    uint64_t num_large = 0;
    for (size_t i = 0; i < n; ++i) {
      const float v = g[i] + residual[i];
      const bool is_large = std::abs(v) >= magnitudes[n - 200];
      ASSERT_EQ(sent[i], is_large ? v : 0);
      residual[i] = v - sent[i];
      num_large += is_large ? 1 : 0;
    }
    ASSERT_EQ(num_large, 200u);
    ASSERT_EQ(worker.SavedArray("residual"), residual);
  }
  Sender resumed(*codec, n);
  resumed.RestoreFrom(worker);
  EXPECT_EQ(resumed.Send(residual, 20), worker.Send(residual, 20));
}

TEST(ThresholdRatio, RatioOneEqualsFp32) {
  const auto codec = MakeValidCodec("threshold", OptionsWithSentRatio(1));
  const auto fp32 = MakeValidCodec("fp32", {});
  const std::vector<std::vector<float>> g = {SomeGradient(5000, 1), SomeGradient(5000, 2)};
  EXPECT_EQ(Mean(*codec, MakeRound(*codec, g)), Mean(*fp32, MakeRound(*fp32, g)));
}

TEST(Threshold, NamesAndOptions) {
  EXPECT_EQ(MakeValidCodec("threshold", OptionsWithThreshold(1))->name(), "threshold");
  EXPECT_EQ(MakeValidCodec("threshold", OptionsWithSentRatio(0.1))->name(), "threshold_ratio");
  Options global_options = OptionsWithSentRatio(0.1);
  global_options.keys.mutable_threshold()->set_scope(pb::Threshold::global);
  EXPECT_EQ(MakeValidCodec("threshold", global_options)->name(), "threshold_ratio_global");
  EXPECT_TRUE(MakeValidCodec("threshold", global_options)->prepares_tensors_together());
  global_options.keys.mutable_threshold()->set_ratio(0);
  ExpectRefused("threshold", global_options, "exchange.threshold.scope");
  for (double bad_value : {0.0, -1.0, std::nan(""), HUGE_VAL, 1e-60})
    ExpectRefused("threshold", OptionsWithThreshold(bad_value), "exchange.threshold.value");
  for (double bad_value : {-0.1, 1.1, std::nan("")})
    ExpectRefused("threshold", OptionsWithSentRatio(bad_value), "exchange.threshold.ratio");
}

}  // namespace
}  // namespace tern::codec

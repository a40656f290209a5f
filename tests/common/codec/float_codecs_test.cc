// Tests of the codecs fp32, fp16 and bf16: the conformance suite, non-finite values, and the order
// and the rounding of sums.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/codec/codecs.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

std::unique_ptr<Codec> MakeFloatCodec(const char* name) { return std::move(*MakeCodec(name, {})); }

INSTANTIATE_TEST_SUITE_P(
    Fp32, CodecConformance,
    testing::Values(CodecCase{
        "Fp32",
        [] { return MakeFloatCodec("fp32"); },
        [](float g, float, float mean) { return mean == g; },
        NoUnusedBits,
        {"0000003f000080bf000000000000803e000040bf0000803f0000003e0000c0be0000803d000000bf"
         "0000603f",
         "000080be000000bf0000403f000000000000003f0000003e0000c0bf0000c03e0000803e000080bd"
         "0000003f"},
        "0000003e000040bf0000c03e0000003e000000be0000103f000030bf000000000000203e000090be"
        "0000303f"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(Fp16, CodecConformance,
                         testing::Values(CodecCase{"Fp16",
                                                   [] { return MakeFloatCodec("fp16"); },
                                                   [](float g, float, float mean) {
                                                     return std::abs(mean - g) <=
                                                            std::abs(g) * 0x1p-11f + 0x1p-25f;
                                                   },
                                                   NoUnusedBits,
                                                   {"003800bc0000003400ba003c003000b6002c00b8003b",
                                                    "00b400b8003a00000038003000be0036003400ac0038"},
                                                   "003000ba0036003000b0803880b90000003180b48039"}),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(Bf16, CodecConformance,
                         testing::Values(CodecCase{"Bf16",
                                                   [] { return MakeFloatCodec("bf16"); },
                                                   [](float g, float, float mean) {
                                                     return std::abs(mean - g) <=
                                                            std::abs(g) * 0x1p-8f;
                                                   },
                                                   NoUnusedBits,
                                                   {"003f80bf0000803e40bf803f003ec0be803d00bf603f",
                                                    "80be00bf403f0000003f003ec0bfc03e803e80bd003f"},
                                                   "003e40bfc03e003e00be103f30bf0000203e90be303f",
                                                   0x1p-8}),
                         CaseName);

class FloatCodec : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, FloatCodec, testing::Values("fp32", "fp16", "bf16"));

TEST_P(FloatCodec, NonFiniteValuesNeverReachTheSum) {
  const auto codec = MakeFloatCodec(GetParam());
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad_value : {infinity, -infinity, std::nanf("")}) {
    for (size_t at : {0, 36, 1030}) {
      std::vector<float> g = SomeGradient(1031, 5);
      const Round valid_round = MakeRound(*codec, {g, g});
      g[at] = bad_value;
      const Round bad_round = MakeRound(*codec, {g, g});
      const auto sum = codec->NewAccumulator({0, 0, 1031}, 2);
      for (int rank : {1, 0}) {
        const Result<size_t> consumed_bytes = sum->Add(rank, bad_round.payloads[rank]);
        ASSERT_FALSE(consumed_bytes.ok());
        EXPECT_EQ(consumed_bytes.status().code(), Code::kMismatch);
        EXPECT_NE(consumed_bytes.status().message().find("element " + std::to_string(at) + " is "),
                  std::string::npos)
            << consumed_bytes.status().message();
        ASSERT_TRUE(sum->Add(rank, valid_round.payloads[rank]).ok());
      }
      std::vector<uint8_t> encoded_sum;
      sum->EncodeSum(&encoded_sum);
      EXPECT_EQ(encoded_sum, Sum(*codec, valid_round));
    }
  }
}

TEST_P(FloatCodec, NonFiniteSumsDoNotDecode) {
  const auto codec = MakeFloatCodec(GetParam());
  std::vector<uint8_t> sum(codec->MaxSumSize({0, 0, 3}, 2));
  // The last element becomes NaN in each of the three formats.
  sum[sum.size() - 1] = 0x7F;
  sum[sum.size() - 2] = 0xC0;
  std::vector<float> mean(3);
  EXPECT_TRUE(codec->Decode(sum, {0, 0, 3}, 2, 0, 0, 2, mean.data()).ok());
  EXPECT_EQ(codec->Decode(sum, {0, 0, 3}, 2, 0, 0, 3, mean.data()).code(), Code::kDiverged);
  // A code of one worker has the same format.
  EXPECT_EQ(codec->DecodeSingleCode(sum, {0, 0, 3}, mean.data()).status().code(), Code::kMismatch);
  EXPECT_EQ(codec->DecodeSingleCodeInBlocks(sum, {0, 0, 3}, [](uint64_t, std::span<const float>) {})
                .status()
                .code(),
            Code::kMismatch);
}

TEST_P(FloatCodec, AddsEachRankOnce) {
  const auto codec = MakeFloatCodec(GetParam());
  const Round round =
      MakeRound(*codec, {SomeGradient(9, 1), SomeGradient(9, 2), SomeGradient(9, 3)});
  const auto sum = codec->NewAccumulator({0, 0, 9}, 3);
  // The sum adds in rank order. So it keeps this code until the codes of ranks 0 and 1 are added.
  ASSERT_TRUE(sum->Add(2, round.payloads[2]).ok());
  ASSERT_TRUE(sum->Add(0, round.payloads[0]).ok());  // This code is added immediately.
  for (int rank : {2, 0, 3, -1}) {
    EXPECT_EQ(sum->Add(rank, round.payloads[0]).status().code(), Code::kInternal) << rank;
  }
  ASSERT_TRUE(sum->Add(1, round.payloads[1]).ok());
  std::vector<uint8_t> encoded_sum;
  sum->EncodeSum(&encoded_sum);
  EXPECT_EQ(encoded_sum, Sum(*codec, round));
}

TEST(Fp32, AddsInRankOrderAndDividesOnce) {
  const auto codec = MakeFloatCodec("fp32");
  std::vector<std::vector<float>> gradients;
  for (int rank = 0; rank < 7; ++rank) gradients.push_back(SomeGradient(2000, 40 + rank));
  const std::vector<float> mean = Mean(*codec, MakeRound(*codec, gradients));
  bool order_matters = false;
  for (size_t i = 0; i < mean.size(); ++i) {
    float ascending_sum = 0;
    float descending_sum = 0;
    for (int rank = 0; rank < 7; ++rank) {
      ascending_sum += gradients[rank][i];
      descending_sum += gradients[6 - rank][i];
    }
    ASSERT_EQ(mean[i], ascending_sum / 7.0f);
    order_matters |= ascending_sum != descending_sum;
  }
  EXPECT_TRUE(order_matters) << "this data cannot tell one order from another";
}

// Hosts add in rank order, the server adds their sums in the order of their lowest ranks.
TEST(Fp32, AddsTheSumsOfHostsInTheOrderOfTheirLowestRanks) {
  const auto codec = MakeFloatCodec("fp32");
  const Round round = MakeRound(*codec, {{0x1p24f}, {1.0f}, {1.0f}, {-0x1p24f}});
  EXPECT_EQ(Mean(*codec, round), std::vector<float>{0.0f});
  const auto sum = codec->NewAccumulator({0, 0, 1}, 4);
  for (const std::vector<int>& ranks : {std::vector{1, 2}, std::vector{0, 3}}) {
    const auto host = codec->NewAccumulator({0, 0, 1}, 4);
    for (const int rank : ranks) ASSERT_TRUE(host->Add(rank, round.payloads[rank]).ok());
    std::vector<uint8_t> partial;
    host->EncodePartial(&partial);
    EXPECT_EQ(ToHex(partial), ranks[0] == 0 ? "00000000" : "00000040");
    ASSERT_TRUE(sum->AddPartial(ranks, partial).ok());
  }
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(ToHex(bytes), "0000003f");  // (0 + 2) / 4
}

// The sum is in single precision. It is divided by the number of workers and only then rounded to
// half precision.
TEST(Fp16, RoundsOnceOnTheWayDown) {
  const auto codec = MakeFloatCodec("fp16");
  const float tiny = 0x1p-10f;
  const Round round = MakeRound(*codec, {{1.0f}, {tiny}, {tiny}, {1.0f}});
  // Half precision represents the mean (2 + 2^-9) / 4 = 0.5 + 2^-11 exactly.
  EXPECT_EQ(Mean(*codec, round), std::vector<float>{0.5f + 0x1p-11f});
  const Round round_with_mean_third = MakeRound(*codec, {{1.0f}, {0.0f}, {0.0f}});
  EXPECT_EQ(Mean(*codec, round_with_mean_third),
            std::vector<float>{0x1.554p-2f});  // the half-precision number nearest to 1/3
}

TEST(Bf16, RoundsOnceOnTheWayDown) {
  const auto codec = MakeFloatCodec("bf16");
  const float tiny = 0x1p-7f;
  const Round round = MakeRound(*codec, {{1.0f}, {tiny}, {tiny}, {1.0f}});
  // bfloat16 represents the mean (2 + 2^-6) / 4 = 0.5 + 2^-8 exactly.
  EXPECT_EQ(Mean(*codec, round), std::vector<float>{0.5f + 0x1p-8f});
  const Round round_with_mean_third = MakeRound(*codec, {{1.0f}, {0.0f}, {0.0f}});
  EXPECT_EQ(Mean(*codec, round_with_mean_third),
            std::vector<float>{0x1.56p-2f});  // the bfloat16 number nearest to 1/3
}

TEST(Bf16, KeepsTheRangeOfFloatsAndStaysFinite) {
  const auto codec = MakeFloatCodec("bf16");
  EXPECT_EQ(Mean(*codec, MakeRound(*codec, {{0x1p100f, -0x1p-100f, -0x1.fffffep127f}})),
            (std::vector<float>{0x1p100f, -0x1p-100f, -0x1.fep127f}));
}

TEST(Fp16, TooLargeValuesSaturate) {
  const auto codec = MakeFloatCodec("fp16");
  EXPECT_EQ(Mean(*codec, MakeRound(*codec, {{1e6f, -1e30f}, {1e6f, -1e30f}})),
            (std::vector<float>{65504, -65504}));
}

}  // namespace
}  // namespace tern::codec

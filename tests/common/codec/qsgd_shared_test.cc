// Tests of the codec qsgd_shared, whose codes are levels of a norm that all workers share, and of
// qsgd_shared_ans, which entropy-codes them: conformance, the law, exact sums, ternary codes as the
// case of 2 bits, sizes, and refused inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "common/codec/codecs.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/planes.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

Options OptionsOf(uint32_t bits, Clip clip = Clip::kNone) {
  Options options;
  options.clip = clip;
  options.keys.mutable_qsgd_shared()->set_bits(bits);
  return options;
}

std::unique_ptr<Codec> MakeShared(uint32_t bits, Clip clip = Clip::kNone) {
  return std::move(*MakeCodec("qsgd_shared", OptionsOf(bits, clip)));
}

std::unique_ptr<Codec> MakeSharedAns(uint32_t bits) {
  return std::move(*MakeCodec("qsgd_shared_ans", OptionsOf(bits)));
}

int LargestCode(uint32_t bits) { return kernels::LargestLevel(static_cast<int>(bits)); }

CodecCase MakeCase(const char* name, uint32_t bits, Clip clip, const char* first,
                   const char* second, const char* sum) {
  CodecCase c;
  c.name = name;
  c.make = [=] { return MakeShared(bits, clip); };
  // A level away at most, from the gradient clamped to the scaler.
  c.is_plausible = [=](float g, float scaler, float mean) {
    const double unit = double{scaler} / LargestCode(bits) * (1 + 1e-6);
    return std::abs(double{mean} - double{std::clamp(g, -scaler, scaler)}) <= unit;
  };
  c.unused_bits = [=](std::span<const uint8_t>, uint64_t count) {
    std::vector<size_t> unused_bits;
    const size_t plane_bits = 8 * ((count + 7) / 8);
    for (size_t p = 0; p < bits; ++p)
      for (size_t i = count; i < plane_bits; ++i) unused_bits.push_back(p * plane_bits + i);
    return unused_bits;
  };
  c.golden_payloads[0] = first;
  c.golden_payloads[1] = second;
  c.golden_sum = sum;
  return c;
}

CodecCase MakeAnsCase(const char* name, uint32_t bits, const char* first, const char* second,
                      const char* sum) {
  CodecCase c = MakeCase(name, bits, Clip::kNone, first, second, sum);
  c.make = [=] { return MakeSharedAns(bits); };
  c.sizes_vary = true;
  // Short codes are stored. The first byte is 0 (bits 1 to 7 are unused); then follow the planes.
  c.unused_bits = [unused_bits_of_planes = c.unused_bits](std::span<const uint8_t> payload,
                                                          uint64_t count) {
    EXPECT_EQ(payload[0], 0);
    std::vector<size_t> unused_bits = unused_bits_of_planes(payload, count);
    for (size_t& bit : unused_bits) bit += 8;
    for (size_t i = 1; i < 8; ++i) unused_bits.push_back(i);
    return unused_bits;
  };
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    QsgdShared, CodecConformance,
    testing::Values(MakeCase("TwoBits", 2, Clip::kNone, "8a008200", "d0004000", "5a0042004200"),
                    MakeCase("ThreeBitsClipped", 3, Clip::kPaper, "9906b2029202", "d20506004200",
                             "4b03240642024202"),
                    MakeCase("FourBits", 4, Clip::kNone, "12008b02b0069202", "5501970403004300",
                             "47010c06200642024202"),
                    MakeCase("EightBits", 8, Clip::kNone, "12014b062803430428028300b0069202",
                             "55033706060135060603950603024302",
                             "47026c013d0474012d071404300652025202"),
                    MakeAnsCase("FourBitsAns", 4, "0012008b02b0069202", "005501970403004300",
                                "0047010c06200642024202"),
                    MakeAnsCase("EightBitsAns", 8, "0012014b062803430428028300b0069202",
                                "0055033706060135060603950603024302",
                                "0047026c013d0474012d071404300652025202")),
    CaseName);

// The means of the codes of each worker by itself, with the round's norm.
std::vector<double> ExactMean(const Codec& codec, const Round& round) {
  std::vector<double> mean(round.count());
  for (int rank = 0; rank < round.workers(); ++rank) {
    Round single_round;
    single_round.gradients = {round.gradients[rank]};
    single_round.payloads = {round.payloads[rank]};
    single_round.scaler = round.scaler;
    const std::vector<float> values = Mean(codec, single_round);
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += static_cast<double>(values[i]) / round.workers();
  }
  return mean;
}

TEST(QsgdShared, TwoBitsAreTheBytesOfTernaryWithoutAClip) {
  Options options;
  options.clip = Clip::kNone;
  const auto ternary = std::move(*MakeCodec("ternary_2bit", options));
  const auto shared = MakeShared(2);
  for (const size_t n : {1, 70, 1025}) {
    for (const int workers : {1, 3, 8}) {
      std::vector<std::vector<float>> gradients;
      for (int rank = 0; rank < workers; ++rank)
        gradients.push_back(SomeGradient(n, 10 * n + static_cast<size_t>(rank)));
      const Round ternary_round = MakeRound(*ternary, gradients, 5);
      const Round round = MakeRound(*shared, gradients, 5);
      EXPECT_EQ(round.scaler, ternary_round.scaler);
      EXPECT_EQ(round.payloads, ternary_round.payloads);
      EXPECT_EQ(Sum(*shared, round), Sum(*ternary, ternary_round));
      EXPECT_EQ(Mean(*shared, round), Mean(*ternary, ternary_round));
    }
  }
}

// The variance of a code of v is unit^2 p (1 - p), where unit is the distance of neighbouring
// levels, p the probability that v is rounded up; that of the mean of N workers is their mean / N.
TEST(QsgdShared, MeansOfManyRoundsFollowTheLaw) {
  constexpr int kDraws = 20000;
  const std::vector<std::vector<float>> gradients = {{0.5f, -1.0f, 0, 0.3f, -0.7f},
                                                     {0.1f, 2.0f, 0, -0.3f, -0.9f}};
  for (const uint32_t bits : {2u, 3u, 6u}) {
    const auto codec = MakeShared(bits);
    const double unit = 2.0 / LargestCode(bits);
    std::vector<double> sum(5), squares(5);
    for (int draw = 0; draw < kDraws; ++draw) {
      // Elements of another place have other random numbers.
      const Round round = MakeRound(*codec, gradients, static_cast<uint64_t>(8 * draw));
      const std::vector<float> mean = Mean(*codec, round);
      for (size_t i = 0; i < 5; ++i) {
        const double error = mean[i] - (double{gradients[0][i]} + double{gradients[1][i]}) / 2;
        sum[i] += error;
        squares[i] += error * error;
      }
    }
    for (size_t i = 0; i < 5; ++i) {
      double variance = 0;
      for (const auto& g : gradients) {
        const double x = std::abs(double{g[i]}) / unit, p = x - std::floor(x + 1e-7);
        variance += unit * unit * p * (1 - p) / 4;
      }
      EXPECT_NEAR(sum[i] / kDraws, 0, 4.5 * std::sqrt(variance / kDraws) + 1e-6)
          << bits << ' ' << i;
      EXPECT_NEAR(squares[i] / kDraws, variance, 0.06 * variance + 1e-9) << bits << ' ' << i;
    }
  }
}

// What qsgd loses when its server encodes the mean again, this codec does not lose.
TEST(QsgdShared, SumsAreExact) {
  for (const uint32_t bits : {2u, 4u, 8u}) {
    const auto codec = MakeShared(bits);
    const Round round = MakeRound(*codec, {SomeGradient(999, 1), SomeGradient(999, 2),
                                           SomeGradient(999, 3), SomeGradient(999, 4)});
    const std::vector<float> mean = Mean(*codec, round);
    const std::vector<double> expected = ExactMean(*codec, round);
    for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], expected[i], 1e-6) << i;
  }
}

TEST(QsgdShared, AddsTheLargestCodesOf1024Workers) {
  constexpr int kNumWorkers = 1024;
  constexpr size_t kN = 100;
  for (const uint32_t bits : {2u, 8u}) {
    const auto codec = MakeShared(bits);
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> g(kN, 3 * sign);
      const Round one = MakeRound(*codec, {g});
      const auto sum = codec->NewAccumulator({0, 0, kN}, kNumWorkers);
      for (int rank = 0; rank < kNumWorkers; ++rank)
        ASSERT_TRUE(sum->Add(rank, one.payloads[0]).ok());
      std::vector<uint8_t> bytes;
      sum->EncodeSum(&bytes);
      EXPECT_EQ(bytes.size(), (bits == 2 ? 12u : 18u) * 13);
      std::vector<float> mean(kN);
      ASSERT_TRUE(codec->Decode(bytes, {0, 0, kN}, kNumWorkers, 3, 0, kN, mean.data()).ok());
      EXPECT_EQ(mean, g);
    }
  }
}

TEST(QsgdShared, BytesPerElementAreTheBitsOfCodesAndSums) {
  const auto codec = MakeShared(4);
  EXPECT_EQ(codec->MaxEncodedSize({0, 0, 8000}), 4000u);
  EXPECT_EQ(codec->MaxSumSize({0, 0, 8000}, 1), 4000u);
  EXPECT_EQ(codec->MaxSumSize({0, 0, 8000}, 2), 5000u) << "-14 to 14 are 29 numbers";
  EXPECT_EQ(codec->MaxSumSize({0, 0, 8000}, 8), 7000u) << "-56 to 56 are 113 numbers";
}

// The smallest number of 4 bits, -8, is no code: a code that has it counts as 0.
TEST(QsgdShared, TheSmallestNumberCountsAsZero) {
  const auto codec = MakeShared(4);
  const std::vector<uint8_t> code = {0, 0, 0, 0xFF};
  const auto sum = codec->NewAccumulator({0, 0, 8}, 1);
  ASSERT_TRUE(sum->Add(0, code).ok());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(bytes, std::vector<uint8_t>(4));
}

TEST(QsgdShared, SumsBeyondWhatTheWorkersCanAddUpToAreRefused) {
  const auto codec = MakeShared(3);  // The largest code is 3, so 2 workers reach 6, of 4 bits.
  for (int k = -8; k <= 7; ++k) {
    std::vector<uint8_t> sum(4);
    for (int p = 0; p < 4; ++p) sum[static_cast<size_t>(p)] = static_cast<uint8_t>(k >> p & 1);
    float mean = 77;
    const Status decoded = codec->Decode(sum, {0, 0, 1}, 2, 3, 0, 1, &mean);
    EXPECT_EQ(decoded.ok(), std::abs(k) <= 6) << k;
    if (decoded.ok()) {
      EXPECT_EQ(mean, static_cast<float>(k) / 2);
    } else {
      EXPECT_EQ(decoded.code(), Code::kMismatch);
    }
  }
  float mean = 0;
  for (const float scaler : {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const std::vector<uint8_t> zero_sum(4);
    EXPECT_FALSE(codec->Decode(zero_sum, {0, 0, 1}, 2, scaler, 0, 1, &mean).ok()) << scaler;
  }
}

TEST(QsgdShared, HugeAndTinyGradientsStayFinite) {
  for (const uint32_t bits : {2u, 8u}) {
    const auto codec = MakeShared(bits);
    for (const float x :
         {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
      const std::vector<float> g = {x, -x, x, 0, -x, x, x, x, -x};
      const Round round = MakeRound(*codec, {g, g, g});
      EXPECT_EQ(Mean(*codec, round), g);
    }
  }
}

// The entropy of codes and sums of Gaussian values is below their bits. Sums of codes of more
// than 2 bits are split, and so are codes of many bits.
TEST(QsgdSharedAns, IsSmallerAndHasTheSameMeans) {
  constexpr size_t kN = 40000;
  for (const auto& [bits, workers, sum_bits] : {std::tuple{2u, 8, 3.1},
                                                {3u, 8, 4.0},
                                                {4u, 1, 2.9},
                                                {4u, 8, 4.7},
                                                {4u, 18, 5.4},
                                                {4u, 19, 5.4},
                                                {6u, 8, 6.8},
                                                {8u, 1, 6.9},
                                                {8u, 2, 7.5},
                                                {8u, 8, 8.7}}) {
    SCOPED_TRACE(testing::Message() << bits << " bits, " << workers << " workers");
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < workers; ++rank)
      gradients.push_back(SomeGradient(kN, static_cast<uint64_t>(rank) + 1));
    const auto plain = MakeShared(bits), coded = MakeSharedAns(bits);
    const Round plain_round = MakeRound(*plain, gradients), round = MakeRound(*coded, gradients);
    for (const auto& payload : round.payloads) {
      EXPECT_EQ(payload[0], bits < 8 ? 1 : 2);
      EXPECT_LT(payload.size(), plain_round.payloads[0].size() * 19 / 20);
    }
    const std::vector<uint8_t> sum = Sum(*coded, round);
    EXPECT_EQ(sum[0], bits == 2 ? 1 : 2);
    EXPECT_LT(8.0 * static_cast<double>(sum.size()) / kN, sum_bits);
    EXPECT_EQ(Mean(*coded, round), Mean(*plain, plain_round));
  }
}

TEST(QsgdSharedAns, AnyRangeOfASplitSumDecodesAsPartOfTheWhole) {
  constexpr size_t kN = 13000;
  const auto codec = MakeSharedAns(8);
  const Round round = MakeRound(*codec, {SomeGradient(kN, 1), SomeGradient(kN, 2)});
  const std::vector<uint8_t> sum = Sum(*codec, round);
  ASSERT_EQ(sum[0], 2);
  const std::vector<float> all_means = Mean(*codec, round);
  for (const size_t first : {0, 1, 4095, 4096, 5000, 8192, 12288, 12999, 13000}) {
    for (const size_t n : {0, 1, 100, 4096, 4097, 9000}) {
      if (n > kN - first) continue;
      std::vector<float> decoded(n + 1, 77);
      ASSERT_TRUE(codec->Decode(sum, {0, 0, kN}, 2, round.scaler, first, n, decoded.data()).ok());
      EXPECT_EQ(decoded.back(), 77);
      decoded.pop_back();
      EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(),
                             all_means.begin() + static_cast<ptrdiff_t>(first)));
    }
  }
}

// What a server may not send: a split sum where sums are not split, the other way round, and sums
// that so many workers cannot add up to.
TEST(QsgdSharedAns, RefusesSumsThatServersDoNotSend) {
  constexpr size_t kN = 5000;
  const auto codec = MakeSharedAns(8);
  const Round round = MakeRound(*codec, {SomeGradient(kN, 1), SomeGradient(kN, 2)});
  const auto code_of = [&](const std::vector<uint8_t>& sum, int workers) {
    std::vector<float> mean(kN);
    return codec->Decode(sum, {0, 0, kN}, workers, 1, 0, kN, mean.data()).code();
  };
  std::vector<uint8_t> split = Sum(*codec, round);
  ASSERT_EQ(split[0], 2);
  EXPECT_EQ(code_of(split, 2), Code::kOk);
  split[0] = 1;
  EXPECT_EQ(code_of(split, 2), Code::kMismatch);
  const auto two_bits = MakeSharedAns(2);
  std::vector<uint8_t> unsplit = Sum(*two_bits, MakeRound(*two_bits, {SomeGradient(kN, 1)}));
  ASSERT_EQ(unsplit[0], 1);
  unsplit[0] = 2;
  std::vector<float> means(kN);
  EXPECT_EQ(two_bits->Decode(unsplit, {0, 0, kN}, 1, 1, 0, kN, means.data()).code(),
            Code::kMismatch);
  // The sums of 258 workers of 4 bits may be 1806, the largest number of 12 bits 2047.
  const auto four_bits = MakeSharedAns(4);
  std::vector<uint8_t> too_large = {2, 4};
  too_large.insert(too_large.end(), 4, 0);  // the low planes of 1 element
  // The symbol 127 + 128, one block of 32 bytes, and in it 8 states of 2^16.
  too_large.insert(too_large.end(), {0xFF, 0xFF, 32, 0, 0, 0});
  for (int state = 0; state < 8; ++state) too_large.insert(too_large.end(), {0, 0, 1, 0});
  float mean = 0;
  EXPECT_EQ(four_bits->Decode(too_large, {0, 0, 1}, 258, 1, 0, 1, &mean).code(), Code::kMismatch);
}

TEST(QsgdSharedAns, RefusesWhatItsEncoderDoesNotWrite) {
  const auto codec = MakeSharedAns(4);
  const Round round = MakeRound(*codec, {SomeGradient(5000, 1)});
  const auto sum = codec->NewAccumulator({0, 0, 5000}, 1);
  std::vector<uint8_t> code = round.payloads[0];
  ASSERT_EQ(code[0], 1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{20}, code.size() - 1})
    EXPECT_EQ(sum->Add(0, std::span(code).first(size)).status().code(), Code::kMismatch) << size;
  for (const uint8_t format : {2, 3, 255}) {
    code[0] = format;
    EXPECT_EQ(sum->Add(0, code).status().code(), Code::kMismatch) << int{format};
  }
  code[0] = 1;
  code[2] = 15;  // The highest symbol: 15 would be the code 8, which 4 bits do not have.
  EXPECT_EQ(sum->Add(0, code).status().code(), Code::kMismatch);
  ASSERT_TRUE(sum->Add(0, round.payloads[0]).ok());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(bytes, Sum(*codec, round));
}

TEST(QsgdShared, SharesItsNormsWhateverTheScaler) {
  Options options = OptionsOf(4);
  options.scaler_elements = 4096;
  for (const bool per_worker : {false, true}) {
    options.scaler_per_worker = per_worker;
    EXPECT_TRUE((*MakeCodec("qsgd_shared_ans", options))->shares_scaler());
    const auto codec = std::move(*MakeCodec("qsgd_shared", options));
    EXPECT_TRUE(codec->shares_scaler());
    EXPECT_TRUE(codec->is_stochastic());
    EXPECT_EQ(codec->scaler_elements(), 4096u);
    EXPECT_EQ(codec->Granularity(7), 1u);
    EXPECT_EQ(codec->NewMemory(1), nullptr);
  }
}

TEST(QsgdShared, OptionsOutsideTheirRangesAreRefused) {
  const auto message_of = [](const Options& options) {
    const auto codec = MakeCodec("qsgd_shared", options);
    EXPECT_EQ(codec.status().code(), Code::kBadJob);
    return codec.status().message();
  };
  for (const uint32_t bits : {0u, 1u, 9u, 300u})
    EXPECT_NE(message_of(OptionsOf(bits)).find("exchange.qsgd_shared.bits"), std::string::npos);
  EXPECT_NE(message_of(OptionsOf(4, Clip::kGrace)).find("exchange.clip"), std::string::npos);
  Options bad_sigma = OptionsOf(4, Clip::kPaper);
  bad_sigma.clip_sigma = 0;
  EXPECT_NE(message_of(bad_sigma).find("exchange.clip_sigma"), std::string::npos);
  Options with_feedback = OptionsOf(4);
  with_feedback.error_feedback = true;
  message_of(with_feedback);
}

}  // namespace
}  // namespace tern::codec

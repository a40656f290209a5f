// Tests of the sums of the codec QSGD: means that the server encodes again, and exact means.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/common/codec/qsgd_cases.h"

namespace tern::codec {
namespace {

// The code of a round's mean, as a server encodes it with the random numbers of `noise_round`.
std::vector<uint8_t> RecodedSum(const Codec& codec, const Round& round, uint64_t noise_round) {
  const auto sum = codec.NewAccumulator({2, 0, round.count()}, round.workers(),
                                        {NoiseOfRound(noise_round), nullptr});
  for (int rank = round.workers() - 1; rank >= 0; --rank)
    EXPECT_TRUE(sum->Add(rank, round.payloads[rank]).ok());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  return bytes;
}

TEST(Qsgd, SumIsTheCodeOfTheMeanOfDecodedValues) {
  for (const Qsgd& qsgd : {WithBits(4, 50), WithLevels(Levels::kSqrtN, 50),
                           WithBits(3, 50, Norm::kTwo, Layout::kIntervals)}) {
    const auto codec = MakeQsgdCodec(qsgd);
    const Round round =
        MakeRound(*codec, {SomeGradient(300, 1), SomeGradient(300, 2), SomeGradient(300, 3)});
    std::vector<float> mean(300);
    for (const auto& payload : round.payloads) {
      const std::vector<float> sent = DecodeSingleCode(*codec, payload, 300);
      for (size_t i = 0; i < 300; ++i) mean[i] += sent[i];
    }
    for (float& v : mean) v /= 3.0f;
    EXPECT_EQ(Mean(*MakeQsgdCodec(qsgd, false), round), mean);
    std::vector<uint8_t> expected;
    codec->Encode(mean.data(), {2, 0, 300}, {}, NoiseOfRound(9), &expected);
    EXPECT_EQ(RecodedSum(*codec, round, 9), expected);
    EXPECT_NE(RecodedSum(*codec, round, 10), expected);
  }
}

// Algorithm 2 of PQASGD adds the mean of the codes without coding it again: the mean of N equal
// codes is what one of them decodes to.
TEST(Qsgd, ExactSumsAreTheMeansOfTheCodes) {
  Qsgd qsgd = WithBits(3, 50);
  const auto coded = MakeQsgdCodec(qsgd);
  qsgd.exact_sums = true;
  const auto exact = MakeQsgdCodec(qsgd);
  EXPECT_EQ(coded->name(), "qsgd");
  EXPECT_EQ(exact->name(), "qsgd_exact") << "another format must have another name";
  EXPECT_FALSE(exact->SingleCodeIsSum());
  Round round = MakeRound(*exact, {SomeGradient(300, 1), SomeGradient(300, 2)});
  EXPECT_EQ(round.payloads, MakeRound(*coded, round.gradients).payloads);
  const std::vector<float> first = DecodeSingleCode(*exact, round.payloads[0], 300),
                           second = DecodeSingleCode(*exact, round.payloads[1], 300);
  const std::vector<float> mean = Mean(*exact, round), coded_mean = Mean(*coded, round);
  double coded_error = 0;
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(mean[i], (first[i] + second[i]) / 2) << i;
    coded_error += std::abs(double{coded_mean[i]} - double{mean[i]});
  }
  EXPECT_GT(coded_error, 10) << "coding the mean again must lose something";
  round.payloads[1] = round.payloads[0];
  EXPECT_EQ(Mean(*exact, round), first);
}

TEST(Qsgd, SingleWorkersCodeIsPassedOn) {
  const auto codec = MakeQsgdCodec(WithBits(2, 50, Norm::kTwo));
  const Round round = MakeRound(*codec, {SomeGradient(300, 1)});
  EXPECT_TRUE(codec->SingleCodeIsSum());
  EXPECT_FALSE(MakeQsgdCodec(WithBits(2, 50), false)->SingleCodeIsSum());
  EXPECT_EQ(RecodedSum(*codec, round, 9), round.payloads[0]);
  // The sum of a single worker's code is that code, whatever the rank and the number of workers.
  const auto sum = codec->NewAccumulator({2, 0, 300}, 5, {NoiseOfRound(9), nullptr});
  ASSERT_TRUE(sum->Add(3, round.payloads[0]).ok());
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(bytes, round.payloads[0]);
}

TEST(Qsgd, RecodedSumsAreUnbiased) {
  constexpr int kDraws = 100000;
  const auto codec = MakeQsgdCodec(WithBits(2, 8));
  const std::vector<std::vector<float>> gradients = {{0.5, -1, 0.25, 0}, {0.1f, 0.3f, 1, -0.5}};
  const Round round = MakeRound(*codec, gradients);
  const std::vector<float> mean = Mean(*MakeQsgdCodec(WithBits(2, 8), false), round);
  double largest = 0;
  for (float v : mean) largest = std::max(largest, std::abs(double{v}));
  std::vector<double> sum(4);
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> values = DecodeSingleCode(*codec, RecodedSum(*codec, round, draw), 4);
    for (size_t i = 0; i < 4; ++i) sum[i] += values[i];
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(sum[i] / kDraws, mean[i], 4.5 * largest / 2 / std::sqrt(kDraws)) << i;
}

}  // namespace
}  // namespace tern::codec

// Tests of the codec ternary, whose codes are -1, 0 or 1 times a scaler, with shared and with
// per-worker scalers: the conformance suite, the clip variants, and refused inputs.
#include "kernels/codes/ternary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "common/codec/codecs.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/stats.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Options MakeOptions(Clip clip, double clip_sigma, bool per_worker) {
  Options options;
  options.clip = clip;
  options.clip_sigma = clip_sigma;
  options.scaler_per_worker = per_worker;
  return options;
}

std::unique_ptr<Codec> MakeTernaryCodec(Clip clip = Clip::kPaper, bool per_worker = false,
                                        double clip_sigma = 2.5) {
  return std::move(*MakeCodec("ternary", MakeOptions(clip, clip_sigma, per_worker)));
}

// Whether `mean` is -1, 0 or 1 times the scaler, with the sign of the gradient g.
bool IsTernary(float g, float scaler, float mean) {
  return mean == 0 || (std::abs(mean) == scaler && std::signbit(mean) == std::signbit(g) && g != 0);
}

INSTANTIATE_TEST_SUITE_P(Ternary, CodecConformance,
                         testing::Values(CodecCase{
                             "Ternary",
                             [] { return MakeTernaryCodec(); },
                             IsTernary,
                             [](std::span<const uint8_t> payload, uint64_t count) {
                               return UnusedBitsOfMaskAndSigns(payload, count, 0);
                             },
                             {"8a0005", "d00002"},
                             "5a0042004200"}),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(
    TernaryPerWorker, CodecConformance,
    testing::Values(CodecCase{
        "TernaryPerWorker",
        [] { return MakeTernaryCodec(Clip::kGrace, true); },
        IsTernary,
        [](std::span<const uint8_t> payload, uint64_t count) {
          return UnusedBitsOfMaskAndSigns(payload, count, sizeof(float));
        },
        {"0000803faa0009", "a52dbd3fd00002"},
        "00000000000000bf000000000000003fa52d3d3f0000003fa52d3dbf94b6743e0000000000000000"
        "00000000"}),
    CaseName);

EncodeParams PrepareGradient(const Codec& codec, const std::vector<float>& g) {
  return codec.Prepare(kernels::ComputeStats(g.data(), g.size()), g, {});
}

// A gradient with mean 0, standard deviation sqrt(3) and maximum 3.
const std::vector<float> kPeaked = {3, -1, -1, -1};
const float kSigma = std::sqrt(3.0f);

TEST(TernaryClip, PaperClampsAndTakesTheClampedMaximum) {
  const EncodeParams clipped =
      PrepareGradient(*MakeTernaryCodec(Clip::kPaper, false, 1.5), kPeaked);
  EXPECT_FLOAT_EQ(clipped.scaler, 1.5f * kSigma);
  EXPECT_EQ(clipped.clip, clipped.scaler);
  const EncodeParams unclipped =
      PrepareGradient(*MakeTernaryCodec(Clip::kPaper, false, 2.5), kPeaked);
  EXPECT_EQ(unclipped.scaler, 3);
  EXPECT_FLOAT_EQ(unclipped.clip, 2.5f * kSigma);
}

TEST(TernaryClip, OfficialScalesByCSigmaEvenAboveTheMaximum) {
  const EncodeParams unclipped =
      PrepareGradient(*MakeTernaryCodec(Clip::kOfficial, false, 2.5), kPeaked);
  EXPECT_FLOAT_EQ(unclipped.scaler, 2.5f * kSigma);
  EXPECT_EQ(unclipped.clip, kInfinity);
}

TEST(TernaryClip, GraceIsThePapersPerWorker) {
  const EncodeParams prepared_by_grace =
      PrepareGradient(*MakeTernaryCodec(Clip::kGrace, true, 1.5), kPeaked);
  const EncodeParams prepared_by_paper =
      PrepareGradient(*MakeTernaryCodec(Clip::kPaper, false, 1.5), kPeaked);
  EXPECT_EQ(prepared_by_grace.scaler, prepared_by_paper.scaler);
  EXPECT_EQ(prepared_by_grace.clip, prepared_by_paper.clip);
}

TEST(TernaryClip, NoneTakesTheMaximum) {
  const EncodeParams without_clip =
      PrepareGradient(*MakeTernaryCodec(Clip::kNone, false, 1.5), kPeaked);
  EXPECT_EQ(without_clip.scaler, 3);
  EXPECT_EQ(without_clip.clip, kInfinity);
}

// Sigma is the standard deviation from the mean, which is 102 here.
TEST(TernaryClip, SigmaIsAboutTheMean) {
  const EncodeParams encode_params =
      PrepareGradient(*MakeTernaryCodec(Clip::kOfficial, false, 1), {101, 103});
  EXPECT_FLOAT_EQ(encode_params.scaler, 1);
}

TEST(TernaryClip, NothingIsClippedWithoutSpread) {
  for (const std::vector<float>& g : {std::vector<float>{-2}, std::vector<float>{-2, -2}}) {
    for (Clip clip : {Clip::kPaper, Clip::kOfficial, Clip::kNone}) {
      const auto codec = MakeTernaryCodec(clip);
      EXPECT_EQ(PrepareGradient(*codec, g).scaler, 2);
      EXPECT_EQ(Mean(*codec, MakeRound(*codec, {g})), g);
    }
  }
}

TEST(TernaryClip, HugeGradientsKeepAFiniteScaler) {
  const float huge = std::numeric_limits<float>::max();
  for (Clip clip : {Clip::kPaper, Clip::kOfficial, Clip::kNone}) {
    const auto codec = MakeTernaryCodec(clip);
    const EncodeParams encode_params = PrepareGradient(*codec, {huge, -huge, huge, -huge});
    EXPECT_EQ(encode_params.scaler, huge);
  }
}

TEST(TernaryClip, OfficialFiresBeyondTheSharedScalerOnly) {
  const auto codec = MakeTernaryCodec(Clip::kOfficial, false, 1);
  // Rank 0's own limit c * sigma is sqrt(3). The shared scaler is that of rank 1, 2 * sqrt(3): so 3
  // is coded as non-zero with a probability below 1, and 6 always.
  const Round round = MakeRound(*codec, {kPeaked, {6, -2, -2, -2}});
  EXPECT_FLOAT_EQ(round.scaler, 2 * kSigma);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    kernels::NoiseKey noise;
    noise.seed = seed;
    std::vector<uint8_t> code;
    codec->Encode(round.gradients[1].data(), {0, 0, 4}, round.encode_params[1], noise, &code);
    ASSERT_EQ(code[0] & 1, 1);
  }
}

TEST(Ternary, NoiseDependsOnTensorRoundAndRank) {
  const auto codec = MakeTernaryCodec();
  const std::vector<float> g = SomeGradient(256, 9);
  const EncodeParams encode_params = PrepareGradient(*codec, g);
  const auto encode = [&](uint32_t tensor, uint64_t round, uint16_t rank) {
    kernels::NoiseKey noise;
    noise.rank = rank;
    noise.round = round;
    noise.tensor = 99;  // The codec ignores this, and uses the segment's tensor.
    std::vector<uint8_t> code;
    codec->Encode(g.data(), {tensor, 0, g.size()}, encode_params, noise, &code);
    return code;
  };
  EXPECT_EQ(encode(1, 1, 1), encode(1, 1, 1));
  EXPECT_NE(encode(1, 1, 1), encode(2, 1, 1));
  EXPECT_NE(encode(1, 1, 1), encode(1, 2, 1));
  EXPECT_NE(encode(1, 1, 1), encode(1, 1, 2));
}

TEST(Ternary, SumIsTheIntegerSumOfCodes) {
  const auto codec = MakeTernaryCodec();
  for (int workers : {1, 2, 3, 4, 7, 8, 16, 127, 128, 1024}) {
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < workers; ++rank) gradients.push_back(SomeGradient(67, rank));
    const Round round = MakeRound(*codec, gradients);
    std::vector<int> sums(67);
    for (const std::vector<uint8_t>& payload : round.payloads) {
      std::vector<int8_t> codes(67);
      const size_t plane_bytes = kernels::PlaneBytes(67);
      kernels::ExpandCodes(payload.data(), payload.data() + plane_bytes, 67, codes.data());
      for (size_t i = 0; i < 67; ++i) sums[i] += codes[i];
    }
    const std::vector<float> mean = Mean(*codec, round);
    for (size_t i = 0; i < 67; ++i) {
      ASSERT_EQ(mean[i], static_cast<float>(static_cast<double>(round.scaler) * sums[i] / workers));
    }
  }
}

TEST(Ternary, SumsBeyondTheNumberOfWorkersDoNotDecode) {
  const auto codec = MakeTernaryCodec();
  // A sum of 5 workers has 4 planes (bit p of each element is in plane p), which can hold -8 to 7.
  // Element 3 has the value k, the others 0.
  for (int k = -8; k <= 7; ++k) {
    std::vector<uint8_t> sum(codec->MaxSumSize({0, 0, 5}, 5));
    ASSERT_EQ(sum.size(), 4u);
    for (int p = 0; p < 4; ++p) sum[p] = static_cast<uint8_t>((k >> p & 1) << 3);
    std::vector<float> mean(5);
    EXPECT_EQ(codec->Decode(sum, {0, 0, 5}, 5, 1, 0, 5, mean.data()).code(),
              std::abs(k) <= 5 ? Code::kOk : Code::kMismatch)
        << k;
  }
}

TEST(Ternary, SumsWithUnusedBitsSetDoNotDecode) {
  const auto codec = MakeTernaryCodec();
  for (size_t bit = 5; bit < 8; ++bit) {
    std::vector<uint8_t> sum(codec->MaxSumSize({0, 0, 5}, 1));
    sum[1] = static_cast<uint8_t>(1 << bit);
    std::vector<float> mean(5);
    EXPECT_EQ(codec->Decode(sum, {0, 0, 5}, 1, 1, 0, 5, mean.data()).code(), Code::kMismatch);
  }
}

TEST(Ternary, InvalidScalersDoNotDecode) {
  const auto codec = MakeTernaryCodec();
  const std::vector<uint8_t> sum(codec->MaxSumSize({0, 0, 5}, 1));
  std::vector<float> mean(5);
  for (float bad_scaler : {kInfinity, -kInfinity, std::nanf(""), -1.0f}) {
    EXPECT_EQ(codec->Decode(sum, {0, 0, 5}, 1, bad_scaler, 0, 5, mean.data()).code(),
              Code::kMismatch);
  }
}

TEST(TernaryPerWorker, InvalidScalersAreRejectedAndLeaveTheSumUnchanged) {
  const auto codec = MakeTernaryCodec(Clip::kPaper, true);
  const Round round = MakeRound(*codec, {SomeGradient(20, 1), SomeGradient(20, 2)});
  const auto sum = codec->NewAccumulator({0, 0, 20}, 2);
  for (int rank : {1, 0}) {
    for (float bad_scaler : {kInfinity, -kInfinity, std::nanf(""), -1.0f, -0.0f}) {
      std::vector<uint8_t> payload = round.payloads[rank];
      std::memcpy(payload.data(), &bad_scaler, sizeof bad_scaler);
      ASSERT_EQ(sum->Add(rank, payload).status().code(), Code::kMismatch) << bad_scaler;
    }
    ASSERT_TRUE(sum->Add(rank, round.payloads[rank]).ok());
  }
  std::vector<uint8_t> bytes;
  sum->EncodeSum(&bytes);
  EXPECT_EQ(bytes, Sum(*codec, round));
}

TEST(TernaryPerWorker, KeepsEachWorkersOwnScaler) {
  const auto codec = MakeTernaryCodec(Clip::kNone, true);
  EXPECT_FALSE(codec->shares_scaler());
  EXPECT_TRUE(MakeTernaryCodec()->shares_scaler());
  // Each magnitude is 0 or its worker's largest one, so the codes are not random.
  const Round round = MakeRound(*codec, {{1.0f, 0.0f}, {-4.0f, 4.0f}});
  EXPECT_EQ(Mean(*codec, round), (std::vector<float>{-1.5f, 2.0f}));
}

TEST(MakeCodec, MakesEveryListedCodec) {
  EXPECT_EQ(CodecNames(), (std::vector<std::string>{
                              "fp32", "fp16", "bf16", "ternary", "ternary_2bit", "ternary_trit5",
                              "ternary_ans", "qsgd", "onebit", "topk", "threshold", "adaptive",
                              "adacomp", "qsgd_shared", "qsgd_shared_ans"}));
  for (const std::string& name : CodecNames()) {
    const auto codec = MakeCodec(name, {});
    ASSERT_TRUE(codec.ok()) << codec.status().message();
    EXPECT_EQ((*codec)->name(), name);
  }
  EXPECT_EQ(MakeTernaryCodec(Clip::kPaper, true)->name(), "ternary_per_worker");
}

TEST(MakeCodec, KnowsWhichCodesCanBeDecodedAlone) {
  for (const std::string& name : CodecNames())
    EXPECT_EQ(CanDecodeAlone(name), name != "qsgd_shared" && name != "qsgd_shared_ans") << name;
  EXPECT_FALSE(CanDecodeAlone("ternay"));
}

TEST(MakeCodec, ListsKnownNamesForAnUnknownOne) {
  for (const char* name : {"ternay", "", "ternary_per_worker"}) {
    const auto codec = MakeCodec(name, {});
    ASSERT_FALSE(codec.ok());
    EXPECT_EQ(codec.status().code(), Code::kBadJob);
    EXPECT_NE(codec.status().message().find("fp32, fp16, bf16, ternary"), std::string::npos);
  }
}

TEST(MakeCodec, GraceNeedsScalersPerWorkerAndSaysSo) {
  const auto codec = MakeCodec("ternary", MakeOptions(Clip::kGrace, 2.5, false));
  ASSERT_FALSE(codec.ok());
  EXPECT_EQ(codec.status().code(), Code::kBadJob);
  EXPECT_NE(codec.status().message().find("exchange.scaler"), std::string::npos);
  EXPECT_TRUE(MakeCodec("ternary", MakeOptions(Clip::kGrace, 2.5, true)).ok());
}

TEST(MakeCodec, RefusesANonPositiveClip) {
  for (double clip_sigma : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(MakeCodec("ternary", MakeOptions(Clip::kPaper, clip_sigma, false)).status().code(),
              Code::kBadJob);
  }
}

}  // namespace
}  // namespace tern::codec

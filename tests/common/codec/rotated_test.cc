// Tests of rotations before random codes: conformance with each such codec, the law of the codes,
// the bias of clipped gradients with heavy tails, where chunks may be cut, and refused settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common/codec/codecs.h"
#include "kernels/codes/rotate.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlock = 64;

Options OptionsOf(uint64_t block = kBlock) {
  Options options;
  options.rotate = block;
  options.seed = 7;
  options.keys.mutable_qsgd_shared()->set_bits(4);
  return options;
}

std::unique_ptr<Codec> Make(const std::string& name, const Options& options) {
  auto codec = MakeCodec(name, options);
  EXPECT_TRUE(codec.ok()) << codec.status().message();
  return std::move(*codec);
}

CodecCase MakeCase(const std::string& name, const std::string& codec, const Options& options,
                   const char* first, const char* second, const char* sum) {
  CodecCase c;
  c.name = name;
  c.make = [=] { return Make(codec, options); };
  // In a block of n rotated elements, each is wrong by at most the scaler and what was clamped. The
  // 2-norm of the errors is the same rotated back, and no element's error is larger.
  c.is_plausible = [](float g, float scaler, float mean) {
    return std::abs(g - mean) <= 2 * std::sqrt(double{kBlock}) * double{scaler};
  };
  c.unused_bits = NoUnusedBits;
  c.golden_payloads[0] = first;
  c.golden_payloads[1] = second;
  c.golden_sum = sum;
  c.max_recoding_error = 1e-5;  // additions round, where sums cancel
  return c;
}

CodecCase OfVaryingSize(CodecCase c) {
  c.sizes_vary = true;
  return c;
}

Options PerWorker() {
  Options options = OptionsOf();
  options.scaler_per_worker = true;
  return options;
}
Options ExactSums() {
  Options options = OptionsOf();
  options.qsgd.exact_sums = true;
  return options;
}
CodecCase QsgdCase() {
  CodecCase c = MakeCase("Qsgd", "qsgd", OptionsOf(), "54649e3f02291f2e2a0c",
                         "0514933f0c1176ad9a0b", "02d2703f0920590f0b0d");
  c.max_recoding_error = 2;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Rotated, CodecConformance,
    testing::Values(
        OfVaryingSize(MakeCase("Ternary", "ternary", OptionsOf(), "d80006", "f0000c",
                               "280040004000")),
        MakeCase("TwoBit", "ternary_2bit", OptionsOf(), "d8005000", "f000c000", "280040004000"),
        MakeCase("Trit5", "ternary_trit5", OptionsOf(), "bd0f00", "511900", "280040004000"),
        OfVaryingSize(MakeCase("Ans", "ternary_ans", OptionsOf(), "00d80006", "00f0000c",
                               "00280040004000")),
        OfVaryingSize(MakeCase("PerWorker", "ternary", PerWorker(), "54649e3fd80006",
                               "0514933ff10019",
                               "051413bf000000000000000054641e3ff00435bd0514133f2cbc98bff004353d000"
                               "000000000000000000000")),
        QsgdCase(),
        MakeCase("QsgdExact", "qsgd", ExactSums(), "54649e3f02291f2e2a0c", "0514933f0c1176ad9a0b",
                 "d0281bbe0000000010e1cebb3188843eac4c01bea3b4293f02d270bf10e14e3cea8daebe03f3c13d0"
                 "e8b19bf"),
        MakeCase("QsgdShared", "qsgd_shared", OptionsOf(), "3400cd0304055405", "cd07f003b107c107",
                 "f9073900710111055105"),
        OfVaryingSize(MakeCase("QsgdSharedAns", "qsgd_shared_ans", OptionsOf(),
                               "003400cd0304055405", "00cd07f003b107c107",
                               "00f9073900710111055105"))),
    CaseName);

// What a tensor's only worker decodes, in a round.
std::vector<float> Exchanged(const Codec& codec, const std::vector<float>& g, uint64_t round) {
  const Segment segment{3, 0, g.size()};
  std::vector<float> values = g;
  if (codec.rotates()) codec.Rotate(segment.tensor, 0, g, values.data());
  const kernels::NoiseKey noise{.seed = 7, .round = round, .tensor = segment.tensor};
  const EncodeParams params =
      codec.Prepare(kernels::ComputeStats(values.data(), values.size()), values, noise);
  std::vector<uint8_t> code, sum;
  codec.Encode(values.data(), segment, params, noise, &code);
  const auto accumulator = codec.NewAccumulator(segment, 1);
  EXPECT_TRUE(accumulator->Add(0, code).ok());
  accumulator->EncodeSum(&sum);
  std::vector<float> mean(g.size());
  EXPECT_TRUE(codec.Decode(sum, segment, 1, params.scaler, 0, mean.size(), mean.data()).ok());
  return mean;
}

// The mean of the decoded codes of one gradient tends to the gradient: the rotation is fixed, and
// codes of rotated values are as unbiased as codes of values.
TEST(Rotated, CodesAreUnbiased) {
  constexpr int kRounds = 4000;
  const std::vector<float> g = SomeGradient(3 * kBlock + 45, 5);  // blocks of 64, 32, 8, 4 and 1
  for (const char* name : {"ternary", "ternary_ans", "qsgd", "qsgd_shared"}) {
    Options options = OptionsOf();
    options.clip = Clip::kNone;
    const auto codec = Make(name, options);
    std::vector<double> sum(g.size());
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<float> values = Exchanged(*codec, g, static_cast<uint64_t>(round));
      for (size_t i = 0; i < g.size(); ++i) sum[i] += double{values[i]};
    }
    // The variance of a value is at most that of a rotated one: a quarter of the square of the
    // scaler, which is below 4 here, or its product with the value.
    for (size_t i = 0; i < g.size(); ++i)
      EXPECT_NEAR(sum[i] / kRounds, g[i], 5 * 2 / std::sqrt(double{kRounds})) << name << " " << i;
  }
}

// The squared norm of what clipping takes away from a gradient, relative to that of the gradient:
// |E[decoded] - g|^2 / |g|^2. The expected code of a value is the value clamped to the scaler.
double ClippedShare(const Codec& codec, const std::vector<float>& g) {
  std::vector<float> values = g;
  if (codec.rotates()) codec.Rotate(0, 0, g, values.data());
  const EncodeParams params =
      codec.Prepare(kernels::ComputeStats(values.data(), values.size()), values, {});
  double lost = 0, all = 0;
  for (const float v : values) {
    const double excess = std::max(0.0, std::abs(double{v}) - double{params.scaler});
    lost += excess * excess;
    all += double{v} * double{v};
  }
  return lost / all;
}

TEST(Rotated, GradientsWithHeavyTailsLoseATenthByClipping) {
  std::mt19937_64 random(3);
  std::student_t_distribution<double> student(3);
  std::vector<float> g(1 << 18);
  for (float& v : g) v = static_cast<float>(student(random));
  const double unrotated = ClippedShare(*Make("ternary", Options()), g);
  const double rotated = ClippedShare(*Make("ternary", OptionsOf(4096)), g);
  EXPECT_LT(10 * rotated, unrotated) << rotated;
  EXPECT_LT(rotated, 0.004) << "a Gaussian loses 0.0024 above 2.5 sigma";
}

TEST(Rotated, IsCutOnlyBetweenBlocks) {
  EXPECT_EQ(Make("ternary", OptionsOf(4096))->Granularity(1), 4096u);
  Options options = OptionsOf(4096);
  options.qsgd.bucket = 1000;
  EXPECT_EQ(Make("qsgd", options)->Granularity(1), 512000u);
  options.qsgd.bucket = 0;
  EXPECT_EQ(Make("qsgd", options)->Granularity(1), std::numeric_limits<uint64_t>::max());
}

TEST(Rotated, LeavesCodecsAloneWhoseCodesAreNotRandom) {
  for (const std::string& name : CodecNames()) {
    const auto codec = Make(name, OptionsOf());
    EXPECT_EQ(codec->rotates(), codec->is_stochastic()) << name;
    EXPECT_EQ(codec->name().ends_with("_rotated"), codec->is_stochastic()) << name;
    EXPECT_EQ(CanEncodeOnDevice(*codec), CanEncodeOnDevice(**MakeCodec(name, {}))) << name;
    EXPECT_EQ(codec->unrotated_name(), name);
  }
}

TEST(Rotated, RefusesBlocksThatAreNoPowersOfTwo) {
  for (const uint64_t block : {1, 32, 100, 131072}) {
    const auto codec = MakeCodec("ternary", OptionsOf(block));
    ASSERT_FALSE(codec.ok()) << block;
    EXPECT_EQ(codec.status().code(), Code::kBadJob);
    EXPECT_THAT(codec.status().message(), HasSubstr("expected 0 or a power of two from 64"));
  }
}

TEST(Rotated, RefusesScalersOfPartsOfABlock) {
  for (const uint64_t elements : {100, 2048, 4097}) {
    Options options = OptionsOf(4096);
    options.scaler_elements = elements;
    const auto codec = MakeCodec("ternary", options);
    ASSERT_FALSE(codec.ok()) << elements;
    EXPECT_THAT(codec.status().message(), HasSubstr("a multiple of exchange.rotate (4096)"));
  }
  Options options = OptionsOf(4096);
  options.scaler_elements = 8192;
  EXPECT_EQ(Make("ternary", options)->scaler_elements(), 8192u);
}

// A sum of huge floats from a server overflows when it is rotated back.
TEST(Rotated, RefusesSumsThatOverflow) {
  const auto codec = Make("ternary", PerWorker());
  const std::vector<float> huge(kBlock, std::numeric_limits<float>::max());
  const std::span bytes(reinterpret_cast<const uint8_t*>(huge.data()), sizeof(float) * kBlock);
  std::vector<float> mean(kBlock);
  const Status status = codec->Decode(bytes, {0, 0, kBlock}, 1, 0, 0, kBlock, mean.data());
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("not finite"));
}

}  // namespace
}  // namespace tern::codec

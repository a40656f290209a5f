// Tests of the codec QSGD: conformance, the distribution of codes, limit cases, refused inputs.
// qsgd_sums_test.cc tests its sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/codec/codecs.h"
#include "common/codec/qsgd_levels.h"
#include "kernels/codes/stats.h"
#include "tests/common/codec/qsgd_cases.h"

namespace tern::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFloat = std::numeric_limits<float>::max();

// The indices of all bits of the payload from bit `first` on.
std::vector<size_t> BitIndicesFrom(size_t first, std::span<const uint8_t> payload) {
  std::vector<size_t> bits;
  for (size_t i = first; i < 8 * payload.size(); ++i) bits.push_back(i);
  return bits;
}

// The 64-bit integer at byte `at` of the payload.
uint64_t ReadUint64(std::span<const uint8_t> payload, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, payload.data() + at, sizeof value);
  return value;
}

// A check that |mean - g| is at most max_share * `largest`, the tensor's largest magnitude.
auto ErrorWithin(double max_share) {
  return [max_share](float g, float largest, float mean) {
    return std::abs(double{mean} - double{g}) <= max_share * double{largest} * (1 + 1e-6);
  };
}

CodecCase CaseOfBits(const char* name, const Qsgd& qsgd, double share, const char* first,
                     const char* second, const char* sum) {
  CodecCase c;
  c.name = name;
  c.make = [qsgd] { return MakeQsgdCodec(qsgd); };
  c.is_plausible = ErrorWithin(share);
  c.unused_bits = [qsgd](std::span<const uint8_t> payload, uint64_t count) {
    const uint64_t num_buckets = (count + qsgd.bucket - 1) / qsgd.bucket;
    return BitIndicesFrom(32 * num_buckets + count * static_cast<uint64_t>(qsgd.bits), payload);
  };
  c.golden_payloads[0] = first;
  c.golden_payloads[1] = second;
  c.golden_sum = sum;
  c.max_recoding_error = share * (1 + 1e-6);
  return c;
}

CodecCase CaseOfLevels(const char* name, const Qsgd& qsgd, double share, const char* first,
                       const char* second, const char* sum) {
  CodecCase c = CaseOfBits(name, qsgd, share, first, second, sum);
  c.unused_bits = [qsgd](std::span<const uint8_t> payload, uint64_t count) {
    const uint64_t num_buckets = (count + qsgd.bucket - 1) / qsgd.bucket;
    const size_t header_bytes = 5 * num_buckets + 8 * ((num_buckets + 63) / 64);
    return BitIndicesFrom(8 * header_bytes + ReadUint64(payload, header_bytes - 8), payload);
  };
  c.sizes_vary = true;
  return c;
}

CodecCase WithFloatSums(CodecCase c, const Qsgd& qsgd, const char* sum) {
  c.name += "FloatSums";
  c.make = [qsgd] { return MakeQsgdCodec(qsgd, false); };
  c.golden_sum = sum;
  c.max_recoding_error = 0;
  c.sizes_vary = false;
  return c;
}

// A codec whose server sends the mean as floats.
CodecCase WithExactSums(CodecCase c, Qsgd qsgd, const char* sum) {
  qsgd.exact_sums = true;
  c = WithFloatSums(std::move(c), qsgd, sum);
  c.name = "ExactSums";
  c.make = [qsgd] { return MakeQsgdCodec(qsgd); };
  return c;
}

constexpr const char kMeanOfFourBits[] =
    "b76ddb3d6edb36bf4992a43e2549123e284912bd0000003fdbb62dbfb86ddb3c2549123e254992be0000303f";

const CodecCase kFourBits =
    CaseOfBits("FourBits", WithBits(4, 7), 1.0 / 7, "0000803f0000603ff3207db1c007",
               "0000c03f0000003fa903036f9407", "6edb363f0000303ff123500fa207");

INSTANTIATE_TEST_SUITE_P(
    Qsgd, CodecConformance,
    testing::Values(kFourBits, WithFloatSums(kFourBits, WithBits(4, 7), kMeanOfFourBits),
                    WithExactSums(kFourBits, WithBits(4, 7), kMeanOfFourBits),
                    CaseOfBits("TwoBitsTwoNorm", WithBits(2, 16, Norm::kTwo), 4, "58cf004040c000",
                               "e313fb3f007100", "6e5edb3f403000"),
                    CaseOfBits("Intervals", WithBits(3, 16, Norm::kMax, Layout::kIntervals),
                               2.0 / 7, "0000803fc58a739301", "0000c03f53d7a11c01",
                               "2449523f44a9869401"),
                    CaseOfBits("SixteenBits", WithBits(16, 8192), 1.0 / 32767,
                               "0000803fff3fffff00000020ffdfff7f001000b00008ffbfff6f",
                               "0000c03f5595aaaaff3f0000ab2aaa0affff002055155585aa2a",
                               "80ff3f3f5515ffffff3f56155495ff5f55f50000aa1affaf5575"),
                    CaseOfLevels("SqrtN", WithLevels(Levels::kSqrtN, 5), 2,
                                 "6f45af3f0000983f0000603f02020216000000000000004cc400",
                                 "b6c3873fa346c93f0000003f0203021b0000000000000010a10100",
                                 "8c378c3ffadb653f0000000002020014000000000000005c3400"),
                    CaseOfLevels("TenLevels", WithLevels(Levels::kGiven, 9, Norm::kMax, 10), 0.1,
                                 "0000803f0000603f0505370000000000000045837155a0c02a",
                                 "0000c03f0000003f05053700000000000000721640821e222a",
                                 "9a99393f0000303f050537000000000000004217019006822a")),
    CaseName);

std::vector<uint8_t> CodeOf(const Codec& codec, std::span<const float> g, uint64_t round = 0,
                            uint64_t begin = 0) {
  std::vector<uint8_t> code;
  codec.Encode(g.data(), {0, begin, g.size()}, {}, NoiseOfRound(round), &code);
  return code;
}

// The status code of adding `code`, the code of one worker, to a sum.
Code StatusOfAdding(const Codec& codec, std::span<const uint8_t> code, uint64_t count) {
  const auto sum = codec.NewAccumulator({0, 0, count}, 1);
  const Result<size_t> consumed_bytes = sum->Add(0, code);
  return consumed_bytes.ok() ? Code::kOk : consumed_bytes.status().code();
}

// The law: over many codes, an element v decodes to values of mean v and variance unit^2 p (1 - p),
// where `unit` is the distance of neighbouring levels, p the probability that v is rounded up.
struct LawCase {
  const char* name;
  Qsgd qsgd;
};
class QsgdLaw : public testing::TestWithParam<LawCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, QsgdLaw,
    testing::Values(LawCase{"TwoBits", WithBits(2, 8)}, LawCase{"FourBits", WithBits(4, 8)},
                    LawCase{"FourBitsTwoNorm", WithBits(4, 8, Norm::kTwo)},
                    LawCase{"EightBits", WithBits(8, 5)},
                    LawCase{"Intervals", WithBits(3, 8, Norm::kMax, Layout::kIntervals)},
                    LawCase{"IntervalsTwoNorm", WithBits(2, 8, Norm::kTwo, Layout::kIntervals)},
                    LawCase{"SqrtN", WithLevels(Levels::kSqrtN, 0)},
                    LawCase{"SqrtNOfTheLargest", WithLevels(Levels::kSqrtN, 7, Norm::kMax)},
                    LawCase{"GivenLevels", WithLevels(Levels::kGiven, 3, Norm::kTwo, 2.5)}),
    [](const testing::TestParamInfo<LawCase>& info) { return std::string(info.param.name); });

const std::vector<float> kValues = {0.5f, -1.0f, 0.0f, 0.25f, -0.7f, 1.5f, 0.1f, -0.3f, 0.9f};

// `unit` and the probability p of the law, for an element v of the bucket.
std::pair<double, double> UnitAndProbability(const Qsgd& qsgd, std::span<const float> bucket,
                                             double v) {
  double largest = 0, squares = 0;
  for (double x : bucket) {
    largest = std::max(largest, std::abs(x));
    squares += x * x;
  }
  const double norm = qsgd.norm == Norm::kMax ? largest : std::sqrt(squares);
  double unit = 0, position = 0;  // position: distance from level 0, in units
  if (qsgd.layout == Layout::kIntervals) {
    unit = 2 * norm / ((1 << qsgd.bits) - 1);
    position = (v + norm) / unit;
  } else {
    double s = (1 << (qsgd.bits - 1)) - 1;
    if (qsgd.levels == Levels::kGiven) s = qsgd.s;
    if (qsgd.levels == Levels::kSqrtN) s = std::sqrt(static_cast<double>(bucket.size())) / 2;
    unit = norm / s;
    position = std::abs(v) / unit;
  }
  return {unit, position - std::floor(position + 1e-7)};
}

TEST_P(QsgdLaw, MeanAndVarianceOverManyDraws) {
  constexpr int kDraws = 100000;
  const Qsgd& qsgd = GetParam().qsgd;
  const auto codec = MakeQsgdCodec(qsgd);
  const size_t n = kValues.size(), bucket_size = qsgd.bucket == 0 ? n : qsgd.bucket;
  std::vector<double> sum(n), squares(n);
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> values = DecodeSingleCode(*codec, CodeOf(*codec, kValues, draw), n);
    for (size_t i = 0; i < n; ++i) {
      const double error = double{values[i]} - double{kValues[i]};
      sum[i] += error;
      squares[i] += error * error;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const size_t first = i / bucket_size * bucket_size;
    const auto [unit, p] = UnitAndProbability(
        qsgd, std::span(kValues).subspan(first, std::min(bucket_size, n - first)), kValues[i]);
    const double variance = unit * unit * p * (1 - p);
    const double standard_error = std::sqrt(variance / kDraws);
    EXPECT_NEAR(sum[i] / kDraws, 0, 4.5 * standard_error + 1e-6 * unit) << i;
    // For error = unit (B - p) with B Bernoulli(p): Var(error^2) = variance unit^2 (1 - 2 p)^2.
    const double deviation_of_square = std::sqrt(variance / kDraws) * unit * std::abs(1 - 2 * p);
    EXPECT_NEAR(squares[i] / kDraws, variance, 4.5 * deviation_of_square + 1e-3 * variance + 1e-9)
        << i;
  }
}

// E |Q(v) - v|^2 <= min(n / (4 s^2), sqrt(n) / s) |v|^2, where Q(v) is the decoded code of the n
// elements v at s levels (PQASGD, section 3.3).
TEST(Qsgd, VarianceIsWithinThePapersBound) {
  const std::vector<float> v = SomeGradient(512, 3);
  double squared_norm = 0;
  for (double x : v) squared_norm += x * x;
  for (const double s : {1.0, 4.0, 11.3, 100.0}) {
    const auto codec = MakeQsgdCodec(WithLevels(Levels::kGiven, 512, Norm::kTwo, s));
    double squared_error = 0;
    for (int draw = 0; draw < 400; ++draw) {
      const std::vector<float> values = DecodeSingleCode(*codec, CodeOf(*codec, v, draw), v.size());
      for (size_t i = 0; i < v.size(); ++i)
        squared_error += std::pow(double{values[i]} - double{v[i]}, 2) / 400;
    }
    const double bound = std::min(512 / (4 * s * s), std::sqrt(512.0) / s) * squared_norm;
    EXPECT_LE(squared_error, bound * 1.01) << s;
    EXPECT_GT(squared_error, 0) << s;
  }
}

// With 2 bits the levels are -1, 0 and 1 times the bucket's largest magnitude, as in ternary codes.
TEST(Qsgd, TwoBitsWithMaxNormEqualUnclippedTernaryBitForBit) {
  Options options;
  options.clip = Clip::kNone;
  options.scaler_per_worker = true;
  const auto ternary = std::move(*MakeCodec("ternary", options));
  for (const size_t bucket : {1, 7, 64, 1000}) {
    const auto qsgd = MakeQsgdCodec(WithBits(2, bucket));
    const std::vector<float> g = SomeGradient(1000, bucket);
    std::vector<uint8_t> code;
    qsgd->Encode(g.data(), {3, 10 * bucket, g.size()}, {}, NoiseOfRound(5), &code);
    const std::vector<float> values = DecodeSingleCode(*qsgd, code, g.size());
    for (size_t first = 0; first < g.size(); first += bucket) {
      const auto piece = std::span(g).subspan(first, std::min(bucket, g.size() - first));
      const Segment segment{3, 10 * bucket + first, piece.size()};
      std::vector<uint8_t> ternary_code;
      ternary->Encode(
          piece.data(), segment,
          ternary->Prepare(kernels::ComputeStats(piece.data(), piece.size()), piece, {}),
          NoiseOfRound(5), &ternary_code);
      std::vector<float> expected(piece.size());
      ASSERT_TRUE(ternary->DecodeSingleCode(ternary_code, segment, expected.data()).ok());
      for (size_t i = 0; i < piece.size(); ++i) ASSERT_EQ(values[first + i], expected[i]);
    }
  }
}

// An element is rounded up exactly if its 32-bit random number is below floor(probability 2^32).
TEST(Qsgd, TheDrawDecidesToItsLastBits) {
  const auto codec = MakeQsgdCodec(WithBits(2, 0));
  for (const bool rounds_up : {false, true}) {
    std::vector<float> g(4000, 1.0f);  // the first element stays 1, which is the norm
    for (size_t i = 1; i < g.size(); ++i) {
      const double draw = kernels::Draw32(NoiseOfRound(0), i);
      g[i] = static_cast<float>((draw + 1) * 0x1p-32);
      if (double{g[i]} * 0x1p32 < draw + 1) g[i] = std::nextafter(g[i], 1.0f);
      if (!rounds_up) g[i] = std::nextafter(g[i], 0.0f);
    }
    const std::vector<float> values = DecodeSingleCode(*codec, CodeOf(*codec, g), g.size());
    for (size_t i = 1; i < g.size(); ++i) ASSERT_EQ(values[i], rounds_up || g[i] == 1 ? 1 : 0) << i;
  }
}

TEST(Qsgd, ManyLevelsBoundTheErrorByNormOverS) {
  const std::vector<float> g = SomeGradient(5000, 8);
  double largest = 0;
  for (float v : g) largest = std::max(largest, std::abs(double{v}));
  for (const double s : {32767.0, 100000.0, 8388607.0}) {
    const auto codec = MakeQsgdCodec(WithLevels(Levels::kGiven, 0, Norm::kMax, s));
    const std::vector<float> values = DecodeSingleCode(*codec, CodeOf(*codec, g), g.size());
    for (size_t i = 0; i < g.size(); ++i)
      ASSERT_LE(std::abs(double{values[i]} - double{g[i]}), largest / s + largest * 0x1p-23) << s;
  }
}

// The width of a code is ceil(log2(2 ceil(L) + 1)) bits, where L = s * max|v| / norm is the
// bucket's highest level before rounding. The text of the PQASGD paper counts one level less.
TEST(Qsgd, WidthsFitTheLevelsThatABucketReaches) {
  const auto width_for = [](double highest_level) {
    return static_cast<int>(std::ceil(std::log2(2 * std::ceil(highest_level) + 1)));
  };
  const std::vector<float> equal_values(16, -3.0f);      // The norm is 12, so L = s / 4.
  const std::vector<float> single_value = {0, 0, 2, 0};  // The norm is the largest value, so L = s.
  for (const double s : {1.0, 2.0, 4.0, 4.5, 8.0, 12.0, 12.5, 16.0, 28.0, 29.0, 8388607.0}) {
    const QsgdLevels levels(WithLevels(Levels::kGiven, 16, Norm::kTwo, s));
    EXPECT_EQ(levels.Measure(equal_values).width, width_for(s / 4)) << s;
    EXPECT_EQ(levels.Measure(single_value).width, width_for(s)) << s;
    EXPECT_EQ(levels.Measure(single_value).width, levels.MaxWidth(4)) << s;
    EXPECT_EQ(levels.Measure(std::vector<float>(16)).width, 0);
  }
  // TernGrad is the case L = 1, that is, s = |v|_2 / |v|_inf.
  EXPECT_EQ(QsgdLevels(WithLevels(Levels::kGiven, 16, Norm::kTwo, 4)).Measure(equal_values).width,
            2);
}

TEST(Qsgd, LevelCountsOfThePapers) {
  Qsgd qsgd = WithLevels(Levels::kSqrtN, 512);
  qsgd.samples = 32;
  qsgd.local_steps = 8;
  EXPECT_EQ(QsgdLevels(qsgd).LevelCount(400), 10);
  qsgd.levels = Levels::kSqrtMN;
  EXPECT_EQ(QsgdLevels(qsgd).LevelCount(200), 40);
  qsgd.levels = Levels::kSqrtMPN;
  EXPECT_EQ(QsgdLevels(qsgd).LevelCount(100), 80);
  // So many samples would give more levels than the largest allowed number, 8388607.
  qsgd.samples = uint64_t{1} << 62;
  EXPECT_EQ(QsgdLevels(qsgd).LevelCount(100), 8388607);
  EXPECT_EQ(QsgdLevels(qsgd).MaxWidth(100), 24);
  EXPECT_EQ(QsgdLevels(WithBits(2, 1)).LevelCount(9), 1);
  EXPECT_EQ(QsgdLevels(WithBits(16, 1)).LevelCount(9), 32767);
  EXPECT_EQ(QsgdLevels(WithBits(8, 1, Norm::kMax, Layout::kIntervals)).LevelCount(9), 255);
}

// Each element takes `bits` bits, and each bucket has one float, its norm.
TEST(Qsgd, SizePerElementMatchesTheStudy) {
  const auto bits_per_element = [](int bits, uint64_t bucket) {
    const auto codec = MakeQsgdCodec(WithBits(bits, bucket));
    return 8 * static_cast<double>(codec->MaxEncodedSize({0, 0, 1 << 20})) / (1 << 20);
  };
  EXPECT_EQ(bits_per_element(2, 128), 2.25);
  EXPECT_EQ(bits_per_element(4, 512), 4.0625);
  EXPECT_EQ(bits_per_element(8, 512), 8.0625);
  EXPECT_EQ(bits_per_element(16, 8192), 16.00390625);
}

TEST(Qsgd, ResultsDoNotDependOnChunking) {
  const std::vector<float> g = SomeGradient(2000, 4);
  for (const Qsgd& qsgd : {WithBits(4, 13), WithLevels(Levels::kSqrtN, 13)}) {
    const auto codec = MakeQsgdCodec(qsgd);
    ASSERT_EQ(codec->Granularity(5), 13u);
    const std::vector<float> all_values = DecodeSingleCode(*codec, CodeOf(*codec, g), g.size());
    for (size_t first = 0; first < g.size(); first += 7 * 13) {
      const auto piece = std::span(g).subspan(first, std::min<size_t>(7 * 13, g.size() - first));
      const std::vector<float> values =
          DecodeSingleCode(*codec, CodeOf(*codec, piece, 0, first), piece.size());
      for (size_t i = 0; i < piece.size(); ++i) ASSERT_EQ(values[i], all_values[first + i]);
    }
  }
  EXPECT_GT(MakeQsgdCodec(WithBits(4, 0))->Granularity(5), uint64_t{1} << 40);
}

// If the bucket size is 0, the tensor has one norm, however long it is.
TEST(Qsgd, BucketSizeZeroMeansTheWholeTensor) {
  const std::vector<float> g = SomeGradient(100000, 4);
  EXPECT_EQ(CodeOf(*MakeQsgdCodec(WithBits(4, 0)), g).size(), 4u + 50000);
  EXPECT_EQ(CodeOf(*MakeQsgdCodec(WithBits(4, 0)), g),
            CodeOf(*MakeQsgdCodec(WithBits(4, 1 << 30)), g));
}

TEST(Qsgd, NoiseDependsOnTensorRoundAndRank) {
  const auto codec = MakeQsgdCodec(WithBits(3, 64));
  const std::vector<float> g = SomeGradient(256, 9);
  const auto encode = [&](uint32_t tensor, uint64_t round, uint16_t rank) {
    kernels::NoiseKey noise = NoiseOfRound(round);
    noise.rank = rank;
    noise.tensor = 99;  // The codec ignores this, and uses the segment's tensor.
    std::vector<uint8_t> code;
    codec->Encode(g.data(), {tensor, 0, g.size()}, {}, noise, &code);
    return code;
  };
  EXPECT_EQ(encode(1, 1, 1), encode(1, 1, 1));
  EXPECT_NE(encode(1, 1, 1), encode(2, 1, 1));
  EXPECT_NE(encode(1, 1, 1), encode(1, 2, 1));
  EXPECT_NE(encode(1, 1, 1), encode(1, 1, 2));
}

TEST(Qsgd, HugeAndTinyGradientsStayFinite) {
  for (const Qsgd& qsgd :
       {WithBits(4, 8), WithBits(4, 8, Norm::kTwo), WithBits(2, 8, Norm::kTwo, Layout::kIntervals),
        WithLevels(Levels::kSqrtN, 7), WithLevels(Levels::kGiven, 3, Norm::kTwo, 1.5)}) {
    const auto codec = MakeQsgdCodec(qsgd);
    for (const float x : {kLargestFloat, std::numeric_limits<float>::denorm_min()}) {
      const std::vector<float> g = {x, -x, x, 0, -x, x, x, x, -x};
      const Round round = MakeRound(*codec, {g, g, g});
      for (float v : Mean(*codec, round)) EXPECT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Qsgd, InvalidCodesAreRefused) {
  const auto codec = MakeQsgdCodec(WithBits(3, 4));
  const std::vector<uint8_t> valid_code = CodeOf(*codec, std::vector<float>{1, -1, 0, 0.5, 2, 0});
  ASSERT_EQ(valid_code.size(), 2u * 4 + 3);
  EXPECT_EQ(StatusOfAdding(*codec, valid_code, 6), Code::kOk);
  for (const float norm : {kInfinity, -kInfinity, std::nanf(""), -1.0f, -0.0f, 0.0f}) {
    std::vector<uint8_t> bad_code = valid_code;  // The norm of the second bucket is replaced.
    std::memcpy(bad_code.data() + 4, &norm, sizeof norm);
    EXPECT_EQ(StatusOfAdding(*codec, bad_code, 6), Code::kMismatch) << norm;
    std::vector<float> values(6);
    EXPECT_EQ(codec->Decode(bad_code, {0, 0, 6}, 1, 0, 4, 2, &values[0]).code(), Code::kMismatch);
    EXPECT_TRUE(codec->Decode(bad_code, {0, 0, 6}, 1, 0, 0, 4, values.data()).ok());
  }
  std::vector<uint8_t> code_with_negative_zero = valid_code;
  code_with_negative_zero[9] |= 1;  // the sign bit of element 2, which is 0
  EXPECT_EQ(StatusOfAdding(*codec, code_with_negative_zero, 6), Code::kMismatch);
}

// With s = 4 a code has a sign bit and 3 bits of level, which could hold levels up to 7.
TEST(Qsgd, LevelsBeyondTheLastAreRefused) {
  const auto codec = MakeQsgdCodec(WithLevels(Levels::kGiven, 2, Norm::kMax, 4));
  const std::vector<uint8_t> valid_code = CodeOf(*codec, std::vector<float>{1, -1});
  // The norm 1.0, the width 4, the bit at which the bucket's codes end (8), and the two codes.
  ASSERT_EQ(ToHex(valid_code), "0000803f040800000000000000c4");
  for (unsigned code = 0; code < 16; ++code) {
    std::vector<uint8_t> changed_code = valid_code;
    changed_code.back() = static_cast<uint8_t>(0xc0 | code);
    const bool is_valid = (code & 7) <= 4 && code != 8;
    EXPECT_EQ(StatusOfAdding(*codec, changed_code, 2), is_valid ? Code::kOk : Code::kMismatch)
        << code;
  }
}

// A bucket's codes have at least two bits per element if the norm is not zero, and otherwise none.
TEST(Qsgd, WidthsThatContradictTheNormAreRefused) {
  const auto codec = MakeQsgdCodec(WithLevels(Levels::kGiven, 2, Norm::kMax, 4));
  for (const float norm : {0.0f, 1.0f}) {
    for (uint8_t width = 0; width <= 6; ++width) {
      std::vector<uint8_t> code(13 + (2 * width + 7) / 8);
      std::memcpy(code.data(), &norm, sizeof norm);
      code[4] = width;
      code[5] = static_cast<uint8_t>(2 * width);
      const bool is_valid = norm > 0 ? width >= 2 && width <= 4 : width == 0;
      EXPECT_EQ(StatusOfAdding(*codec, code, 2), is_valid ? Code::kOk : Code::kMismatch)
          << norm << ' ' << int{width};
    }
  }
}

TEST(Qsgd, AnyRangeOfManyBucketsDecodesAsPartOfTheWhole) {
  const auto codec = MakeQsgdCodec(WithLevels(Levels::kSqrtN, 3));
  const std::vector<float> g = SomeGradient(1000, 2);
  const std::vector<uint8_t> code = CodeOf(*codec, g);
  const std::vector<float> all_values = DecodeSingleCode(*codec, code, g.size());
  for (size_t first = 0; first < g.size(); ++first) {
    std::vector<float> piece(std::min<size_t>(40, g.size() - first));
    ASSERT_TRUE(
        codec->Decode(code, {0, 0, g.size()}, 1, 0, first, piece.size(), piece.data()).ok());
    ASSERT_TRUE(std::equal(piece.begin(), piece.end(), all_values.begin() + first)) << first;
  }
}

TEST(Qsgd, InconsistentHeadersAreRefused) {
  const auto codec = MakeQsgdCodec(WithLevels(Levels::kGiven, 2, Norm::kTwo, 9));
  // 200 buckets of two elements. The header has the end of the codes of each group of 64 buckets.
  std::vector<float> g = SomeGradient(400, 6);
  g[0] = 1;
  const std::vector<uint8_t> valid_code = CodeOf(*codec, g);
  ASSERT_EQ(StatusOfAdding(*codec, valid_code, g.size()), Code::kOk);
  const auto is_refused = [&](size_t at, uint8_t new_byte) {
    std::vector<uint8_t> bad_code = valid_code;
    bad_code[at] = new_byte;
    bad_code.resize(2000);  // long enough for somewhat larger sizes in the header
    return StatusOfAdding(*codec, bad_code, g.size()) == Code::kMismatch;
  };
  for (const uint8_t width : {0, 1, 6, 24, 25, 255}) EXPECT_TRUE(is_refused(800, width)) << width;
  for (size_t end = 0; end < 4; ++end) {
    for (size_t byte = 0; byte < 8; ++byte) {
      const size_t at = 1000 + 8 * end + byte;
      EXPECT_TRUE(is_refused(at, valid_code[at] + 1)) << end << ' ' << byte;
      EXPECT_TRUE(is_refused(at, valid_code[at] - 1)) << end << ' ' << byte;
    }
  }
  // The first group's end is wrong. A range that begins in the first two groups (256 elements) must
  // be refused; other ranges may decode.
  std::vector<uint8_t> bad_code = valid_code;
  bad_code[1000 + 5] = 0xFF;
  std::vector<float> values(g.size());
  for (size_t first = 0; first + 10 <= g.size(); first += 10) {
    const Code code = codec->Decode(bad_code, {0, 0, g.size()}, 1, 0, first, 10, &values[0]).code();
    EXPECT_TRUE(code == Code::kOk || code == Code::kMismatch);
    EXPECT_TRUE(code == Code::kMismatch || first >= 256) << first;
  }
}

TEST(Qsgd, OptionsOutsideTheirRangesAreRefused) {
  const auto is_refused = [](const Qsgd& qsgd, const char* key) {
    Options options;
    options.qsgd = qsgd;
    const auto codec = MakeCodec("qsgd", options);
    return !codec.ok() && codec.status().code() == Code::kBadJob &&
           codec.status().message().find(key) != std::string::npos;
  };
  EXPECT_TRUE(is_refused(WithBits(1, 8), "exchange.qsgd.bits"));
  EXPECT_TRUE(is_refused(WithBits(17, 8), "exchange.qsgd.bits"));
  EXPECT_TRUE(is_refused(WithBits(4, ~uint64_t{0}), "exchange.qsgd.bucket_elements"));
  for (const double s : {0.0, 0.5, -1.0, 8388608.0, HUGE_VAL, std::nan("")})
    EXPECT_TRUE(is_refused(WithLevels(Levels::kGiven, 8, Norm::kTwo, s), "exchange.qsgd.s")) << s;
  Qsgd intervals_of_sqrt_n = WithLevels(Levels::kSqrtN, 8);
  intervals_of_sqrt_n.layout = Layout::kIntervals;
  EXPECT_TRUE(is_refused(intervals_of_sqrt_n, "exchange.qsgd.layout"));
  Options feedback_options;
  feedback_options.error_feedback = true;
  EXPECT_EQ(MakeCodec("qsgd", feedback_options).status().code(), Code::kBadJob);
}

}  // namespace
}  // namespace tern::codec

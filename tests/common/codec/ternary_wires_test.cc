// Tests of the byte formats (wires) of ternary codes other than that of the codec `ternary`: the
// conformance suite, the same means as with `ternary` bit for bit, the documented bytes, their
// sizes, and refused inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "common/codec/ans_row.h"
#include "common/codec/codecs.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using Bytes = std::vector<uint8_t>;

std::unique_ptr<Codec> MakeCodecByName(const std::string& name, bool per_worker = false,
                                       Clip clip = Clip::kPaper) {
  Options options;
  options.clip = clip;
  options.scaler_per_worker = per_worker;
  return std::move(*MakeCodec(name, options));
}

// Whether `mean` is -1, 0 or 1 times the scaler, with the sign of the gradient g.
bool IsTernary(float g, float scaler, float mean) {
  return mean == 0 || (std::abs(mean) == scaler && std::signbit(mean) == std::signbit(g) && g != 0);
}

// The unused bits of the two planes (one bit per element each) that begin at byte `offset`.
std::vector<size_t> UnusedBitsOfPlanes(std::span<const uint8_t>, uint64_t count, size_t offset) {
  std::vector<size_t> bits;
  const size_t plane_bytes = kernels::PlaneBytes(count);
  for (size_t i = count; i < 8 * plane_bytes; ++i) {
    bits.push_back(8 * offset + i);
    bits.push_back(8 * (offset + plane_bytes) + i);
  }
  return bits;
}

// The unused bits of a short ternary_ans code, which is not entropy-coded. Its first byte is 0
// (bits 1 to 7 are unused). Then follow a mask (one bit per element: whether the code is not 0) and
// one sign bit per code that is not 0.
std::vector<size_t> UnusedBitsOfAns(std::span<const uint8_t> payload, uint64_t count,
                                    size_t offset) {
  EXPECT_EQ(payload[offset], 0);
  std::vector<size_t> bits = UnusedBitsOfMaskAndSigns(payload, count, offset + 1);
  for (size_t i = 1; i < 8; ++i) bits.push_back(8 * offset + i);
  return bits;
}

using UnusedBitsFunction = std::vector<size_t> (*)(std::span<const uint8_t>, uint64_t, size_t);

CodecCase MakeCase(const std::string& name, bool per_worker, UnusedBitsFunction unused_bits_of,
                   const std::string& payload0, const std::string& payload1,
                   const std::string& sum) {
  CodecCase c;
  for (const char letter : name) {
    if (letter != '_') c.name += letter;
  }
  if (per_worker) c.name += "PerWorker";
  c.make = [=] { return MakeCodecByName(name, per_worker); };
  c.is_plausible = IsTernary;
  const size_t offset = per_worker ? sizeof(float) : 0;
  c.unused_bits = [=](std::span<const uint8_t> payload, uint64_t count) {
    return unused_bits_of(payload, count, offset);
  };
  c.golden_payloads[0] = payload0;
  c.golden_payloads[1] = payload1;
  c.golden_sum = sum;
  c.sizes_vary = name == "ternary_ans";
  return c;
}

// For formats that use every bit.
std::vector<size_t> NoUnusedBitsFrom(std::span<const uint8_t>, uint64_t, size_t) { return {}; }

// The mean of the two payloads in the cases with per-worker scalers, as floats in hexadecimal.
const char kMeanOfTwo[] =
    "00000000000000bf000000000000003fa52d3d3f0000003fa52d3dbf94b6743e0000000000000000"
    "00000000";

INSTANTIATE_TEST_SUITE_P(
    TernaryWires, CodecConformance,
    testing::Values(
        MakeCase("ternary_2bit", false, UnusedBitsOfPlanes, "8a008200", "d0004000", "5a0042004200"),
        MakeCase("ternary_2bit", true, UnusedBitsOfPlanes, "0000803faa008200", "a52dbd3fd0004000",
                 kMeanOfTwo),
        MakeCase("ternary_trit5", false, NoUnusedBitsFrom, "211200", "510f00", "5a0042004200"),
        MakeCase("ternary_trit5", true, NoUnusedBitsFrom, "0000803f211300", "a52dbd3f510f00",
                 kMeanOfTwo),
        MakeCase("ternary_ans", false, UnusedBitsOfAns, "008a0005", "00d00002", "005a0042004200"),
        MakeCase("ternary_ans", true, UnusedBitsOfAns, "0000803f00aa0009", "a52dbd3f00d00002",
                 kMeanOfTwo)),
    CaseName);

const char* const kWireNames[] = {"ternary_2bit", "ternary_trit5", "ternary_ans"};

std::vector<std::vector<float>> MakeGradients(size_t n, int workers) {
  std::vector<std::vector<float>> gradients;
  for (int rank = 0; rank < workers; ++rank) {
    gradients.push_back(SomeGradient(n, static_cast<uint64_t>(rank) + 1));
  }
  return gradients;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST(TernaryWires, MeansEqualTernaryBitForBit) {
  for (const bool per_worker : {false, true}) {
    for (const Clip clip : {Clip::kPaper, Clip::kOfficial, Clip::kNone, Clip::kGrace}) {
      if (clip == Clip::kGrace && !per_worker) continue;
      const auto reference = MakeCodecByName("ternary", per_worker, clip);
      for (const size_t n : {1, 13, 70, 4095, 4096, 4097, 16385, 40000}) {
        for (const int workers : {1, 2, 5, 8}) {
          const Round expected = MakeRound(*reference, MakeGradients(n, workers), n % 7);
          for (const char* name : kWireNames) {
            const auto codec = MakeCodecByName(name, per_worker, clip);
            SCOPED_TRACE(testing::Message() << codec->name() << " " << n << " " << workers);
            const Round round = MakeRound(*codec, expected.gradients, n % 7);
            EXPECT_EQ(round.scaler, expected.scaler);
            ExpectSameBits(Mean(*codec, round), Mean(*reference, expected));
          }
        }
      }
    }
  }
}

TEST(TernaryWires, SumsOfManyWorkersEqualTernaryBitForBit) {
  const auto reference = MakeCodecByName("ternary");
  for (const int workers : {63, 64, 127, 128, 200, 1024}) {
    const Round expected = MakeRound(*reference, MakeGradients(5000, workers));
    for (const char* name : kWireNames) {
      SCOPED_TRACE(testing::Message() << name << " " << workers);
      const auto codec = MakeCodecByName(name);
      ExpectSameBits(Mean(*codec, MakeRound(*codec, expected.gradients)),
                     Mean(*reference, expected));
    }
  }
}

TEST(TernaryWires, HaveNamesOfTheirOwnAndTheOptionsOfTernary) {
  for (const std::string name : kWireNames) {
    EXPECT_EQ(MakeCodecByName(name)->name(), name);
    EXPECT_TRUE(MakeCodecByName(name)->shares_scaler());
    EXPECT_EQ(MakeCodecByName(name, true)->name(), name + "_per_worker");
    EXPECT_FALSE(MakeCodecByName(name, true)->shares_scaler());
    Options grace_options;
    grace_options.clip = Clip::kGrace;
    EXPECT_EQ(MakeCodec(name, grace_options).status().code(), Code::kBadJob);
  }
}

// One worker's code of n elements, as bytes and as numbers -1, 0 and 1.
struct EncodedGradient {
  Bytes bytes;
  std::vector<int> codes;
};
EncodedGradient EncodeWith(const std::string& name, size_t n) {
  const auto codec = MakeCodecByName(name);
  const Round round = MakeRound(*codec, MakeGradients(n, 1));
  EncodedGradient encoded{round.payloads[0], {}};
  for (const float v : Mean(*codec, round)) encoded.codes.push_back((v > 0) - (v < 0));
  return encoded;
}

// The status of adding `bytes`, one worker's code of n elements, to a sum.
Status StatusOfAdding(const std::string& name, size_t n, std::span<const uint8_t> bytes) {
  const auto codec = MakeCodecByName(name);
  const auto sum = codec->NewAccumulator({0, 0, n}, 1);
  return sum->Add(0, bytes).status();
}

TEST(Ternary2Bit, IsAMaskPlaneAndASignPlane) {
  for (const size_t n : {1, 8, 9, 70, 1000}) {
    const EncodedGradient encoded = EncodeWith("ternary_2bit", n);
    Bytes expected(2 * kernels::PlaneBytes(n));
    for (size_t i = 0; i < n; ++i) {
      const auto bit = static_cast<uint8_t>(1 << (i % 8));
      if (encoded.codes[i] != 0) expected[i / 8] |= bit;
      if (encoded.codes[i] < 0) expected[kernels::PlaneBytes(n) + i / 8] |= bit;
    }
    EXPECT_EQ(encoded.bytes, expected);
  }
}

TEST(Ternary2Bit, SignsOfZerosAreIgnored) {
  for (const size_t n : {8, 72, 1000, 4096}) {
    const auto codec = MakeCodecByName("ternary_2bit", false);
    const Round round = MakeRound(*codec, MakeGradients(n, 3));
    const auto sum = codec->NewAccumulator({0, 0, n}, 3);
    for (int rank = 0; rank < 3; ++rank) {
      Bytes code = round.payloads[static_cast<size_t>(rank)];
      const size_t plane_bytes = kernels::PlaneBytes(n);
      for (size_t i = 0; i < plane_bytes; ++i)
        code[plane_bytes + i] |= static_cast<uint8_t>(~code[i]);
      ASSERT_TRUE(sum->Add(rank, code).ok());
    }
    Bytes bytes;
    sum->EncodeSum(&bytes);
    EXPECT_EQ(bytes, Sum(*codec, round));
  }
}

TEST(TernaryTrit5, IsFiveCodesAByteInBase3) {
  for (const size_t n : {1, 4, 5, 6, 39, 40, 41, 70, 1000}) {
    const EncodedGradient encoded = EncodeWith("ternary_trit5", n);
    Bytes expected((n + 4) / 5);
    unsigned power = 1;
    for (size_t i = 0; i < n; ++i) {
      if (i % 5 == 0) power = 1;
      const unsigned trit = encoded.codes[i] < 0 ? 2 : encoded.codes[i];
      expected[i / 5] = static_cast<uint8_t>(expected[i / 5] + trit * power);
      power *= 3;
    }
    EXPECT_EQ(encoded.bytes, expected);
  }
}

TEST(TernaryTrit5, AcceptsOnlyValidBytes) {
  // How many values of the last byte are valid if n % 5 is 0 to 4: it holds 5, 1, 2, 3 or 4 codes.
  const unsigned num_valid_bytes[] = {243, 3, 9, 27, 81};
  for (size_t n = 6; n <= 15; ++n) {
    for (const bool is_last_byte : {false, true}) {
      const unsigned num_valid = is_last_byte ? num_valid_bytes[n % 5] : 243;
      for (unsigned byte = 0; byte < 256; ++byte) {
        Bytes bytes((n + 4) / 5);
        (is_last_byte ? bytes.back() : bytes.front()) = static_cast<uint8_t>(byte);
        EXPECT_EQ(StatusOfAdding("ternary_trit5", n, bytes).code(),
                  byte < num_valid ? Code::kOk : Code::kMismatch)
            << byte << " of " << n;
      }
    }
  }
}

std::vector<std::vector<float>> NormalGradients(size_t n, int workers) {
  std::vector<std::vector<float>> gradients(workers, std::vector<float>(n));
  for (int rank = 0; rank < workers; ++rank) {
    std::mt19937_64 random(static_cast<uint64_t>(rank) + 77);
    std::normal_distribution<float> normal;
    for (float& v : gradients[rank]) v = normal(random);
  }
  return gradients;
}

// The size of fp32 divided by the size of the code. For independent Gaussian gradients clipped at
// 2.5 sigma, the entropy limits the ratio to 26.3 for a push and, for 2, 4 and 8 workers, to 18.6,
// 14.4 and 11.8 for the sum.
TEST(TernaryAns, SizesAreNearTheEntropy) {
  constexpr size_t kN = 1 << 18;
  const struct {
    int workers;
    double min_sum_ratio;
  } cases[] = {{2, 17.8}, {4, 13.9}, {8, 11.4}};
  const auto codec = MakeCodecByName("ternary_ans");
  for (const auto& c : cases) {
    const Round round = MakeRound(*codec, NormalGradients(kN, c.workers));
    for (const Bytes& payload : round.payloads) EXPECT_GT(4.0 * kN / payload.size(), 25.7);
    EXPECT_GT(4.0 * kN / Sum(*codec, round).size(), c.min_sum_ratio) << c.workers;
  }
}

TEST(TernaryAns, StoresPlanesUnlessCodingIsSmaller) {
  const auto codec = MakeCodecByName("ternary_ans");
  const auto mask_signs_codec = MakeCodecByName("ternary");
  for (const size_t n : {1, 40, 100}) {
    const Round round = MakeRound(*codec, MakeGradients(n, 3));
    const Round mask_signs_round = MakeRound(*mask_signs_codec, MakeGradients(n, 3));
    Bytes expected = {0};
    expected.insert(expected.end(), mask_signs_round.payloads[0].begin(),
                    mask_signs_round.payloads[0].end());
    EXPECT_EQ(round.payloads[0], expected);
    expected = {0};
    const Bytes planes = Sum(*mask_signs_codec, mask_signs_round);
    expected.insert(expected.end(), planes.begin(), planes.end());
    EXPECT_EQ(Sum(*codec, round), expected);
  }
  const Round large_round = MakeRound(*codec, MakeGradients(10000, 1));
  EXPECT_EQ(large_round.payloads[0][0], 1);
  EXPECT_EQ(Sum(*codec, large_round)[0], 1);
}

TEST(TernaryAns, SplitsSumsWithTooManySymbols) {
  const auto codec = MakeCodecByName("ternary_ans");
  size_t size_of_127 = 0;
  for (const int workers : {127, 128}) {
    const Bytes sum = Sum(*codec, MakeRound(*codec, MakeGradients(5000, workers)));
    EXPECT_EQ(sum[0], workers == 127 ? 1 : 2);
    if (workers == 127) size_of_127 = sum.size();
    EXPECT_LE(sum.size(), size_of_127 + 50);
  }
}

TEST(TernaryAns, AnyRangeOfACodedSumDecodesAsPartOfTheWhole) {
  constexpr size_t kN = 13000;
  const auto codec = MakeCodecByName("ternary_ans");
  const Round round = MakeRound(*codec, MakeGradients(kN, 3));
  const Bytes sum = Sum(*codec, round);
  ASSERT_EQ(sum[0], 1);
  const std::vector<float> all_means = Mean(*codec, round);
  for (const size_t first : {0, 1, 4095, 4096, 5000, 8192, 12288, 12999, 13000}) {
    for (const size_t n : {0, 1, 100, 4096, 4097, 9000}) {
      if (n > kN - first) continue;
      std::vector<float> decoded(n + 1, 77);
      ASSERT_TRUE(codec->Decode(sum, {0, 0, kN}, 3, round.scaler, first, n, decoded.data()).ok());
      EXPECT_EQ(decoded.back(), 77);
      decoded.pop_back();
      EXPECT_EQ(decoded,
                std::vector<float>(all_means.begin() + first, all_means.begin() + first + n));
    }
  }
}

// A damaged code or sum must be refused or decode to another sum. All of its elements are decoded,
// so no damaged part stays unread.
TEST(TernaryAns, ADamagedBitIsRefusedOrChangesTheSum) {
  constexpr size_t kN = 5000;
  const auto codec = MakeCodecByName("ternary_ans");
  const Round round = MakeRound(*codec, MakeGradients(kN, 2));
  const Bytes sum = Sum(*codec, round);
  const std::vector<float> all_means = Mean(*codec, round);
  Round single_round = round;
  single_round.gradients.resize(1), single_round.payloads.resize(1);
  const Bytes single_sum = Sum(*codec, single_round);
  ASSERT_EQ(single_round.payloads[0][0], 1);
  ASSERT_EQ(sum[0], 1);
  size_t num_accepted = 0;
  for (size_t bit = 8; bit < 8 * sum.size(); ++bit) {
    Bytes damaged = sum;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    std::vector<float> mean(kN);
    const Status decode_status =
        codec->Decode(damaged, {0, 0, kN}, 2, round.scaler, 0, kN, mean.data());
    ASSERT_TRUE(decode_status.ok() ? mean != all_means : decode_status.code() == Code::kMismatch)
        << bit;
    num_accepted += decode_status.ok();
  }
  for (size_t bit = 8; bit < 8 * single_round.payloads[0].size(); ++bit) {
    Bytes damaged = single_round.payloads[0];
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    const auto accumulator = codec->NewAccumulator({0, 0, kN}, 1);
    const Result<size_t> consumed_bytes = accumulator->Add(0, damaged);
    if (!consumed_bytes.ok()) {
      ASSERT_EQ(consumed_bytes.status().code(), Code::kMismatch) << bit;
      continue;
    }
    ++num_accepted;
    Bytes damaged_sum;
    accumulator->EncodeSum(&damaged_sum);
    ASSERT_NE(damaged_sum, single_sum) << bit;
  }
  EXPECT_LT(num_accepted, 100u);
}

TEST(TernaryAns, TruncatedRowsAreRefused) {
  constexpr size_t kN = 20000;
  const auto codec = MakeCodecByName("ternary_ans");
  const Round round = MakeRound(*codec, MakeGradients(kN, 2));
  const Bytes sum = Sum(*codec, round);
  const Segment segment{0, 0, kN};
  std::vector<float> mean(kN);
  for (size_t size = 0; size < sum.size(); ++size) {
    const auto truncated = std::span(sum).first(size);
    ASSERT_EQ(codec->SumSize(truncated, segment, 2).status().code(), Code::kMismatch);
    ASSERT_EQ(codec->Decode(truncated, segment, 2, 1, 0, 1, mean.data()).code(), Code::kMismatch);
  }
  Bytes longer_sum = sum;
  longer_sum.push_back(0);
  EXPECT_EQ(*codec->SumSize(longer_sum, segment, 2), sum.size());
  EXPECT_EQ(codec->Decode(longer_sum, segment, 2, 1, 0, 1, mean.data()).code(), Code::kMismatch);
  for (size_t size = 0; size < round.payloads[0].size(); ++size) {
    const auto truncated = std::span(round.payloads[0]).first(size);
    ASSERT_EQ(StatusOfAdding("ternary_ans", kN, truncated).code(), Code::kMismatch) << size;
  }
}

// An entropy-coded ternary_ans code: the byte 1, then a row with these symbols.
Bytes RowOf(const Bytes& symbols, size_t block_symbols) {
  Bytes bytes = {1};
  const auto copy_symbols = [&](uint64_t first, size_t n, uint8_t* to) {
    std::copy_n(symbols.begin() + static_cast<ptrdiff_t>(first), n, to);
  };
  AppendAnsRow(symbols.size(), block_symbols, kernels::CountSymbols(symbols.data(), symbols.size()),
               copy_symbols, &bytes);
  return bytes;
}

TEST(TernaryAns, InvalidRowsAreRefused) {
  Bytes code_symbols(4000, 1), sum_symbols(4000, 4);
  for (size_t i = 0; i < code_symbols.size(); i += 10) code_symbols[i] = 2;
  EXPECT_TRUE(StatusOfAdding("ternary_ans", 4000, RowOf(code_symbols, 16384)).ok());
  code_symbols[7] = 3;  // only symbols 0 to 2 are valid
  EXPECT_EQ(StatusOfAdding("ternary_ans", 4000, RowOf(code_symbols, 16384)).code(),
            Code::kMismatch);
  // A row that would be smaller without entropy coding must be refused.
  const Status status_of_larger_row = StatusOfAdding("ternary_ans", 40, RowOf(Bytes(40, 1), 16384));
  EXPECT_NE(status_of_larger_row.message().find("stored"), std::string::npos)
      << status_of_larger_row.message();

  const auto codec = MakeCodecByName("ternary_ans");
  const Segment segment{0, 0, 4000};
  const auto decode_with = [&](const Bytes& sum, int contributors) {
    std::vector<float> mean(4000);
    return codec->Decode(sum, segment, contributors, 1, 0, 4000, mean.data());
  };
  for (size_t i = 0; i < sum_symbols.size(); i += 10) sum_symbols[i] = 0;
  EXPECT_TRUE(decode_with(RowOf(sum_symbols, 4096), 2).ok());
  // If only one worker contributed, symbol 4 would mean the sum 3.
  EXPECT_EQ(decode_with(RowOf(sum_symbols, 4096), 1).code(), Code::kMismatch);
  EXPECT_EQ(decode_with(RowOf(sum_symbols, 4096), 128).code(), Code::kMismatch);
  EXPECT_EQ(codec->SumSize(RowOf(sum_symbols, 4096), segment, 1).status().code(), Code::kMismatch);
}

TEST(TernaryAns, CodedRowMatchesGoldenBytes) {
  const auto codec = MakeCodecByName("ternary_ans");
  // The code of a gradient of zeros: the entropy coder's 8 states keep their initial value, and no
  // words follow.
  const Round round_of_zeros = MakeRound(*codec, {std::vector<float>(512)});
  std::string states;
  for (int i = 0; i < 8; ++i) states += "00000100";
  EXPECT_EQ(ToHex(round_of_zeros.payloads[0]),
            "01"
            "0101"
            "20000000" +
                states);
  EXPECT_EQ(ToHex(Sum(*codec, round_of_zeros)),
            "01"
            "0101"
            "20000000" +
                states);
  std::vector<float> few_nonzeros(512);
  for (size_t i = 0; i < few_nonzeros.size(); i += 32) few_nonzeros[i] = i % 64 == 0 ? 1.0f : -1.0f;
  const Round round =
      MakeRound(*MakeCodecByName("ternary_ans", false, Clip::kNone), {few_nonzeros});
  EXPECT_EQ(ToHex(round.payloads[0]),
            "0100024000800f2c000000fbaf040000a8070000a8070000a8070000a8070000a8070000a8070000a80700"
            "508ed46c1056de284ece8000");
}

}  // namespace
}  // namespace tern::codec

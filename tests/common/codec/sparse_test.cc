// Tests of the byte format of sparse codes: the positions of non-zero elements, and their values.
// The values are floats, or a pair: one for all negative elements, one for all positive.
#include "common/codec/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "common/codec/float_sum.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr SparsePair kPair = {-0.5, 2};

// The code of x. It has the positions of the non-zero values. With SparseValues::kFloats it has
// these values, too; with SparseValues::kPair it has `pair` and the signs of these values.
Bytes CodeOf(SparseValues values, const std::vector<float>& x, const SparsePair& pair = kPair) {
  const auto copy_values = [&](uint64_t first, std::span<float> to) {
    std::copy_n(x.data() + first, to.size(), to.data());
  };
  Bytes code;
  if (values == SparseValues::kFloats) {
    AppendSparse(x.size(), copy_values, &code);
  } else {
    AppendSparse(pair, x.size(), copy_values, &code);
  }
  return code;
}

// Decodes `bytes`, the code of x->size() elements, into x.
Status DecodeInto(SparseValues values, std::span<const uint8_t> bytes, std::vector<float>* x) {
  const Result<SparseCode> code = SparseCode::Parse(values, bytes, x->size());
  if (!code.ok()) return code.status();
  EXPECT_LE(code->size(), bytes.size());
  return code->Decode(0, x->size(), x->data());
}

// n elements, of which k at random positions are not zero. Each of these k has one of kPair's
// values.
std::vector<float> RandomSparse(size_t n, size_t k, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> x(n);
  std::fill_n(x.begin(), k, 1.f);
  std::shuffle(x.begin(), x.end(), random);
  for (float& v : x) v *= random() % 2 == 0 ? kPair.low : kPair.high;
  for (float& v : x) v += 0.f;  // Adding 0 turns -0 into +0.
  return x;
}

class SparseWire : public testing::TestWithParam<SparseValues> {};
INSTANTIATE_TEST_SUITE_P(All, SparseWire,
                         testing::Values(SparseValues::kFloats, SparseValues::kPair));

TEST_P(SparseWire, RoundTripsAtEveryLengthAndDensity) {
  std::vector<size_t> lengths(71);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (size_t power = 128; power <= 16384; power *= 2)
    lengths.insert(lengths.end(), {power - 1, power, power + 1});
  for (size_t n : lengths) {
    for (size_t k : {size_t{0}, std::min<size_t>(1, n), n / 1000, n / 100, n / 9, n / 3, n - n / 40,
                     n - n / 200, n}) {
      const std::vector<float> x = RandomSparse(n, k, n + k);
      Bytes bytes = CodeOf(GetParam(), x);
      const size_t code_size = bytes.size();
      ASSERT_LE(code_size, MaxSparseSize(GetParam(), n));
      bytes.insert(bytes.end(), 20, 0xFF);
      const Result<SparseCode> code = SparseCode::Parse(GetParam(), bytes, n);
      ASSERT_TRUE(code.ok()) << code.status().message();
      ASSERT_EQ(code->size(), code_size);
      std::vector<float> decoded(n, 7);
      ASSERT_TRUE(code->Decode(0, n, decoded.data()).ok());
      ASSERT_EQ(decoded, x) << n << " elements, " << k << " non-zeros";
    }
  }
}

TEST_P(SparseWire, AnyRangeDecodesIndependently) {
  std::mt19937_64 random(5);
  const size_t n = 5 * kSparseBlock + 77;
  for (size_t k : {n / 1000, n / 20, n / 2, n}) {
    const std::vector<float> x = RandomSparse(n, k, k);
    const Bytes bytes = CodeOf(GetParam(), x);
    const Result<SparseCode> code = SparseCode::Parse(GetParam(), bytes, n);
    for (int trial = 0; trial < 200; ++trial) {
      const size_t first = random() % (n + 1), length = random() % (n - first + 1);
      std::vector<float> decoded(length + 1, 77);
      ASSERT_TRUE(code->Decode(first, length, decoded.data()).ok());
      ASSERT_EQ(decoded.back(), 77);
      decoded.pop_back();
      ASSERT_EQ(decoded, std::vector<float>(x.begin() + first, x.begin() + first + length));
    }
  }
}

// Bits of entropy of the positions: log2 of the number of ways to choose k of n.
double PositionEntropyBits(size_t n, size_t k) {
  const auto ln_factorial = [](size_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)) / std::log(2.0);
}

TEST_P(SparseWire, PositionsCostLittleMoreThanTheirEntropy) {
  const bool sends_floats = GetParam() == SparseValues::kFloats;
  size_t largest_size = 0;
  for (size_t k = 0; k <= kSparseBlock; ++k) {
    const size_t size =
        CodeOf(GetParam(), RandomSparse(kSparseBlock, k, k)).size() - (sends_floats ? 2 : 10);
    largest_size = std::max(largest_size, size);
    const size_t value_bytes = sends_floats ? 4 * k : (k + 7) / 8;
    if (sends_floats && size == 4 * kSparseBlock) continue;  // all are sent, without positions
    ASSERT_GE(size, value_bytes);
    const double position_bits = 8 * static_cast<double>(size - value_bytes);
    ASSERT_LE(position_bits, kSparseBlock);
    if (k > kSparseBlock / 2) continue;  // more non-zeros than zeros: the positions are a bitmap
    ASSERT_LE(position_bits,
              PositionEntropyBits(kSparseBlock, k) + 0.75 * static_cast<double>(k) + 16)
        << k;
  }
  EXPECT_EQ(largest_size + (sends_floats ? 2 : 10), MaxSparseSize(GetParam(), kSparseBlock));
  EXPECT_EQ(largest_size, sends_floats ? 4 * kSparseBlock : kSparseBlock / 4);
}

TEST_P(SparseWire, MaxSizeIsReachedAtTheWorstDensity) {
  for (size_t n = 0; n <= 300; ++n) {
    size_t largest_size = 0;
    for (size_t k = 0; k <= n; ++k)
      largest_size = std::max(largest_size, CodeOf(GetParam(), RandomSparse(n, k, k)).size());
    ASSERT_EQ(largest_size, MaxSparseSize(GetParam(), n)) << n;
  }
}

// Every accepted code equals the code of its decoded elements: the code of a segment is unique.
TEST_P(SparseWire, AcceptedCodesAreCanonical) {
  std::mt19937_64 random(3);
  int num_accepted = 0, num_refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const size_t n = 1 + random() % 60, k = random() % (n + 1);
    Bytes bytes = CodeOf(GetParam(), RandomSparse(n, k, trial));
    for (uint64_t num_flips = 1 + random() % 3; num_flips > 0; --num_flips)
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1u << (random() % 8));
    bytes.resize(bytes.size() + 300);
    std::vector<float> x(n);
    const Status decode_status = DecodeInto(GetParam(), bytes, &x);
    if (!decode_status.ok()) {
      ASSERT_EQ(decode_status.code(), Code::kMismatch);
      ++num_refused;
      continue;
    }
    ++num_accepted;
    SparsePair pair;
    std::memcpy(&pair, bytes.data(), sizeof pair);
    const Bytes encoded_again = CodeOf(GetParam(), x, pair);
    ASSERT_TRUE(std::equal(encoded_again.begin(), encoded_again.end(), bytes.begin()))
        << ToHex(bytes);
  }
  EXPECT_GT(num_accepted, 1000);
  EXPECT_GT(num_refused, 1000);
}

TEST_P(SparseWire, EveryTruncationIsRefused) {
  for (size_t n : {1, 9, 70, 5000}) {
    for (size_t k : {size_t{0}, n / 50 + 1, n / 2, n}) {
      const Bytes bytes = CodeOf(GetParam(), RandomSparse(n, k, 1));
      for (size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 97) {
        const auto code = SparseCode::Parse(GetParam(), std::span(bytes).first(size), n);
        ASSERT_EQ(code.status().code(), Code::kMismatch) << size << " of " << bytes.size();
      }
    }
  }
}

TEST(Sparse, BytesAreAsDocumented) {
  const auto floats = SparseValues::kFloats;
  // 2 of 64 elements: their positions 15 and 33 are an Elias-Fano code with 5 low bits each, 01111
  // and 00001. Then come 2 + (63 >> 5) bits, of which bits 15 >> 5 and (33 >> 5) + 1 are ones.
  // Written from the lowest bit up: 11110 10000 1 0 1.
  std::vector<float> two_of_64(64);
  two_of_64[15] = 1;
  two_of_64[33] = -2;
  EXPECT_EQ(ToHex(CodeOf(floats, two_of_64)),
            "0200"
            "2f14"
            "0000803f"
            "000000c0");
  // 3 of 11 elements: their positions are a bitmap.
  std::vector<float> three_of_eleven(11);
  three_of_eleven[0] = three_of_eleven[3] = three_of_eleven[10] = 1;
  EXPECT_EQ(ToHex(CodeOf(floats, three_of_eleven)),
            "0300"
            "0904"
            "0000803f"
            "0000803f"
            "0000803f");
  // 2 of 2 elements, and 127 of 128, whose positions would take 16 bytes: all elements are sent,
  // without positions (the dense form).
  EXPECT_EQ(ToHex(CodeOf(floats, {1, -2})),
            "0200"
            "0000803f"
            "000000c0");
  std::vector<float> all_but_one(128, 1);
  all_but_one[5] = -0.f;
  Bytes dense_code = CodeOf(floats, all_but_one);
  EXPECT_EQ(dense_code.size(), 2u + 4 * 128);
  EXPECT_EQ(ToHex(std::span(dense_code).first(2)), "8000");
  EXPECT_EQ(ToHex(std::span(dense_code).subspan(2 + 4 * 5, 4)), "00000000");
  // three_of_eleven with a pair, then a code with a second block.
  EXPECT_EQ(ToHex(CodeOf(SparseValues::kPair, three_of_eleven)),
            "000000bf00000040"
            "0300"
            "0904"
            "07");
  std::vector<float> two_blocks(kSparseBlock + 1);
  two_blocks.back() = -1;
  EXPECT_EQ(ToHex(CodeOf(SparseValues::kPair, two_blocks)),
            "000000bf00000040"
            "00000100"
            "01"
            "00");
  EXPECT_EQ(ToHex(CodeOf(floats, std::vector<float>(3))), "0000");
  EXPECT_EQ(ToHex(CodeOf(floats, {})), "");
}

TEST(Sparse, InvalidValuesAreRefused) {
  std::vector<float> x(64), decoded(64);
  x[15] = x[33] = 1;
  const Bytes valid_code = CodeOf(SparseValues::kFloats, x);
  const std::vector<float> all_ones(64, 1);
  const Bytes dense_code = CodeOf(SparseValues::kFloats, all_ones);
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad_value : {infinity, -infinity, std::nanf(""), 0.f, -0.f}) {
    Bytes bytes = valid_code;
    std::memcpy(&bytes[bytes.size() - 4], &bad_value, 4);
    const Status decode_status = DecodeInto(SparseValues::kFloats, bytes, &decoded);
    EXPECT_EQ(decode_status.code(), Code::kMismatch);
    EXPECT_NE(decode_status.message().find("element 33"), std::string::npos)
        << decode_status.message();
    bytes = dense_code;
    std::memcpy(&bytes[bytes.size() - 4], &bad_value, 4);
    // +0 is valid here: if one of 64 elements is zero, the shortest code sends all elements.
    const bool is_plus_zero = bad_value == 0 && !std::signbit(bad_value);
    EXPECT_EQ(DecodeInto(SparseValues::kFloats, bytes, &decoded).ok(), is_plus_zero) << bad_value;
  }
}

// 32 of 33 elements take 133 bytes with their positions; all 33 without positions take only 132.
TEST(Sparse, PositionsLargerThanDenseFormAreRefused) {
  Bytes bytes = {32, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0};
  AppendFloats(std::vector<float>(32, 1), &bytes);
  std::vector<float> x(33);
  const Status decode_status = DecodeInto(SparseValues::kFloats, bytes, &x);
  EXPECT_EQ(decode_status.code(), Code::kMismatch);
  EXPECT_NE(decode_status.message().find("too many non-zeros"), std::string::npos)
      << decode_status.message();
  std::fill_n(x.begin(), 32, 1.f);
  x[32] = 0;
  EXPECT_EQ(CodeOf(SparseValues::kFloats, x).size(), 2u + 132);
}

TEST(Sparse, InvalidPairsAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::vector<float> x(9), decoded(9);
  x[3] = -1;
  x[4] = 1;
  const auto decode_status_of = [&](SparsePair pair) {
    return DecodeInto(SparseValues::kPair, CodeOf(SparseValues::kPair, x, pair), &decoded).code();
  };
  EXPECT_EQ(decode_status_of({-1, 1}), Code::kOk);
  for (float bad_value : {infinity, -infinity, nan, 1.f, -0.f, 0.f})  // the value of x[3]
    EXPECT_EQ(decode_status_of({bad_value, 1}), Code::kMismatch) << bad_value;
  for (float bad_value : {infinity, -infinity, nan, -1.f, -0.f, 0.f})
    EXPECT_EQ(decode_status_of({-1, bad_value}), Code::kMismatch) << bad_value;
}

TEST(Sparse, InvalidDirectoriesAreRefused) {
  Bytes bytes = CodeOf(SparseValues::kFloats, std::vector<float>(10));
  bytes.resize(100);
  bytes[0] = 11;
  const Status parse_status = SparseCode::Parse(SparseValues::kFloats, bytes, 10).status();
  EXPECT_EQ(parse_status.code(), Code::kMismatch);
  EXPECT_NE(parse_status.message().find("sends 11 elements, it has 10"), std::string::npos);
  // Parse allocates memory in proportion to the bytes, even if it is told of many more elements.
  for (uint64_t count : {uint64_t{1} << 40, ~uint64_t{0} - kSparseBlock}) {
    EXPECT_EQ(SparseCode::Parse(SparseValues::kPair, bytes, count).status().code(),
              Code::kMismatch);
  }
}

}  // namespace
}  // namespace tern::codec

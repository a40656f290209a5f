// Tests of SplitRow: rows of integers whose low bits are stored and whose other bits are
// entropy-coded. What is decoded, the chosen number of low bits, the bytes, and refused inputs.
#include "common/codec/split_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/codes/ternary.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using Bytes = std::vector<uint8_t>;
using Integers = std::vector<int64_t>;
using kernels::PlaneBytes;

constexpr size_t kBlock = 128;

Bytes PlanesOf(const Integers& integers, int bits) {
  const size_t plane_bytes = PlaneBytes(integers.size());
  Bytes planes(static_cast<size_t>(bits) * plane_bytes);
  for (size_t i = 0; i < integers.size(); ++i) {
    for (int p = 0; p < bits; ++p) {
      planes[static_cast<size_t>(p) * plane_bytes + i / 8] |=
          static_cast<uint8_t>((integers[i] >> p & 1) << (i % 8));
    }
  }
  return planes;
}

Bytes RowOf(const Integers& integers, int bits, size_t block_size = kBlock) {
  const Bytes planes = PlanesOf(integers, bits);
  Bytes row;
  AppendSplitRow(planes, integers.size(), ChooseSplit(planes, integers.size(), bits), block_size,
                 &row);
  return row;
}

// Integers with this standard deviation, in `bits` bits.
Integers NormalIntegers(size_t n, int bits, double deviation) {
  std::mt19937_64 random(n + static_cast<size_t>(bits));
  std::normal_distribution<double> normal(0, deviation);
  const double largest = std::exp2(bits - 1) - 1;
  Integers integers(n);
  for (int64_t& v : integers) v = std::llround(std::clamp(normal(random), -largest, largest));
  return integers;
}

Result<SplitRow> Parse(const Bytes& bytes, size_t n, int bits) {
  return SplitRow::Parse(bytes, n, kBlock, bits);
}

// The planes of blocks [first_block, first_block + num_blocks), decoded from the row.
Bytes DecodedPlanes(const SplitRow& row, size_t first_block, size_t num_blocks, size_t n,
                    int bits) {
  Bytes symbols(n), planes(static_cast<size_t>(bits) * PlaneBytes(n));
  const kernels::AnsTable table(row.frequencies());
  EXPECT_TRUE(
      row.Decode(table, first_block, num_blocks, PlaneBytes(n), symbols.data(), planes.data())
          .ok());
  return planes;
}

TEST(SplitRow, AnyBlocksDecodeToTheirIntegers) {
  for (const int bits : {2, 3, 8, 9, 11, 18, 24}) {
    for (const double deviation : {0.1, 3.0, 60.0, 500.0, 1e5}) {
      for (const size_t n : {1, 127, 128, 129, 500}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << deviation << ", n " << n);
        Integers integers = NormalIntegers(n, bits, deviation);
        integers.front() = -(int64_t{1} << (bits - 1));  // the smallest and the largest number
        integers.back() = (int64_t{1} << (bits - 1)) - 1;
        Bytes bytes = RowOf(integers, bits);
        const size_t size = bytes.size();
        bytes.push_back(77);
        const Result<SplitRow> row = Parse(bytes, n, bits);
        ASSERT_TRUE(row.ok()) << row.status().message();
        EXPECT_EQ(row->size(), size);
        const size_t num_blocks = (n + kBlock - 1) / kBlock;
        for (size_t first = 0; first < num_blocks; ++first) {
          for (size_t blocks = 1; first + blocks <= num_blocks; ++blocks) {
            const auto begin = integers.begin() + static_cast<ptrdiff_t>(first * kBlock);
            const size_t count = std::min(blocks * kBlock, n - first * kBlock);
            ASSERT_EQ(DecodedPlanes(*row, first, blocks, count, bits),
                      PlanesOf({begin, begin + static_cast<ptrdiff_t>(count)}, bits));
          }
        }
      }
    }
  }
}

// The row with each possible number of low bits, of which ChooseSplit is to find the shortest.
TEST(SplitRow, IsAboutAsShortAsWithAnyNumberOfLowBits) {
  for (const int bits : {8, 11}) {
    for (const size_t n : {500, 4096, 40000}) {
      for (const double deviation : {0.3, 2.0, 10.0, 100.0}) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << deviation << ", n " << n);
        const Integers integers = NormalIntegers(n, bits, deviation);
        const Bytes planes = PlanesOf(integers, bits);
        size_t shortest = planes.size() * 2;
        for (int low_bits = 0; low_bits <= bits - 2; ++low_bits) {
          SplitCounts split{{bits, low_bits}, {}};
          bool fits = true;
          for (const int64_t v : integers) {
            const int64_t symbol = (v >> low_bits) + split.split.symbol_of_zero();
            fits = fits && 0 <= symbol && symbol < 1 << split.split.symbol_bits();
            if (fits) ++split.counts[static_cast<size_t>(symbol)];
          }
          if (!fits) continue;
          Bytes row;
          AppendSplitRow(planes, n, split, 4096, &row);
          shortest = std::min(shortest, row.size());
        }
        EXPECT_LE(static_cast<double>(RowOf(integers, bits, 4096).size()),
                  static_cast<double>(shortest) * 1.005);
      }
    }
  }
}

// A Gaussian number with a deviation of d units, rounded, has about log2(d) + 2.05 bits of entropy.
// A block of 4096 has 36 bytes besides, 0.07 bits an integer.
TEST(SplitRow, IsNearTheEntropyOfGaussianNumbers) {
  for (const double deviation : {40.0, 250.0, 3000.0}) {
    constexpr size_t kN = 1 << 16;
    const Bytes row = RowOf(NormalIntegers(kN, 18, deviation), 18, 4096);
    EXPECT_LT(8.0 * static_cast<double>(row.size()) / kN, std::log2(deviation) + 2.05 + 0.08);
  }
}

TEST(SplitRow, IsSmallIfTheIntegersAreSmallWhateverTheirBits) {
  const Integers integers = NormalIntegers(4096, 8, 3);
  EXPECT_EQ(RowOf(integers, 24), RowOf(integers, 11));
  EXPECT_EQ(RowOf(NormalIntegers(4096, 11, 0.5), 11)[0], 0) << "no low bits";
}

TEST(SplitRow, MatchesGoldenBytes) {
  // Eight times 5 in 10 bits. All are the same symbol, 5 + 128, so that no words follow the states.
  const std::string states_of_block =
      "0000010000000100000001000000010000000100000001000000010000000100";
  EXPECT_EQ(ToHex(RowOf(Integers(8, 5), 10)), "00858520000000" + states_of_block);
  // 300 and 301: no more than 8 of the 10 bits are coded; the symbol is 300 / 4 + 128.
  EXPECT_EQ(ToHex(RowOf({300, 301, 300, 301, 300, 301, 300, 301}, 10)),
            "02aa00cbcb20000000" + states_of_block);
}

TEST(SplitRow, RefusesInvalidBytes) {
  constexpr size_t kN = 300;
  const int bits = 12;
  const Bytes bytes = RowOf(NormalIntegers(kN, bits, 300), bits);
  ASSERT_GT(bytes[0], 0);
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_EQ(Parse({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}, kN, bits)
                  .status()
                  .code(),
              Code::kMismatch);
  for (const int low_bits : {bits - 1, bits, 255}) {
    Bytes changed = bytes;
    changed[0] = static_cast<uint8_t>(low_bits);
    EXPECT_EQ(Parse(changed, kN, bits).status().code(), Code::kMismatch) << low_bits;
  }
  Bytes changed = bytes;
  changed[PlaneBytes(kN)] |= 0x80;  // beyond the last element of the first plane
  EXPECT_EQ(Parse(changed, kN, bits).status().code(), Code::kMismatch);
}

TEST(SplitRow, ADamagedBitIsRefusedOrChangesTheIntegers) {
  constexpr size_t kN = 300;
  const int bits = 12;
  const Integers integers = NormalIntegers(kN, bits, 300);
  const Bytes bytes = RowOf(integers, bits), expected = PlanesOf(integers, bits);
  size_t num_decoded = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes damaged = bytes;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    const Result<SplitRow> row = Parse(damaged, kN, bits);
    if (!row.ok()) continue;
    const kernels::AnsTable table(row->frequencies());
    Bytes symbols(kN), planes(expected.size());
    if (!row->Decode(table, 0, 3, PlaneBytes(kN), symbols.data(), planes.data()).ok()) continue;
    ++num_decoded;
    ASSERT_NE(planes, expected) << bit;
  }
  EXPECT_GT(num_decoded, 0u);
}

}  // namespace
}  // namespace tern::codec

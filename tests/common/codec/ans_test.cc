// Tests of AnsRow. A row is the entropy code (asymmetric numeral systems) of one segment: symbol
// frequencies, the end of each block, and blocks that decode independently.
// tests/kernels/codes/ans_test.cc tests the blocks themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "common/codec/ans_row.h"

namespace tern::codec {
namespace {

using Bytes = std::vector<uint8_t>;

// n symbols below `levels`; low ones are more frequent.
Bytes SomeSymbols(size_t n, unsigned levels, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes symbols(n);
  for (uint8_t& s : symbols) {
    s = static_cast<uint8_t>(std::min(random() % levels, random() % levels));
  }
  return symbols;
}

// A row, and the symbols that were encoded.
struct Row {
  Bytes bytes, symbols;
};
Row SomeRow(size_t n, size_t block) {
  Row row;
  row.symbols = SomeSymbols(n, 6, n);
  for (uint8_t& s : row.symbols) s = static_cast<uint8_t>(s + 3);  // The symbols are now 3 to 8.
  const auto source = [&](uint64_t first, size_t count, uint8_t* to) {
    std::copy_n(row.symbols.begin() + static_cast<ptrdiff_t>(first), count, to);
  };
  AppendAnsRow(n, block, kernels::CountSymbols(row.symbols.data(), n), source, &row.bytes);
  return row;
}

TEST(AnsRow, BlocksDecodeIndependently) {
  for (const size_t n : {1, 99, 100, 101, 950}) {
    const Row row = SomeRow(n, 100);
    Bytes longer = row.bytes;
    longer.push_back(1);
    const Result<AnsRow> parsed = AnsRow::Parse(longer, n, 100, 9);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->size(), row.bytes.size());
    const kernels::AnsTable table(parsed->frequencies());
    for (size_t begin = (n - 1) / 100 * 100 + 100;
         begin != 0;) {  // from the last block to the first
      begin -= 100;
      const size_t size = std::min<size_t>(100, n - begin);
      Bytes decoded(size);
      ASSERT_TRUE(parsed->Decode(table, begin / 100, 1, decoded.data()).ok());
      EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), row.symbols.begin() + begin));
    }
  }
}

TEST(AnsRow, AnyBlocksDecodeTogether) {
  for (const size_t n : {100, 399, 400, 401, 950, 1001}) {
    const Row row = SomeRow(n, 100);
    const Result<AnsRow> parsed = AnsRow::Parse(row.bytes, n, 100, 9);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const kernels::AnsTable table(parsed->frequencies());
    const size_t blocks = (n + 99) / 100;
    for (size_t first = 0; first < blocks; ++first) {
      for (size_t num_blocks = 0; num_blocks <= blocks - first; ++num_blocks) {
        const size_t size = std::min(n, (first + num_blocks) * 100) - first * 100;
        Bytes decoded(size + 1, 77);
        ASSERT_TRUE(parsed->Decode(table, first, num_blocks, decoded.data()).ok());
        EXPECT_TRUE(
            std::equal(decoded.begin(), decoded.end() - 1, row.symbols.begin() + first * 100));
        EXPECT_EQ(decoded.back(), 77);
      }
    }
  }
}

TEST(AnsRow, NamesTheFirstInvalidBlock) {
  Row row = SomeRow(800, 100);
  const Result<AnsRow> parsed = AnsRow::Parse(row.bytes, 800, 100, 9);
  const kernels::AnsTable table(parsed->frequencies());
  const auto end_entry = [&](size_t block) { return row.bytes.data() + 12 + 4 * block; };
  uint32_t ends[8];
  std::memcpy(ends, end_entry(0), sizeof ends);
  Bytes symbols(800);
  for (const size_t bad : {1, 3, 5, 6}) {
    const Row undamaged = row;
    const uint32_t end = ends[bad] - 2;  // The block's last 2 bytes now belong to the next block.
    std::memcpy(end_entry(bad), &end, sizeof end);
    const Result<AnsRow> parsed_damaged = AnsRow::Parse(row.bytes, 800, 100, 9);
    ASSERT_TRUE(parsed_damaged.ok());
    const Status status = parsed_damaged->Decode(table, 0, 8, symbols.data());
    EXPECT_EQ(status.code(), Code::kMismatch);
    const std::string expected_text =
        "bytes " + std::to_string(ends[bad - 1]) + " to " + std::to_string(end) + " ";
    EXPECT_NE(status.message().find(expected_text), std::string::npos) << status.message();
    EXPECT_EQ(parsed_damaged->Decode(table, bad, 1, symbols.data()).message(), status.message());
    EXPECT_TRUE(parsed_damaged->Decode(table, 0, bad, symbols.data()).ok());
    row = undamaged;
  }
}

// The row's bytes: the first symbol (u8 3), the last symbol (u8 8), the frequencies of all symbols
// but the last (5 u16), the ends of the blocks (4 u32), the blocks.
TEST(AnsRow, InvalidTablesAndSizesAreRefused) {
  const Row row = SomeRow(400, 100);
  ASSERT_EQ(row.bytes[0], 3);
  ASSERT_EQ(row.bytes[1], 8);
  const auto parse = [](const Bytes& bytes, size_t levels) {
    return AnsRow::Parse(bytes, 400, 100, levels).status().code();
  };
  const auto parse_with_byte = [&](size_t at, uint8_t byte) {
    Bytes bytes = row.bytes;
    bytes[at] = byte;
    return parse(bytes, 256);
  };
  EXPECT_EQ(parse(row.bytes, 9), Code::kOk);
  EXPECT_EQ(parse(row.bytes, 8), Code::kMismatch);
  EXPECT_EQ(parse_with_byte(0, 9), Code::kMismatch);  // the first symbol is above the last
  EXPECT_EQ(parse_with_byte(3, 0x10),
            Code::kMismatch);  // One frequency reaches 4096, the sum of all.
  Bytes no_slots = row.bytes;
  no_slots[2] = no_slots[3] = 0;  // the first symbol has frequency 0
  EXPECT_EQ(parse(no_slots, 9), Code::kMismatch);
  EXPECT_EQ(parse_with_byte(27, 0x7F), Code::kMismatch);  // The last block ends beyond the row.
  for (size_t size = 0; size < row.bytes.size(); ++size) {
    EXPECT_EQ(parse(Bytes(row.bytes.begin(), row.bytes.begin() + size), 9), Code::kMismatch);
  }
}

TEST(AnsRow, BlocksWithInvalidEndsAreRefused) {
  Row row = SomeRow(400, 100);
  for (const uint32_t end : {0u, 1u, 0x10000u, 0xFFFFFFFFu}) {
    Bytes bytes = row.bytes;
    std::memcpy(bytes.data() + 12 + 4, &end, sizeof end);  // Replaces the end of block 1.
    const Result<AnsRow> parsed = AnsRow::Parse(bytes, 400, 100, 9);
    ASSERT_TRUE(parsed.ok());
    const kernels::AnsTable table(parsed->frequencies());
    Bytes decoded(100);
    EXPECT_TRUE(parsed->Decode(table, 0, 1, decoded.data()).ok());
    EXPECT_EQ(parsed->Decode(table, 1, 1, decoded.data()).code(), Code::kMismatch) << end;
    EXPECT_EQ(parsed->Decode(table, 2, 1, decoded.data()).code(), Code::kMismatch) << end;
    EXPECT_TRUE(parsed->Decode(table, 3, 1, decoded.data()).ok());
  }
}

}  // namespace
}  // namespace tern::codec

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

// n random symbols from 0 to levels - 1, of which low ones are more frequent.
Bytes RandomSymbols(size_t n, unsigned levels, uint64_t seed) {
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
Row MakeRow(size_t n, size_t block_symbols) {
  Row row;
  row.symbols = RandomSymbols(n, 6, n);
  for (uint8_t& s : row.symbols) s = static_cast<uint8_t>(s + 3);  // The symbols are now 3 to 8.
  const auto copy_symbols = [&](uint64_t first, size_t count, uint8_t* to) {
    std::copy_n(row.symbols.begin() + static_cast<ptrdiff_t>(first), count, to);
  };
  AppendAnsRow(n, block_symbols, kernels::CountSymbols(row.symbols.data(), n), copy_symbols,
               &row.bytes);
  return row;
}

TEST(AnsRow, BlocksDecodeIndependently) {
  for (const size_t n : {1, 99, 100, 101, 950}) {
    const Row row = MakeRow(n, 100);
    Bytes row_and_one_byte = row.bytes;
    row_and_one_byte.push_back(1);
    const Result<AnsRow> parsed = AnsRow::Parse(row_and_one_byte, n, 100, 9);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->size(), row.bytes.size());
    const kernels::AnsTable table(parsed->frequencies());
    // Decodes the blocks from the last to the first.
    for (size_t begin = (n - 1) / 100 * 100 + 100; begin != 0;) {
      begin -= 100;
      const size_t num_symbols = std::min<size_t>(100, n - begin);
      Bytes decoded(num_symbols);
      ASSERT_TRUE(parsed->Decode(table, begin / 100, 1, decoded.data()).ok());
      EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), row.symbols.begin() + begin));
    }
  }
}

TEST(AnsRow, AnyBlocksDecodeTogether) {
  for (const size_t n : {100, 399, 400, 401, 950, 1001}) {
    const Row row = MakeRow(n, 100);
    const Result<AnsRow> parsed = AnsRow::Parse(row.bytes, n, 100, 9);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const kernels::AnsTable table(parsed->frequencies());
    const size_t num_row_blocks = (n + 99) / 100;
    for (size_t first_block = 0; first_block < num_row_blocks; ++first_block) {
      for (size_t num_blocks = 0; num_blocks <= num_row_blocks - first_block; ++num_blocks) {
        const size_t num_symbols =
            std::min(n, (first_block + num_blocks) * 100) - first_block * 100;
        Bytes decoded(num_symbols + 1, 77);
        ASSERT_TRUE(parsed->Decode(table, first_block, num_blocks, decoded.data()).ok());
        EXPECT_TRUE(std::equal(decoded.begin(), decoded.end() - 1,
                               row.symbols.begin() + first_block * 100));
        EXPECT_EQ(decoded.back(), 77);
      }
    }
  }
}

TEST(AnsRow, NamesTheFirstInvalidBlock) {
  Row row = MakeRow(800, 100);
  const Result<AnsRow> parsed = AnsRow::Parse(row.bytes, 800, 100, 9);
  const kernels::AnsTable table(parsed->frequencies());
  const auto address_of_end = [&](size_t block) { return row.bytes.data() + 12 + 4 * block; };
  uint32_t ends[8];
  std::memcpy(ends, address_of_end(0), sizeof ends);
  Bytes symbols(800);
  for (const size_t bad_block : {1, 3, 5, 6}) {
    const Row undamaged_row = row;
    // The block's last 2 bytes now belong to the next block.
    const uint32_t new_end = ends[bad_block] - 2;
    std::memcpy(address_of_end(bad_block), &new_end, sizeof new_end);
    const Result<AnsRow> parsed_damaged_row = AnsRow::Parse(row.bytes, 800, 100, 9);
    ASSERT_TRUE(parsed_damaged_row.ok());
    const Status decode_status = parsed_damaged_row->Decode(table, 0, 8, symbols.data());
    EXPECT_EQ(decode_status.code(), Code::kMismatch);
    const std::string expected_text =
        "bytes " + std::to_string(ends[bad_block - 1]) + " to " + std::to_string(new_end) + " ";
    EXPECT_NE(decode_status.message().find(expected_text), std::string::npos)
        << decode_status.message();
    EXPECT_EQ(parsed_damaged_row->Decode(table, bad_block, 1, symbols.data()).message(),
              decode_status.message());
    EXPECT_TRUE(parsed_damaged_row->Decode(table, 0, bad_block, symbols.data()).ok());
    row = undamaged_row;
  }
}

// The row's bytes: the first symbol (u8 3), the last symbol (u8 8), the frequencies of all symbols
// but the last (5 u16), the ends of the blocks (4 u32), the blocks.
TEST(AnsRow, InvalidTablesAndSizesAreRefused) {
  const Row row = MakeRow(400, 100);
  ASSERT_EQ(row.bytes[0], 3);
  ASSERT_EQ(row.bytes[1], 8);
  const auto parse_status = [](const Bytes& bytes, size_t levels) {
    return AnsRow::Parse(bytes, 400, 100, levels).status().code();
  };
  const auto parse_status_with_byte = [&](size_t at, uint8_t byte) {
    Bytes bytes = row.bytes;
    bytes[at] = byte;
    return parse_status(bytes, 256);
  };
  EXPECT_EQ(parse_status(row.bytes, 9), Code::kOk);
  EXPECT_EQ(parse_status(row.bytes, 8), Code::kMismatch);
  EXPECT_EQ(parse_status_with_byte(0, 9), Code::kMismatch);  // the first symbol is above the last
  // One frequency becomes 4096 or more, but all together must add up to 4096.
  EXPECT_EQ(parse_status_with_byte(3, 0x10), Code::kMismatch);
  Bytes zero_frequency = row.bytes;
  zero_frequency[2] = zero_frequency[3] = 0;  // the first symbol has frequency 0
  EXPECT_EQ(parse_status(zero_frequency, 9), Code::kMismatch);
  // The last block ends beyond the row.
  EXPECT_EQ(parse_status_with_byte(27, 0x7F), Code::kMismatch);
  for (size_t size = 0; size < row.bytes.size(); ++size) {
    EXPECT_EQ(parse_status(Bytes(row.bytes.begin(), row.bytes.begin() + size), 9), Code::kMismatch);
  }
}

TEST(AnsRow, BlocksWithInvalidEndsAreRefused) {
  Row row = MakeRow(400, 100);
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

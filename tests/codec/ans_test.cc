// The entropy coder of kernels/ans.h and the rows made of its blocks.
#include "kernels/ans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "common/codec/ans_row.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {
namespace {

using kernels::AnsDecoder;
using kernels::AnsEncoder;
using kernels::AnsFrequencies;
using kernels::CountSymbols;
using kernels::FrequenciesOf;
using kernels::kAnsSymbols;
using Bytes = std::vector<uint8_t>;
using Counts = std::array<uint64_t, kAnsSymbols>;

// n symbols below `levels`, the low ones more often.
Bytes SomeSymbols(size_t n, unsigned levels, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes symbols(n);
  for (uint8_t& s : symbols) {
    s = static_cast<uint8_t>(std::min(random() % levels, random() % levels));
  }
  return symbols;
}

AnsFrequencies TableOf(const Bytes& symbols) {
  return FrequenciesOf(CountSymbols(symbols.data(), symbols.size()));
}

Bytes Encoded(const AnsFrequencies& table, const Bytes& symbols) {
  Bytes room(kernels::MaxAnsBytes(symbols.size()));
  const auto block = AnsEncoder(table).Encode(symbols.data(), symbols.size(), room);
  return Bytes(block.begin(), block.end());
}

// The header's equations as they stand there.
Bytes EncodedByTheBook(const AnsFrequencies& f, const Bytes& symbols) {
  std::vector<uint64_t> x(8, 1 << 16);
  std::vector<uint16_t> words;
  for (size_t i = symbols.size(); i-- > 0;) {
    const uint64_t own = f[symbols[i]];
    const uint64_t below = std::accumulate(f.begin(), f.begin() + symbols[i], uint64_t{0});
    uint64_t& state = x[i % 8];
    if (state >= own << 20) {
      words.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    state = state / own * 4096 + state % own + below;
  }
  Bytes bytes;
  for (const uint64_t state : x) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(state >> shift));
  }
  for (; !words.empty(); words.pop_back()) {
    bytes.push_back(static_cast<uint8_t>(words.back()));
    bytes.push_back(static_cast<uint8_t>(words.back() >> 8));
  }
  return bytes;
}

std::vector<size_t> Lengths() {
  std::vector<size_t> lengths(71);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (size_t power = 128; power <= 16384; power *= 2) {
    lengths.insert(lengths.end(), {power - 1, power, power + 1});
  }
  return lengths;
}

TEST(Ans, BlocksAreTheEquationsAndComeBack) {
  for (const unsigned levels : {1, 2, 3, 9, 17, 256}) {
    const AnsFrequencies table = TableOf(SomeSymbols(100000, levels, 1));
    const AnsDecoder decoder(table);
    for (const size_t n : Lengths()) {
      const Bytes symbols = SomeSymbols(n, levels, n + 2);
      const Bytes block = Encoded(table, symbols);
      ASSERT_EQ(block, EncodedByTheBook(table, symbols)) << levels << " " << n;
      Bytes back(n + 1, 77);
      ASSERT_TRUE(decoder.Decode(block, n, back.data()));
      EXPECT_EQ(back.back(), 77);
      back.pop_back();
      ASSERT_EQ(back, symbols);
    }
  }
}

// Symbols with one slot, with all but one and with all of them: the ends of what division by a
// reciprocal must get right.
TEST(Ans, EveryFrequencyDividesExactly) {
  for (unsigned f = 1; f < 4096; f += f < 64 || f > 4000 ? 1 : 37) {
    AnsFrequencies table{};
    table[0] = static_cast<uint16_t>(f);
    table[1] = static_cast<uint16_t>(4096 - f);
    std::mt19937_64 random(f);
    Bytes symbols(300);
    for (uint8_t& s : symbols) s = random() % 2;
    ASSERT_EQ(Encoded(table, symbols), EncodedByTheBook(table, symbols)) << f;
  }
}

TEST(Ans, SizeIsNearTheEntropy) {
  constexpr size_t kN = 100000;
  for (const unsigned levels : {2, 3, 9, 17, 200}) {
    const Bytes symbols = SomeSymbols(kN, levels, 3);
    double entropy = 0;  // bits of all symbols
    for (const uint64_t count : CountSymbols(symbols.data(), kN)) {
      if (count > 0) entropy += count * std::log2(static_cast<double>(kN) / count);
    }
    const double bits = 8.0 * Encoded(TableOf(symbols), symbols).size();
    EXPECT_GE(bits + 1, entropy);
    EXPECT_LT(bits, entropy * 1.003 + 8 * 32) << levels;
  }
}

TEST(Ans, CountsAreCounts) {
  for (const size_t n : {0, 1, 3, 4, 5, 1000}) {
    const Bytes symbols = SomeSymbols(n, 256, n);
    Counts expected{};
    for (const uint8_t s : symbols) ++expected[s];
    EXPECT_EQ(CountSymbols(symbols.data(), n), expected);
  }
}

TEST(Ans, FrequenciesSumToAllSlotsAndLeaveNobodyOut) {
  std::vector<Counts> cases(6);
  cases[0][9] = 5;                                                          // one symbol: all slots
  cases[1].fill(1);                                                         // 16 each
  cases[2].fill(1), cases[2][3] = 1000000000000;                            // 255 forced up
  for (size_t s = 0; s < kAnsSymbols; ++s) cases[3][s] = 31 + 2 * (s % 2);  // all round up
  for (size_t s = 0; s < kAnsSymbols; ++s) cases[4][s] = s * s * s;
  for (size_t s = 0; s < 3; ++s) cases[5][s] = 1;
  for (const Counts& counts : cases) {
    const AnsFrequencies f = FrequenciesOf(counts);
    EXPECT_EQ(std::accumulate(f.begin(), f.end(), 0), 4096);
    for (size_t s = 0; s < kAnsSymbols; ++s) EXPECT_EQ(f[s] > 0, counts[s] > 0) << s;
  }
  EXPECT_EQ(FrequenciesOf(cases[0])[9], 4096);
  EXPECT_EQ(FrequenciesOf(cases[1])[200], 16);
  EXPECT_EQ(FrequenciesOf(cases[5])[1], 1365);
}

// One block a row: what is not refused is another row.
TEST(Ans, OtherBlocksAreRefusedOrOtherRows) {
  const Bytes symbols = SomeSymbols(203, 5, 8);
  const AnsFrequencies table = TableOf(symbols);
  const AnsDecoder decoder(table);
  const Bytes block = Encoded(table, symbols);
  Bytes out(300);
  for (size_t size = 0; size < block.size(); ++size) {
    EXPECT_FALSE(decoder.Decode(std::span(block).first(size), 203, out.data())) << size;
  }
  for (const size_t more : {1, 2, 16}) {
    Bytes longer = block;
    longer.insert(longer.end(), more, 0);
    EXPECT_FALSE(decoder.Decode(longer, 203, out.data()));
  }
  for (size_t bit = 0; bit < 8 * block.size(); ++bit) {
    Bytes flipped = block;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    const bool taken = decoder.Decode(flipped, 203, out.data());
    EXPECT_FALSE(taken && std::equal(symbols.begin(), symbols.end(), out.begin())) << bit;
  }
  for (const size_t n : {0, 202, 204, 300}) EXPECT_FALSE(decoder.Decode(block, n, out.data()));
}

TEST(Ans, RandomBytesAreNoBlock) {
  std::mt19937_64 random(4);
  const AnsDecoder decoder(TableOf(SomeSymbols(1000, 7, 1)));
  for (int trial = 0; trial < 2000; ++trial) {
    Bytes block(random() % 200), out(100);
    for (uint8_t& b : block) b = static_cast<uint8_t>(random());
    EXPECT_FALSE(decoder.Decode(block, random() % 101, out.data()));
  }
}

TEST(Ans, GoldenBytesStay) {
  AnsFrequencies table{};
  table[0] = 650, table[1] = 2796, table[2] = 650;
  const Bytes symbols = {1, 1, 0, 1, 2, 1, 1, 2, 0, 1, 1, 1, 0, 2, 2, 0, 0, 1, 2, 2, 0, 2, 0, 2};
  EXPECT_EQ(ToHex(Encoded(table, symbols)),
            "22b43900fa260300b6303a00fe870d00de2ff8009a523a00acc639009c8dfa00");
}

struct Row {
  Bytes bytes, symbols;
};
Row SomeRow(size_t n, size_t block) {
  Row row;
  row.symbols = SomeSymbols(n, 6, n);
  for (uint8_t& s : row.symbols) s = static_cast<uint8_t>(s + 3);  // 3 to 8
  AppendAnsRow(row.symbols, block, &row.bytes);
  return row;
}

TEST(AnsRow, BlocksDecodeOneByOne) {
  for (const size_t n : {1, 99, 100, 101, 950}) {
    const Row row = SomeRow(n, 100);
    Bytes longer = row.bytes;
    longer.push_back(1);
    const Result<AnsRow> parsed = AnsRow::Parse(longer, n, 100, 9);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->size(), row.bytes.size());
    const AnsDecoder decoder(parsed->frequencies());
    for (size_t begin = (n - 1) / 100 * 100 + 100; begin != 0;) {  // the last one first
      begin -= 100;
      const size_t size = std::min<size_t>(100, n - begin);
      Bytes part(size);
      ASSERT_TRUE(parsed->Decode(decoder, begin / 100, part.data()).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), row.symbols.begin() + begin));
    }
  }
}

// u8 3, u8 8, 5 frequencies, 4 ends of blocks, blocks.
TEST(AnsRow, TablesAndSizesThatCannotBeAreRefused) {
  const Row row = SomeRow(400, 100);
  ASSERT_EQ(row.bytes[0], 3);
  ASSERT_EQ(row.bytes[1], 8);
  const auto code = [](const Bytes& bytes, size_t levels) {
    return AnsRow::Parse(bytes, 400, 100, levels).status().code();
  };
  const auto with = [&](size_t at, uint8_t byte) {
    Bytes bytes = row.bytes;
    bytes[at] = byte;
    return code(bytes, 256);
  };
  EXPECT_EQ(code(row.bytes, 9), Code::kOk);
  EXPECT_EQ(code(row.bytes, 8), Code::kMismatch);
  EXPECT_EQ(with(0, 9), Code::kMismatch);     // first above last
  EXPECT_EQ(with(3, 0x10), Code::kMismatch);  // 4096 slots and more
  Bytes none = row.bytes;
  none[2] = none[3] = 0;  // the first does not occur
  EXPECT_EQ(code(none, 9), Code::kMismatch);
  EXPECT_EQ(with(27, 0x7F), Code::kMismatch);  // ends beyond the bytes
  for (size_t size = 0; size < row.bytes.size(); ++size) {
    EXPECT_EQ(code(Bytes(row.bytes.begin(), row.bytes.begin() + size), 9), Code::kMismatch);
  }
}

TEST(AnsRow, BlocksThatEndBeforeTheyBeginOrBeyondTheRowAreRefused) {
  Row row = SomeRow(400, 100);
  for (const uint32_t end : {0u, 1u, 0x10000u, 0xFFFFFFFFu}) {
    Bytes bytes = row.bytes;
    std::memcpy(bytes.data() + 12 + 4, &end, sizeof end);  // of block 1
    const Result<AnsRow> parsed = AnsRow::Parse(bytes, 400, 100, 9);
    ASSERT_TRUE(parsed.ok());
    const AnsDecoder decoder(parsed->frequencies());
    Bytes part(100);
    EXPECT_TRUE(parsed->Decode(decoder, 0, part.data()).ok());
    EXPECT_EQ(parsed->Decode(decoder, 1, part.data()).code(), Code::kMismatch) << end;
    EXPECT_EQ(parsed->Decode(decoder, 2, part.data()).code(), Code::kMismatch) << end;
    EXPECT_TRUE(parsed->Decode(decoder, 3, part.data()).ok());
  }
}

}  // namespace
}  // namespace tern::codec

// Tests of the ANS entropy coder (kernels/codes/ans.h): that it follows its equations and decodes
// what it encodes, at every length and on every instruction set, and that it refuses invalid bytes.
// A row of symbols is coded in blocks. The value 77 marks bytes that must not change.
#include "kernels/codes/ans.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/kernels/device/on_target.h"

namespace tern::kernels {
namespace {

class AnsOnTarget : public OnTarget {};
TERN_ON_EVERY_TARGET(AnsOnTarget);

using Bytes = std::vector<uint8_t>;
using Block = std::span<const uint8_t>;

// Returns n random symbols below `num_levels`. Small symbols are more frequent.
Bytes RandomAnsSymbols(size_t n, unsigned num_levels, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes symbols(n);
  for (uint8_t& s : symbols) {
    s = static_cast<uint8_t>(std::min(random() % num_levels, random() % num_levels));
  }
  return symbols;
}

AnsFrequencies FrequenciesIn(const Bytes& symbols) {
  return FrequenciesOf(CountSymbols(symbols.data(), symbols.size()));
}

Bytes EncodeBlock(const AnsFrequencies& frequencies, const Bytes& symbols) {
  Bytes buffer(MaxAnsBytes(symbols.size()));
  Block block;
  EncodeAns(AnsTable(frequencies), symbols.data(), symbols.size(), {&block, 1}, buffer.data());
  return Bytes(block.begin(), block.end());
}

bool DecodeBlock(const AnsTable& table, Block block, size_t n, uint8_t* symbols) {
  return DecodeAns(table, block, {&block, 1}, n, symbols);
}

// Encodes with the equations of ans.h, written literally: 8 states take turns; f[s] of 4096 slots
// belong to symbol s.
Bytes EncodeByEquations(const AnsFrequencies& f, const Bytes& symbols) {
  std::vector<uint64_t> states(8, 1 << 16);
  std::vector<uint16_t> words;
  for (size_t i = symbols.size(); i-- > 0;) {
    const uint64_t slots_of_symbol = f[symbols[i]];
    const uint64_t first_slot = std::accumulate(f.begin(), f.begin() + symbols[i], uint64_t{0});
    uint64_t& state = states[i % 8];
    if (state >= slots_of_symbol << 20) {
      words.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    state = state / slots_of_symbol * 4096 + state % slots_of_symbol + first_slot;
  }
  Bytes bytes;
  for (const uint64_t state : states) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(state >> shift));
  }
  for (; !words.empty(); words.pop_back()) {
    bytes.push_back(static_cast<uint8_t>(words.back()));
    bytes.push_back(static_cast<uint8_t>(words.back() >> 8));
  }
  return bytes;
}

TEST_P(AnsOnTarget, BlocksFollowTheEquationsAndRoundTrip) {
  for (const unsigned num_levels : {1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 25, 256}) {
    const AnsFrequencies frequencies = FrequenciesIn(RandomAnsSymbols(100000, num_levels, 1));
    for (const size_t n : Lengths()) {
      const Bytes symbols = RandomAnsSymbols(n, num_levels, n + 2);
      const Bytes block = EncodeBlock(frequencies, symbols);
      ASSERT_EQ(block, EncodeByEquations(frequencies, symbols)) << num_levels << " " << n;
      Bytes decoded(n + 1, 77);
      ASSERT_TRUE(DecodeBlock(AnsTable(frequencies), block, n, decoded.data()));
      EXPECT_EQ(decoded.back(), 77);
      decoded.pop_back();
      ASSERT_EQ(decoded, symbols);
    }
  }
}

// Two symbols share the 4096 slots in different proportions. The encoder divides by multiplying
// with a reciprocal, which must give the exact quotient for every number of slots.
TEST_P(AnsOnTarget, EveryFrequencyDividesExactly) {
  for (unsigned num_slots = 1; num_slots < 4096;
       num_slots += num_slots < 64 || num_slots > 4000 ? 1 : 37) {
    AnsFrequencies frequencies{};
    frequencies[0] = static_cast<uint16_t>(num_slots);
    frequencies[1] = static_cast<uint16_t>(4096 - num_slots);
    std::mt19937_64 random(num_slots);
    Bytes symbols(300);
    for (uint8_t& s : symbols) s = random() % 2;
    ASSERT_EQ(EncodeBlock(frequencies, symbols), EncodeByEquations(frequencies, symbols))
        << num_slots;
  }
}

TEST_P(AnsOnTarget, CodedSizeIsNearTheEntropy) {
  constexpr size_t kN = 100000;
  for (const unsigned num_levels : {2, 3, 9, 17, 200}) {
    const Bytes symbols = RandomAnsSymbols(kN, num_levels, 3);
    double entropy = 0;  // The entropy of all symbols together, in bits.
    for (const uint64_t count : CountSymbols(symbols.data(), kN)) {
      if (count > 0) entropy += count * std::log2(static_cast<double>(kN) / count);
    }
    const double coded_bits = 8.0 * EncodeBlock(FrequenciesIn(symbols), symbols).size();
    EXPECT_GE(coded_bits + 1, entropy);
    EXPECT_LT(coded_bits, entropy * 1.003 + 8 * 32) << num_levels;
  }
}

TEST_P(AnsOnTarget, CountsSymbols) {
  for (const size_t n : {0, 1, 3, 4, 5, 63, 64, 65, 1000, 16320, 16384, 70000}) {
    for (const unsigned num_levels : {1, 3, 5, 17, 32, 33, 256}) {
      const Bytes symbols = RandomAnsSymbols(n, num_levels, n);
      AnsCounts expected{};
      for (const uint8_t s : symbols) ++expected[s];
      EXPECT_EQ(CountSymbols(symbols.data(), n), expected);
      EXPECT_EQ(CountSymbolsRef(symbols.data(), n), expected);
    }
  }
}

TEST_P(AnsOnTarget, FrequenciesSumToAllSlotsAndAreNeverZeroForUsedSymbols) {
  std::vector<AnsCounts> cases(6);
  cases[0][9] = 5;   // The only symbol gets all 4096 slots.
  cases[1].fill(1);  // Each symbol gets 16 slots.
  // 255 symbols would get less than one slot; each must get one.
  cases[2].fill(1), cases[2][3] = 1000000000000;
  // The exact shares of 15.5 and 16.5 slots are all rounded up, to 4224 together: 128 too many.
  for (size_t s = 0; s < kAnsSymbols; ++s) cases[3][s] = 31 + 2 * (s % 2);
  for (size_t s = 0; s < kAnsSymbols; ++s) cases[4][s] = s * s * s;
  for (size_t s = 0; s < 3; ++s) cases[5][s] = 1;
  for (const AnsCounts& counts : cases) {
    const AnsFrequencies f = FrequenciesOf(counts);
    EXPECT_EQ(std::accumulate(f.begin(), f.end(), 0), 4096);
    for (size_t s = 0; s < kAnsSymbols; ++s) EXPECT_EQ(f[s] > 0, counts[s] > 0) << s;
  }
  EXPECT_EQ(FrequenciesOf(cases[0])[9], 4096);
  EXPECT_EQ(FrequenciesOf(cases[1])[200], 16);
  EXPECT_EQ(FrequenciesOf(cases[5])[1], 1365);
}

// The row has one block. A changed block must be refused, or decode to other symbols.
TEST_P(AnsOnTarget, ChangedBlocksAreRefusedOrDecodeDifferently) {
  const Bytes symbols = RandomAnsSymbols(203, 5, 8);
  const AnsTable table(FrequenciesIn(symbols));
  const Bytes block = EncodeBlock(table.frequency, symbols);
  Bytes out(300);
  for (size_t size = 0; size < block.size(); ++size) {
    EXPECT_FALSE(DecodeBlock(table, std::span(block).first(size), 203, out.data())) << size;
  }
  for (const size_t num_extra_bytes : {1, 2, 16}) {
    Bytes longer_block = block;
    longer_block.insert(longer_block.end(), num_extra_bytes, 0);
    EXPECT_FALSE(DecodeBlock(table, longer_block, 203, out.data()));
  }
  for (size_t bit = 0; bit < 8 * block.size(); ++bit) {
    Bytes changed_block = block;
    changed_block[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    const bool is_accepted = DecodeBlock(table, changed_block, 203, out.data());
    EXPECT_FALSE(is_accepted && std::equal(symbols.begin(), symbols.end(), out.begin())) << bit;
  }
  for (const size_t n : {0, 202, 204, 300}) EXPECT_FALSE(DecodeBlock(table, block, n, out.data()));
}

TEST_P(AnsOnTarget, RandomBytesAreRefused) {
  std::mt19937_64 random(4);
  const AnsTable table(FrequenciesIn(RandomAnsSymbols(1000, 7, 1)));
  for (int trial = 0; trial < 2000; ++trial) {
    Bytes block(random() % 200), out(100);
    for (uint8_t& b : block) b = static_cast<uint8_t>(random());
    EXPECT_FALSE(DecodeBlock(table, block, random() % 101, out.data()));
  }
}

// Blocks that are coded in one call must have the same bytes as with the reference, and decode to
// the symbols. The symbols are odd numbers from 7 on, so that not all values below the largest
// occur.
TEST_P(AnsOnTarget, BlocksCodedTogetherMatchReference) {
  for (const unsigned num_levels : {1, 2, 4, 9, 12, 40}) {
    for (const size_t num_blocks : {1, 2, 3, 4, 7, 8, 15}) {
      for (const size_t n : {1, 8, 13, 100, 1000, 4096, 4101}) {
        SCOPED_TRACE(testing::Message() << num_levels << " levels, " << num_blocks << " of " << n);
        Bytes symbols = RandomAnsSymbols(n * num_blocks, num_levels, n + num_blocks);
        for (uint8_t& s : symbols) s = static_cast<uint8_t>(2 * s + 7);
        const AnsTable table(FrequenciesIn(symbols));
        Bytes buffer(num_blocks * MaxAnsBytes(n)), reference_buffer(buffer);
        std::vector<Block> coded_blocks(num_blocks), reference_blocks(num_blocks);
        EncodeAns(table, symbols.data(), n, coded_blocks, buffer.data());
        EncodeAnsRef(table, symbols.data(), n, reference_blocks, reference_buffer.data());
        Bytes row;
        for (size_t k = 0; k < num_blocks; ++k) {
          ASSERT_TRUE(std::ranges::equal(coded_blocks[k], reference_blocks[k])) << k;
          row.insert(row.end(), coded_blocks[k].begin(), coded_blocks[k].end());
        }
        const uint8_t* block_begin = row.data();
        for (Block& block : coded_blocks) {
          block = {block_begin, block.size()};
          block_begin += block.size();
        }
        Bytes decoded(symbols.size() + 1, 77);
        ASSERT_TRUE(DecodeAns(table, row, coded_blocks, n, decoded.data()));
        EXPECT_EQ(decoded.back(), 77);
        EXPECT_TRUE(std::equal(symbols.begin(), symbols.end(), decoded.begin()));
        ASSERT_TRUE(DecodeAnsRef(table, row, coded_blocks, n, decoded.data()));
        EXPECT_TRUE(std::equal(symbols.begin(), symbols.end(), decoded.begin()));
      }
    }
  }
}

// Changes bytes and boundaries of blocks at random. The decoder must refuse exactly those rows that
// the reference refuses. It may read bytes of neighbouring blocks, but none beyond the row (the
// address sanitizer checks that).
TEST_P(AnsOnTarget, RefusesTheSameDamagedBlocksAsReference) {
  constexpr size_t kN = 211, kNumBlocks = 4;
  size_t num_refused = 0;
  for (const unsigned num_levels : {2, 3, 5, 9, 17, 30}) {
    const Bytes symbols = RandomAnsSymbols(kN * kNumBlocks, num_levels, num_levels);
    const AnsTable table(FrequenciesIn(symbols));
    Bytes buffer(kNumBlocks * MaxAnsBytes(kN));
    std::vector<Block> coded_blocks(kNumBlocks);
    EncodeAns(table, symbols.data(), kN, coded_blocks, buffer.data());
    std::mt19937_64 random(num_levels);
    for (int trial = 0; trial < 400; ++trial) {
      Bytes bytes;
      std::vector<size_t> block_ends = {0};
      for (const Block block : coded_blocks) {
        bytes.insert(bytes.end(), block.begin(), block.end());
        block_ends.push_back(bytes.size());
      }
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 << random() % 8);
      if (trial % 3 == 0) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      if (trial % 4 == 0) block_ends[1 + random() % (kNumBlocks - 1)] += 2;
      if (trial % 5 == 0) block_ends.back() -= 2 * (random() % 4);
      const Bytes row(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(block_ends.back()));
      std::vector<Block> damaged_blocks;
      for (size_t k = 0; k < kNumBlocks; ++k) {
        damaged_blocks.push_back(
            Block(row).subspan(block_ends[k], block_ends[k + 1] - block_ends[k]));
      }
      Bytes actual(symbols.size()), reference(symbols.size());
      const bool is_accepted = DecodeAns(table, row, damaged_blocks, kN, actual.data());
      ASSERT_EQ(is_accepted, DecodeAnsRef(table, row, damaged_blocks, kN, reference.data()))
          << trial;
      ASSERT_TRUE(!is_accepted || actual == reference) << trial;
      num_refused += !is_accepted;
    }
  }
  EXPECT_GT(num_refused, 2000u);
}

TEST_P(AnsOnTarget, MatchesGoldenBytes) {
  AnsFrequencies frequencies{};
  frequencies[0] = 650, frequencies[1] = 2796, frequencies[2] = 650;
  const Bytes symbols = {1, 1, 0, 1, 2, 1, 1, 2, 0, 1, 1, 1, 0, 2, 2, 0, 0, 1, 2, 2, 0, 2, 0, 2};
  const Bytes golden_bytes = {0x22, 0xb4, 0x39, 0x00, 0xfa, 0x26, 0x03, 0x00, 0xb6, 0x30, 0x3a,
                              0x00, 0xfe, 0x87, 0x0d, 0x00, 0xde, 0x2f, 0xf8, 0x00, 0x9a, 0x52,
                              0x3a, 0x00, 0xac, 0xc6, 0x39, 0x00, 0x9c, 0x8d, 0xfa, 0x00};
  EXPECT_EQ(EncodeBlock(frequencies, symbols), golden_bytes);
}

}  // namespace
}  // namespace tern::kernels

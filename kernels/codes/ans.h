// An entropy coder with a static table: range asymmetric numeral systems (Duda 2013, arXiv
// 1311.2540, section 5). It has 8 independent states (Giesen 2014, arXiv 1402.3392), so that a CPU
// can work on several of them at a time, for example in the lanes of a vector.
//
// Symbol s has the frequency f_s; the sum of all frequencies is M = 2^12. Of the numbers 0 to M - 1
// (slots), those in [b_s, b_s + f_s) belong to s, where b_s is the sum of the frequencies of the
// symbols below s. A state x lies in [L, 2^16 L) with L = 2^16:
//
//   encode s:  if x >= 2^20 f_s:  write the 16-bit word x mod 2^16
//                                 x = floor(x / 2^16)
//              x = M floor(x / f_s) + x mod f_s + b_s
//   decode:    find the symbol s with b_s <= x mod M < b_s + f_s
//              x = f_s floor(x / M) + x mod M - b_s
//              if x < L:          x = 2^16 x + the next word
//
// State i mod 8 codes symbol i. The encoder goes from the last symbol to the first and starts with
// all states at L. The decoder goes from the first symbol to the last and reads the words in the
// opposite order.
//
// A block is the code of n symbols: the 8 states at the end of encoding (32 bits each), then the
// words in the order in which the decoder reads them (16 bits each), all little-endian. After the
// last symbol the decoder must have consumed all words and all states must be L, so that n given
// symbols have exactly one valid block.
//
// Functions named ...Ref give the same results with scalar code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::kernels {

constexpr int kAnsBits = 12;                    // log2 of M
constexpr uint32_t kAnsSlots = 1u << kAnsBits;  // M, the number of slots
constexpr uint32_t kAnsLowestState = 1u << 16;  // L, the lowest state
constexpr size_t kAnsSymbols = 256;             // number of symbols: a symbol is a byte
constexpr size_t kAnsStates = 8;                // number of states of a block

using AnsCounts = std::array<uint64_t, kAnsSymbols>;
using AnsFrequencies = std::array<uint16_t, kAnsSymbols>;

// Counts how often each symbol occurs in symbols[0, n).
AnsCounts CountSymbols(const uint8_t* symbols, size_t n);
AnsCounts CountSymbolsRef(const uint8_t* symbols, size_t n);

// Returns frequencies with the sum M, nearly proportional to the counts. A symbol that occurs gets
// at least 1, and a symbol that does not occur gets 0. REQUIRES at least one count above 0, and a
// sum of counts below 2^52.
AnsFrequencies FrequenciesOf(const AnsCounts& counts);

// The table in which EncodeAns and DecodeAns look symbols up. REQUIRES frequencies whose sum is M.
struct AnsTable {
  explicit AnsTable(const AnsFrequencies& frequencies);
  AnsFrequencies frequency;
  std::array<uint16_t, kAnsSymbols> begin;   // b_s of each symbol s; at most M
  size_t first_symbol = 0, last_symbol = 0;  // the lowest and the highest symbol that occur
};

// The most bytes of a block of n symbols.
constexpr size_t MaxAnsBytes(size_t n) { return 4 * kAnsStates + 2 * n; }

// How many blocks a caller should pass in one call, if it has so many. Several blocks in one call
// are faster, because a CPU works on them at the same time.
constexpr size_t kAnsMaxBlocks = 8;

// Encodes coded.size() blocks of n symbols each. Block k has symbols [k n, (k + 1) n); coded[k]
// becomes its code, a range of `buffer`. REQUIRES that `buffer` has MaxAnsBytes(n) bytes for each
// block, and that the frequency of every symbol that occurs is above 0.
void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer);
void EncodeAnsRef(const AnsTable& table, const uint8_t* symbols, size_t n,
                  std::span<std::span<const uint8_t>> coded, uint8_t* buffer);

// Decodes blocks of n symbols each; blocks[k] becomes symbols [k n, (k + 1) n). Returns false, with
// `symbols` unspecified, if a block is not the code of n symbols. Safe for arbitrary bytes. Each
// block is a range of `row`; the function may read all of `row`.
bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);
bool DecodeAnsRef(const AnsTable& table, std::span<const uint8_t> row,
                  std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);

}  // namespace tern::kernels

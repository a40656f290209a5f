// An entropy coder with a static table: range asymmetric numeral systems (Duda 2013, arXiv
// 1311.2540, section 5) with several interleaved states (Giesen 2014, arXiv 1402.3392), so that
// neither a CPU's latency nor a vector's width has to wait for a single state.
//
// Symbol s has frequency f_s out of M = 2^12 slots. Its slots are [b_s, b_s + f_s), where b_s is
// the sum of the frequencies of the symbols below s. A state x lies in [L, 2^16 L), L = 2^16:
//
//   encode s:  if x >= 2^20 f_s:  put the word x mod 2^16
//                                 x = floor(x / 2^16)
//              x = M floor(x / f_s) + x mod f_s + b_s
//   decode:    s such that b_s <= x mod M < b_s + f_s
//              x = f_s floor(x / M) + x mod M - b_s
//              if x < L:          x = 2^16 x + the next word
//
// State i mod 8 codes element i. The encoder goes from the last element to the first and starts
// with all states at L. Its words are read backwards, so the decoder goes forward.
//
// A block holds the 8 states before the first element (32 bits each), then the words in the
// decoder's order (16 bits each), all little-endian. After the last element the decoder must have
// consumed all words and all states must be L, so each row of symbols has exactly one block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::kernels {

constexpr int kAnsBits = 12;  // log2 of M, the number of slots
constexpr uint32_t kAnsSlots = 1u << kAnsBits;
constexpr uint32_t kAnsLow = 1u << 16;  // L, the lowest state
constexpr size_t kAnsSymbols = 256;     // a symbol is a byte
constexpr size_t kAnsStates = 8;

using AnsCounts = std::array<uint64_t, kAnsSymbols>;
using AnsFrequencies = std::array<uint16_t, kAnsSymbols>;

// How often each symbol occurs.
AnsCounts CountSymbols(const uint8_t* symbols, size_t n);
AnsCounts CountSymbolsRef(const uint8_t* symbols, size_t n);

// Frequencies proportional to the counts as nearly as possible, with sum M. A symbol that occurs
// gets at least one slot, a symbol that does not occur none. REQUIRES at least one count above 0,
// and a sum of counts below 2^52.
AnsFrequencies FrequenciesOf(const AnsCounts& counts);

// The table by which both EncodeAns and DecodeAns look up symbols. REQUIRES frequencies that sum to
// M.
struct AnsTable {
  explicit AnsTable(const AnsFrequencies& frequencies);
  AnsFrequencies frequency;
  std::array<uint16_t, kAnsSymbols> begin;  // b_s of each symbol s; at most M
  size_t first = 0, last = 0;               // the lowest and the highest symbol that occur
};

// Upper bound of the bytes of a block of n symbols.
constexpr size_t MaxAnsBytes(size_t n) { return 4 * kAnsStates + 2 * n; }

// A call that codes several blocks (at most this many) overlaps their latencies.
constexpr size_t kAnsMaxBlocks = 8;

// Encodes block k, the symbols [k n, (k + 1) n), and sets coded[k] to its bytes, a range of
// `buffer`. `buffer` has MaxAnsBytes(n) bytes for each block. REQUIRES that every symbol has a
// frequency.
void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer);
void EncodeAnsRef(const AnsTable& table, const uint8_t* symbols, size_t n,
                  std::span<std::span<const uint8_t>> coded, uint8_t* buffer);

// Decodes blocks of n symbols each into `symbols`, one block after the other. Returns false, with
// `symbols` unspecified, if a block is not the code of n symbols. Safe for any bytes. Blocks are
// ranges anywhere in `row`, all of which must be readable.
bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);
bool DecodeAnsRef(const AnsTable& table, std::span<const uint8_t> row,
                  std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);

}  // namespace tern::kernels

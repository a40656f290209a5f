// An entropy coder with a static table: range asymmetric numeral systems (Duda 2013, arXiv
// 1311.2540, section 5), several states interleaved (Giesen 2014, arXiv 1402.3392), so that neither
// a CPU's latency nor a vector's width need wait for one of them.
//
// Symbol s has the frequency f_s of M = 2^12 slots, those from b_s, the sum of the frequencies
// below, on. A state x lies in [L, 2^16 L), L = 2^16:
//   encode s:  if x >= 2^20 f_s: put the word x mod 2^16, x = floor(x / 2^16)
//              x = M floor(x / f_s) + x mod f_s + b_s
//   decode:    s with b_s <= x mod M < b_s + f_s;  x = f_s floor(x / M) + x mod M - b_s
//              if x < L: x = 2^16 x + the next word
// Element i is coded by state i mod 8. The encoder goes from the last element to the first and
// begins with all states at L; its words are read backwards, so the decoder goes forward.
//
// A block: the 8 states before the first element (32 bits each), then the words in the decoder's
// order (16 bits each), little-endian. A decoder that has all elements must have used all words and
// be at L in all states: each row of symbols has one block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::kernels {

constexpr int kAnsBits = 12;  // log2 M
constexpr uint32_t kAnsSlots = 1u << kAnsBits;
constexpr uint32_t kAnsLow = 1u << 16;  // L
constexpr size_t kAnsSymbols = 256;     // a symbol is a byte
constexpr size_t kAnsStates = 8;

using AnsCounts = std::array<uint64_t, kAnsSymbols>;
using AnsFrequencies = std::array<uint16_t, kAnsSymbols>;

// How often each symbol occurs.
AnsCounts CountSymbols(const uint8_t* symbols, size_t n);
AnsCounts CountSymbolsRef(const uint8_t* symbols, size_t n);

// Frequencies near counts, in sum M; each symbol that occurs has one slot at least, no other has
// any. REQUIRES a count above 0, and their sum below 2^52.
AnsFrequencies FrequenciesOf(const AnsCounts& counts);

// What both directions look up. REQUIRES frequencies that sum to M.
struct AnsTable {
  explicit AnsTable(const AnsFrequencies& frequencies);
  AnsFrequencies frequency;
  std::array<uint16_t, kAnsSymbols> begin;  // b, at most M
  size_t first = 0, last = 0;               // the lowest and the highest symbol that occur
};

// The most bytes of a block of n symbols.
constexpr size_t MaxAnsBytes(size_t n) { return 4 * kAnsStates + 2 * n; }

// Blocks do not know of each other: the more of them a call has, up to this many, the less it waits
// for one of them.
constexpr size_t kAnsTogether = 8;

// Block k of n symbols, symbols[k n, (k + 1) n), becomes coded[k], a part of `room`, which has
// MaxAnsBytes(n) bytes for each. REQUIRES symbols that have a frequency.
void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* room);
void EncodeAnsRef(const AnsTable& table, const uint8_t* symbols, size_t n,
                  std::span<std::span<const uint8_t>> coded, uint8_t* room);

// Back again; false, with symbols unspecified, if there is no row of n symbols with one of the
// blocks. Any bytes are safe. Blocks are parts of `row`, anywhere in it: all of it is readable.
bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);
bool DecodeAnsRef(const AnsTable& table, std::span<const uint8_t> row,
                  std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols);

}  // namespace tern::kernels

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

constexpr int kAnsBits = 12;         // log2 M
constexpr size_t kAnsSymbols = 256;  // a symbol is a byte
constexpr size_t kAnsStates = 8;

using AnsFrequencies = std::array<uint16_t, kAnsSymbols>;

// How often each symbol occurs.
std::array<uint64_t, kAnsSymbols> CountSymbols(const uint8_t* symbols, size_t n);

// Frequencies near counts, in sum M; each symbol that occurs has one slot at least, no other has
// any. REQUIRES a count above 0, and their sum below 2^52.
AnsFrequencies FrequenciesOf(const std::array<uint64_t, kAnsSymbols>& counts);

// The most bytes of a block of n symbols.
constexpr size_t MaxAnsBytes(size_t n) { return 4 * kAnsStates + 2 * n; }

// REQUIRES of both: frequencies that sum to M.
class AnsEncoder {
 public:
  explicit AnsEncoder(const AnsFrequencies& frequencies);
  // Fills the end of `room`, which has MaxAnsBytes(n) bytes at least, and returns that part of it.
  // REQUIRES symbols that have a frequency.
  std::span<const uint8_t> Encode(const uint8_t* symbols, size_t n, std::span<uint8_t> room) const;

 private:
  struct Symbol {
    uint64_t limit;       // 2^20 f
    uint64_t reciprocal;  // ceil(2^44 / f)
    uint32_t rest;        // M - f
    uint32_t begin;       // b
  };
  std::array<Symbol, kAnsSymbols> symbols_;
};

class AnsDecoder {
 public:
  explicit AnsDecoder(const AnsFrequencies& frequencies);
  // symbols[0, n) of a block; false, with symbols unspecified, if there is no row of n symbols with
  // this block. Any bytes are safe.
  bool Decode(std::span<const uint8_t> block, size_t n, uint8_t* symbols) const;

 private:
  struct Range {
    uint16_t frequency;
    uint16_t begin;
  };
  uint32_t Next(uint32_t x, uint8_t* symbol) const;

  std::array<uint8_t, size_t{1} << kAnsBits> symbol_of_slot_;
  std::array<Range, kAnsSymbols> ranges_;
};

}  // namespace tern::kernels

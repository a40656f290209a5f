#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "kernels/ans.h"

namespace tern::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they lie");

constexpr uint32_t kSlots = 1 << kAnsBits;
constexpr uint32_t kLow = 1 << 16;

uint32_t LoadWord(const uint8_t* bytes) {
  uint16_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

std::array<uint64_t, kAnsSymbols> CountSymbols(const uint8_t* symbols, size_t n) {
  // Four rows, so that equal neighbours need not wait for each other.
  std::array<std::array<uint64_t, kAnsSymbols>, 4> rows{};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t r = 0; r < 4; ++r) ++rows[r][symbols[i + r]];
  }
  for (; i < n; ++i) ++rows[0][symbols[i]];
  for (size_t s = 0; s < kAnsSymbols; ++s) rows[0][s] += rows[1][s] + rows[2][s] + rows[3][s];
  return rows[0];
}

AnsFrequencies FrequenciesOf(const std::array<uint64_t, kAnsSymbols>& counts) {
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  AnsFrequencies frequencies{};
  uint32_t sum = 0;
  for (size_t s = 0; s < kAnsSymbols; ++s) {
    if (counts[s] == 0) continue;
    const uint64_t rounded = (counts[s] * kSlots + total / 2) / total;
    frequencies[s] = static_cast<uint16_t>(std::max<uint64_t>(1, rounded));
    sum += frequencies[s];
  }
  // What rounding left over goes to the largest, what it took too much comes from the largest. That
  // one has more than a slot while there are too many, for there are fewer symbols than slots.
  for (; sum != kSlots; sum < kSlots ? ++sum : --sum) {
    uint16_t& largest = *std::max_element(frequencies.begin(), frequencies.end());
    largest = static_cast<uint16_t>(sum < kSlots ? largest + 1 : largest - 1);
  }
  return frequencies;
}

AnsEncoder::AnsEncoder(const AnsFrequencies& frequencies) {
  uint32_t begin = 0;
  for (size_t s = 0; s < kAnsSymbols; ++s) {
    const uint32_t f = frequencies[s];
    // 2^44 is enough: with r = f ceil(2^44 / f) - 2^44 < f and x < 2^20 f, x ceil(2^44 / f) =
    // 2^44 x / f + x r / f, where x r < 2^44: the floor is that of x / f; and x f r < 2^44 f leaves
    // the product below 2^64.
    const uint64_t reciprocal = f == 0 ? 0 : ((uint64_t{1} << 44) + f - 1) / f;
    symbols_[s] = {uint64_t{f} << 20, reciprocal, kSlots - f, begin};
    begin += f;
  }
}

std::span<const uint8_t> AnsEncoder::Encode(const uint8_t* symbols, size_t n,
                                            std::span<uint8_t> room) const {
  std::array<uint32_t, kAnsStates> states;
  states.fill(kLow);
  uint8_t* out = room.data() + room.size();
  const auto encode = [&](size_t i, uint32_t* state) {
    const Symbol& s = symbols_[symbols[i]];
    uint32_t x = *state;
    const auto word = static_cast<uint16_t>(x);
    std::memcpy(out - 2, &word, sizeof word);
    const bool full = x >= s.limit;
    out -= full ? 2 : 0;
    x = full ? x >> 16 : x;
    const auto quotient = static_cast<uint32_t>(x * s.reciprocal >> 44);
    *state = x + s.begin + quotient * s.rest;
  };
  size_t i = n;
  for (; i % kAnsStates != 0; --i) encode(i - 1, &states[(i - 1) % kAnsStates]);
  for (; i != 0; i -= kAnsStates) {
    for (size_t lane = kAnsStates; lane-- > 0;) encode(i - kAnsStates + lane, &states[lane]);
  }
  out -= sizeof states;
  std::memcpy(out, states.data(), sizeof states);
  return {out, room.data() + room.size()};
}

AnsDecoder::AnsDecoder(const AnsFrequencies& frequencies) {
  uint32_t begin = 0;
  for (size_t s = 0; s < kAnsSymbols; ++s) {
    const uint32_t f = frequencies[s];
    ranges_[s] = {static_cast<uint16_t>(f), static_cast<uint16_t>(begin)};
    std::fill_n(symbol_of_slot_.begin() + begin, f, static_cast<uint8_t>(s));
    begin += f;
  }
}

inline uint32_t AnsDecoder::Next(uint32_t x, uint8_t* symbol) const {
  const uint32_t slot = x % kSlots;
  *symbol = symbol_of_slot_[slot];
  const Range& range = ranges_[*symbol];
  return range.frequency * (x >> kAnsBits) + slot - range.begin;
}

bool AnsDecoder::Decode(std::span<const uint8_t> block, size_t n, uint8_t* symbols) const {
  std::array<uint32_t, kAnsStates> states;
  if (block.size() < sizeof states || block.size() % 2 != 0) return false;
  std::memcpy(states.data(), block.data(), sizeof states);
  for (uint32_t x : states) {
    if (x < kLow) return false;
  }
  const uint8_t* in = block.data() + sizeof states;
  const uint8_t* const end = block.data() + block.size();
  size_t i = 0;
  // While there are words for all: without branches, which nothing can predict.
  for (; n - i >= kAnsStates && end - in >= static_cast<ptrdiff_t>(2 * kAnsStates);
       i += kAnsStates) {
    for (size_t lane = 0; lane < kAnsStates; ++lane) {
      const uint32_t x = Next(states[lane], symbols + i + lane);
      const bool low = x < kLow;
      states[lane] = low ? x << 16 | LoadWord(in) : x;
      in += low ? 2 : 0;
    }
  }
  for (; i < n; ++i) {
    uint32_t& x = states[i % kAnsStates];
    x = Next(x, symbols + i);
    if (x >= kLow) continue;
    if (in == end) return false;
    x = x << 16 | LoadWord(in);
    in += 2;
  }
  return in == end &&
         std::all_of(states.begin(), states.end(), [](uint32_t x) { return x == kLow; });
}

}  // namespace tern::kernels

// The entropy coder of ans.h in scalar code.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "kernels/codes/ans.h"

namespace tern::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored in native byte order");

using SymbolOfSlot = std::array<uint8_t, kAnsSlots>;

std::span<const uint8_t> EncodeBlock(const AnsTable& table, const uint8_t* symbols, size_t n,
                                     std::span<uint8_t> buffer) {
  std::array<uint32_t, kAnsStates> states;
  states.fill(kAnsLowestState);
  uint8_t* out = buffer.data() + buffer.size();
  for (size_t i = n; i-- > 0;) {
    const uint32_t f = table.frequency[symbols[i]];
    uint32_t& x = states[i % kAnsStates];
    if (x >> 20 >= f) {
      const auto word = static_cast<uint16_t>(x);
      out -= sizeof word;
      std::memcpy(out, &word, sizeof word);
      x >>= 16;
    }
    x = (x / f << kAnsBits) + x % f + table.begin[symbols[i]];
  }
  out -= sizeof states;
  std::memcpy(out, states.data(), sizeof states);
  return {out, buffer.data() + buffer.size()};
}

bool DecodeBlock(const AnsTable& table, const SymbolOfSlot& symbol_of_slot,
                 std::span<const uint8_t> block, size_t n, uint8_t* symbols) {
  std::array<uint32_t, kAnsStates> states;
  if (block.size() < sizeof states || block.size() % 2 != 0) return false;
  std::memcpy(states.data(), block.data(), sizeof states);
  for (uint32_t x : states) {
    if (x < kAnsLowestState) return false;
  }
  size_t next_word_at = sizeof states;
  for (size_t i = 0; i < n; ++i) {
    uint32_t& x = states[i % kAnsStates];
    const uint32_t slot = x % kAnsSlots;
    const uint8_t s = symbols[i] = symbol_of_slot[slot];
    x = table.frequency[s] * (x >> kAnsBits) + slot - table.begin[s];
    if (x >= kAnsLowestState) continue;
    if (next_word_at == block.size()) return false;
    uint16_t word;
    std::memcpy(&word, block.data() + next_word_at, sizeof word);
    next_word_at += sizeof word;
    x = x << 16 | word;
  }
  return next_word_at == block.size() &&
         std::all_of(states.begin(), states.end(), [](uint32_t x) { return x == kAnsLowestState; });
}

}  // namespace

AnsCounts CountSymbolsRef(const uint8_t* symbols, size_t n) {
  // Four counters per symbol, so that an increment does not wait for the previous one of the same
  // symbol.
  std::array<AnsCounts, 4> counters{};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t r = 0; r < 4; ++r) ++counters[r][symbols[i + r]];
  }
  for (; i < n; ++i) ++counters[0][symbols[i]];
  for (size_t s = 0; s < kAnsSymbols; ++s)
    counters[0][s] += counters[1][s] + counters[2][s] + counters[3][s];
  return counters[0];
}

AnsFrequencies FrequenciesOf(const AnsCounts& counts) {
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  AnsFrequencies frequencies{};
  uint32_t sum = 0;
  for (size_t s = 0; s < kAnsSymbols; ++s) {
    if (counts[s] == 0) continue;
    const uint64_t rounded = (counts[s] * kAnsSlots + total / 2) / total;
    frequencies[s] = static_cast<uint16_t>(std::max<uint64_t>(1, rounded));
    sum += frequencies[s];
  }
  // Rounding may leave the sum above or below kAnsSlots. Each step changes the largest frequency by
  // 1. The largest frequency is at least 2 while the sum is above kAnsSlots, because there are
  // fewer symbols than slots.
  for (; sum != kAnsSlots; sum < kAnsSlots ? ++sum : --sum) {
    uint16_t& largest = *std::max_element(frequencies.begin(), frequencies.end());
    largest = static_cast<uint16_t>(sum < kAnsSlots ? largest + 1 : largest - 1);
  }
  return frequencies;
}

AnsTable::AnsTable(const AnsFrequencies& frequencies) : frequency(frequencies) {
  std::exclusive_scan(frequency.begin(), frequency.end(), begin.begin(), uint16_t{0});
  while (frequency[first_symbol] == 0) ++first_symbol;
  last_symbol = kAnsSymbols - 1;
  while (frequency[last_symbol] == 0) --last_symbol;
}

void EncodeAnsRef(const AnsTable& table, const uint8_t* symbols, size_t n,
                  std::span<std::span<const uint8_t>> coded, uint8_t* buffer) {
  for (auto& block : coded) {
    block = EncodeBlock(table, symbols, n, {buffer, MaxAnsBytes(n)});
    symbols += n;
    buffer += MaxAnsBytes(n);
  }
}

bool DecodeAnsRef(const AnsTable& table, std::span<const uint8_t>,
                  std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols) {
  SymbolOfSlot symbol_of_slot;
  for (size_t s = table.first_symbol; s <= table.last_symbol; ++s) {
    std::fill_n(symbol_of_slot.begin() + table.begin[s], table.frequency[s],
                static_cast<uint8_t>(s));
  }
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (!DecodeBlock(table, symbol_of_slot, blocks[k], n, symbols + k * n)) return false;
  }
  return true;
}

}  // namespace tern::kernels

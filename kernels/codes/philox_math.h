// The random number generator of philox.h, with the same arithmetic on CPU and GPU. A "draw" is a
// random number of 16 bits; a block of four words has eight of them.
#pragma once

#include <cstdint>

#include "kernels/codes/philox.h"
#include "kernels/device/host_device.h"

namespace tern::kernels {

// A block: the four 32-bit words of the generator's counter or of its output.
struct PhiloxWords {
  uint32_t w[4];
};

struct WideProduct {
  uint32_t low, high;
};

// Returns both halves of a * b. GPU compilers generate slower code for a 64-bit product.
TERN_HOST_DEVICE WideProduct MultiplyWide(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return {a * b, __umulhi(a, b)};
#else
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32)};
#endif
}

// One round of the generator.
TERN_HOST_DEVICE PhiloxWords PhiloxRound(const PhiloxWords& counter, uint32_t key0, uint32_t key1) {
  const WideProduct product0 = MultiplyWide(0xD2511F53, counter.w[0]);
  const WideProduct product1 = MultiplyWide(0xCD9E8D57, counter.w[2]);
  return {{product1.high ^ counter.w[1] ^ key0, product1.low, product0.high ^ counter.w[3] ^ key1,
           product0.low}};
}

// Philox4x32-10 (Salmon et al., SC 2011). The constants are those of the paper's table 2:
// multipliers, and the increments of the key per round.
constexpr uint32_t kPhiloxRounds = 10, kPhiloxIncrement0 = 0x9E3779B9,
                   kPhiloxIncrement1 = 0xBB67AE85;
TERN_HOST_DEVICE PhiloxWords PhiloxBlock(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
    counter = PhiloxRound(counter, key0, key1);
    key0 += kPhiloxIncrement0;
    key1 += kPhiloxIncrement1;
  }
  return counter;
}

// The keys of all rounds. As a parameter of a kernel they need neither additions nor registers.
struct PhiloxKeys {
  uint32_t w[kPhiloxRounds][2];
};
inline PhiloxKeys PhiloxKeysOf(uint64_t seed) {
  PhiloxKeys keys;
  for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
    keys.w[round][0] = static_cast<uint32_t>(seed) + round * kPhiloxIncrement0;
    keys.w[round][1] = static_cast<uint32_t>(seed >> 32) + round * kPhiloxIncrement1;
  }
  return keys;
}

// The counter of a block (philox.h).
TERN_HOST_DEVICE PhiloxWords CounterOf(const NoiseKey& key, uint32_t block, uint8_t level) {
  const uint32_t last_word =
      uint32_t{static_cast<uint8_t>(key.stream)} << 24 | uint32_t{level} << 16 | uint32_t{key.rank};
  return {{block, key.tensor, static_cast<uint32_t>(key.round), last_word}};
}

// The block with the draws of elements [8 * block, 8 * block + 8).
TERN_HOST_DEVICE PhiloxWords NoiseWords(const NoiseKey& key, uint32_t block, uint8_t level) {
  return PhiloxBlock(CounterOf(key, block, level), static_cast<uint32_t>(key.seed),
                     static_cast<uint32_t>(key.seed >> 32));
}

// Like NoiseWords with level 0, with the keys of all rounds: PhiloxKeysOf(key.seed).
TERN_HOST_DEVICE PhiloxWords NoiseWords(const NoiseKey& key, const PhiloxKeys& keys,
                                        uint32_t block) {
  PhiloxWords counter = CounterOf(key, block, 0);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (uint32_t round = 0; round < kPhiloxRounds; ++round)
    counter = PhiloxRound(counter, keys.w[round][0], keys.w[round][1]);
  return counter;
}

// The 16-bit draw at `position` (0 to 7) of a block. Selects the word with conditions instead of an
// index, so that a GPU keeps the words in registers.
TERN_HOST_DEVICE uint32_t DrawOf(const PhiloxWords& words, uint32_t position) {
  const uint32_t low = (position & 2) == 0 ? words.w[0] : words.w[1];
  const uint32_t high = (position & 2) == 0 ? words.w[2] : words.w[3];
  const uint32_t word = (position & 4) == 0 ? low : high;
  return position % 2 == 0 ? word & 0xFFFF : word >> 16;
}

// The draws of elements [element, element + 8), at positions 0 to 7 of the result.
TERN_HOST_DEVICE PhiloxWords NoiseOfEight(const NoiseKey& key, uint64_t element) {
  const auto block = static_cast<uint32_t>(element / 8);
  const PhiloxWords words = NoiseWords(key, block, 0);
  const auto shift = static_cast<uint32_t>(element % 8);
  if (shift == 0) return words;  // The most frequent case.
  const PhiloxWords next_words = NoiseWords(key, block + 1, 0);
  // Shifts the words by 4, 2 and 1 draws as needed. The indices are constants, so that a GPU keeps
  // the words in registers.
  uint32_t w[8] = {words.w[0],      words.w[1],      words.w[2],      words.w[3],
                   next_words.w[0], next_words.w[1], next_words.w[2], next_words.w[3]};
  for (int i = 0; i < 6; ++i) w[i] = (shift & 4) != 0 ? w[i + 2] : w[i];
  for (int i = 0; i < 5; ++i) w[i] = (shift & 2) != 0 ? w[i + 1] : w[i];
  for (int i = 0; i < 4; ++i) w[i] = (shift & 1) != 0 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  return {{w[0], w[1], w[2], w[3]}};
}

// The 16-bit draw of one element.
TERN_HOST_DEVICE uint32_t NoiseDraw(const NoiseKey& key, uint64_t element, uint8_t level) {
  const PhiloxWords words = NoiseWords(key, static_cast<uint32_t>(element / 8), level);
  return DrawOf(words, static_cast<uint32_t>(element % 8));
}

}  // namespace tern::kernels

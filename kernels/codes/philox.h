// Random numbers by the counter-based generator Philox4x32-10 (Salmon et al., SC 2011). Each number
// is a pure function of its seed, purpose (stream), rank, round, tensor and element, so that all
// devices get the same bits, whatever the threads or the order of calls.
//
// The inputs of the generator, which must not change, because codes depend on them:
//
//   key     = seed (low word, high word)
//   counter = { element / 8, tensor, low word of round, stream << 24 | level << 16 | rank }
//
// The generator returns a block of four 32-bit words, that is eight 16-bit random numbers
// ("draws"), for eight neighbouring elements. Draw16 of element e is the low half (e even) or the
// high half (e odd) of word (e % 8) / 2. Most decisions need only the draw of level 0. If its 16
// bits do not decide, the draw of level 1 gives 16 more bits:
//
//   draw32 = draw16(level 0) << 16 | draw16(level 1)
#pragma once

#include <array>
#include <cstdint>

namespace tern::kernels {

// What random numbers are used for.
enum class NoiseStream : uint8_t {
  kCodes = 1,         // the codes of a worker's gradients
  kServerCodes = 2,   // the codes of sums that a server encodes again
  kInit = 3,          // initial parameters (element is the index of the number; rank is 0)
  kOrder = 4,         // the order of the training data (round is the number of the epoch)
  kAugmentation = 5,  // augmentation of an image (keyed by the sample, not by its index in a batch)
  kDropout = 6,
  kRotation = 7,  // signs of elements (rotate.h, which has its own layout of the draws)
  kParts = 8,     // the parts of the model that rsgd averages (round is the step)
};

// The inputs of the generator, except element and level.
struct NoiseKey {
  uint64_t seed = 0;
  NoiseStream stream = NoiseStream::kCodes;
  uint16_t rank = 0;
  uint64_t round = 0;  // only the low 32 bits are used
  uint32_t tensor = 0;
};

// The generator: returns the block of four random words for a counter and a key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The four words with the 16-bit draws of elements [8 * block, 8 * block + 8).
std::array<uint32_t, 4> NoiseBlock(const NoiseKey& key, uint32_t block, uint8_t level);
// The 16-bit draw of one element at a level, and its 32-bit draw. Slower per element than
// NoiseBlock.
uint16_t Draw16(const NoiseKey& key, uint64_t element, uint8_t level);
uint32_t Draw32(const NoiseKey& key, uint64_t element);

}  // namespace tern::kernels

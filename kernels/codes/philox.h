// Noise as a pure function of (seed, what, where, when): Philox4x32-10 (Salmon et al., SC 2011).
// The same bits on every device, whatever the threads or the order of calls.
//
// Layout, a promise that codes depend on:
//
//   key     = seed (low word, high word)
//   counter = { element / 8, tensor, low word of round, stream << 24 | level << 16 | rank }
//
// A block is four 32-bit words, that is eight 16-bit draws. Element e of a tensor owns draw e % 8:
// the low half (e even) or the high half (e odd) of word (e % 8) / 2. If 16 bits do not decide, the
// draw at the same position at level 1 supplies 16 more:
//
//   draw32 = draw16(level 0) << 16 | draw16(level 1)
#pragma once

#include <array>
#include <cstdint>

namespace tern::kernels {

enum class NoiseStream : uint8_t {
  kCodes = 1,         // ternarize on a worker
  kServerCodes = 2,   // a server that encodes sums again
  kInit = 3,          // initial parameters (element = index of a draw, rank = 0)
  kOrder = 4,         // order of the data (round = epoch)
  kAugmentation = 5,  // of an image; keyed by the sample, not its place in a batch
  kDropout = 6,
};

struct NoiseKey {
  uint64_t seed = 0;
  NoiseStream stream = NoiseStream::kCodes;
  uint16_t rank = 0;
  uint64_t round = 0;  // only the low 32 bits are used
  uint32_t tensor = 0;
};

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The block that holds the draws of elements [8 * block, 8 * block + 8).
std::array<uint32_t, 4> NoiseBlock(const NoiseKey& key, uint32_t block, uint8_t level);
// The draws of one element, for reference implementations and for ties (16 bits that do not
// decide).
uint16_t Draw16(const NoiseKey& key, uint64_t element, uint8_t level);
uint32_t Draw32(const NoiseKey& key, uint64_t element);

}  // namespace tern::kernels

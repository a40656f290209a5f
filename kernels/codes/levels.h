// Codes of several levels with a norm that all workers share (the codec qsgd_shared): QSGD's law
// (Alistarh et al. 2017; common/codec/qsgd_levels.h) with the sign layout. A code of b bits is an
// integer in [-s, s], with s = 2^(b - 1) - 1. For an element g, a norm and a clip level:
//
//   x = s * min(|g|, clip, norm) / norm;  l = floor(x)
//   code = sign(g) * (l + 1) with probability x - l, else sign(g) * l;  0 if the norm is 0
//
// min / norm is a float, by IEEE division; x is computed in double. The event happens if draw32 <
// floor((x - l) * 2^32), where draw32 is a random number of 32 bits (philox.h). With b = 2 these
// are the codes of ternary.h.
//
// A code is stored as the planes of its bits in two's complement: plane p has bit p of each code,
// bit i % 8 of byte i / 8 for element i. Unused bits are zero. Functions named ...Ref give the same
// results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codes/philox.h"

namespace tern::kernels {

constexpr int kMinLevelBits = 2, kMaxLevelBits = 8;  // the bits of a code

// The largest code of `bits` bits, s.
constexpr int LargestLevel(int bits) { return (1 << (bits - 1)) - 1; }

// How elements become codes.
struct LevelScale {
  int bits = 2;
  float norm = 0, clip = 0;  // clip: infinity for none
};

// Encodes g[0, n), which are elements [first, first + n) of the tensor key.tensor. Writes
// scale.bits planes of PlaneBytes(n) bytes each (ternary.h), plane p from byte p * PlaneBytes(n) of
// `planes` on. REQUIRES finite elements, and a norm and a clip level that are not negative.
void EncodeLevels(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                  uint64_t first, uint8_t* planes);
void EncodeLevelsRef(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                     uint64_t first, uint8_t* planes);

// The code of one element.
int LevelOf(float g, const LevelScale& scale, const NoiseKey& key, uint64_t element);

}  // namespace tern::kernels

// What the scalar and the vectorized form of rotate.h have in common.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/codes/philox_math.h"
#include "kernels/codes/rotate.h"

namespace tern::kernels {

// How many elements have their signs in one Philox block.
constexpr uint64_t kSignsOfPhilox = 128;

// The key of the signs' random numbers.
TERN_HOST_DEVICE NoiseKey SignKey(const Rotation& rotation) {
  return {.seed = rotation.seed,
          .stream = NoiseStream::kRotation,
          .rank = 0,
          .round = 0,
          .tensor = rotation.tensor};
}

// Writes the signs of the elements [begin, begin + n) of the tensor: bit i % 32 of signs[i / 32] is
// 1 if the sign of element begin + i is -1. REQUIRES `begin` to be a multiple of n, and n a power
// of two.
inline void FillSigns(const Rotation& rotation, uint64_t begin, size_t n, uint32_t* signs) {
  const NoiseKey key = SignKey(rotation);
  const auto first = static_cast<uint32_t>(begin / kSignsOfPhilox);
  if (n < kSignsOfPhilox) {
    const PhiloxWords words = NoiseWords(key, first, 0);
    const uint64_t offset = begin % kSignsOfPhilox;
    for (size_t i = 0; i < n; i += 32)
      signs[i / 32] = words.w[(offset + i) / 32] >> (offset + i) % 32;
    return;
  }
  for (size_t i = 0; i < n / kSignsOfPhilox; ++i) {
    const PhiloxWords words = NoiseWords(key, first + static_cast<uint32_t>(i), 0);
    for (size_t word = 0; word < 4; ++word) signs[4 * i + word] = words.w[word];
  }
}

// The factor of a block of n elements.
inline float RotationFactor(size_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
}

// Calls use(offset, size) for the blocks of n elements, in order.
template <class Use>
void ForEachBlock(size_t n, uint64_t block, const Use& use) {
  for (size_t at = 0; at < n; at += block) {
    while (block > n - at) block /= 2;
    use(at, static_cast<size_t>(block));
  }
}

// Rotates one block of n elements, or rotates it back, with scalar code. `begin` is its first
// element in the tensor.
void RotateBlockRef(const float* x, uint64_t begin, size_t n, const Rotation& rotation, bool back,
                    float* y);

}  // namespace tern::kernels

// Loads and stores 32-bit numbers, little-endian, at any byte address of a code. For .cu files
// only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/half_math.h"

namespace tern::kernels {

// Loads four bytes from byte `at` on. Reads only aligned words that contain at least one of these
// bytes. REQUIRES `bytes` aligned to 4 bytes.
__device__ inline uint32_t LoadWord(const uint8_t* bytes, uint64_t at) {
  const auto* words = reinterpret_cast<const uint32_t*>(bytes) + at / 4;
  const auto shift = static_cast<uint32_t>(at % 4 * 8);
  return shift == 0 ? words[0] : words[0] >> shift | words[1] << (32 - shift);
}

__device__ inline float LoadFloat(const uint8_t* bytes, uint64_t at) {
  return FloatOf(LoadWord(bytes, at));
}

__device__ inline void StoreWord(uint32_t word, uint8_t* target) {
  if (reinterpret_cast<uintptr_t>(target) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(target) = word;
    return;
  }
  for (uint32_t i = 0; i < 4; ++i) target[i] = static_cast<uint8_t>(word >> 8 * i);
}

__device__ inline void StoreFloat(float value, uint8_t* target) {
  StoreWord(BitsOf(value), target);
}

}  // namespace tern::kernels

// The layout of blocks of sparse codes (common/codec/sparse.h), with the same arithmetic on CPU and
// GPU.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.h"

namespace tern::kernels {

constexpr uint32_t kSparseBlock = 4096;    // elements per block
constexpr uint32_t kSparseEntryBytes = 2;  // bytes of a block's entry in the directory

// How the positions of k out of `length` elements are coded.
struct SparseForm {
  bool is_bitmap = false;  // true: one bit per element; false: Elias-Fano coding
  uint32_t low_bits = 0;   // Elias-Fano: how many low bits of each position are stored unchanged
  uint32_t bits = 0, bytes = 0;  // the size of the coded positions
};

// Chooses the shorter of the two formats. REQUIRES 0 < k <= length <= kSparseBlock.
TERN_HOST_DEVICE SparseForm SparseFormOf(uint32_t k, uint32_t length) {
  uint32_t low_bits = 0;
  while (length / k >> (low_bits + 1) != 0) ++low_bits;
  const uint32_t bits = k * low_bits + k + ((length - 1) >> low_bits);
  if ((length + 7) / 8 <= (bits + 7) / 8) return {true, 0, length, (length + 7) / 8};
  return {false, low_bits, bits, (bits + 7) / 8};
}

// Whether a block of `length` floats, k of them not zero, is written in full, without positions.
TERN_HOST_DEVICE bool IsDenseBlock(uint32_t k, uint32_t length) {
  return k != 0 && 4 * length <= 4 * k + SparseFormOf(k, length).bytes;
}

// The bytes, besides the directory entry, of a block of `length` floats whose directory entry is k.
TERN_HOST_DEVICE uint32_t SparseBodySize(uint32_t k, uint32_t length) {
  if (k == 0) return 0;
  return 4 * k + (k == length ? 0 : SparseFormOf(k, length).bytes);
}

}  // namespace tern::kernels

// Stores to a range of bytes that begins and ends anywhere, a word at a time where possible. For
// .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tern::kernels {

// A range of up to four bytes of an array of bytes, `row`: bytes [begin, end), which lie in one
// aligned 32-bit word.
struct WordPiece {
  uint8_t* row;
  uint32_t begin, end;  // byte offsets in the row
  __device__ bool HasBytes() const { return begin < end; }
  // Writes the low bytes of `bytes` to the range.
  __device__ void Store(uint32_t bytes) const {
    if (end - begin == 4) {
      *reinterpret_cast<uint32_t*>(row + begin) = bytes;
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
      if (begin + i < end) row[begin + i] = static_cast<uint8_t>(bytes >> 8 * i);
    }
  }
};

// Returns those bytes of [begin, end) of `row` that lie in aligned word number `word`, counted from
// the word with byte `begin`.
__device__ inline WordPiece PieceOf(uint8_t* row, uint32_t begin, uint32_t end, uint32_t word) {
  const auto offset_in_word = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row + begin) % 4);
  const uint32_t unaligned_begin = begin + 4 * word;
  return {row, word == 0 ? begin : unaligned_begin - offset_in_word,
          unaligned_begin + 4 - offset_in_word < end ? unaligned_begin + 4 - offset_in_word : end};
}

}  // namespace tern::kernels

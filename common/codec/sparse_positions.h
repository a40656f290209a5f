// The positions of the elements that a block of a sparse code sends: a bitmap, or Elias-Fano coding
// (Elias 1974), as sparse.h describes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/sparse.h"
#include "kernels/codes/sparse_math.h"

namespace tern::codec {

// The positions of a block, in ascending order, with the room that kernels::ListOnes needs.
using SparsePositions = std::array<uint16_t, kernels::kSparseBlock + kernels::kListRoom>;

// Writes the ascending positions of a block of `length` elements to `row`. `is_sent` has the same
// positions as a bitmap. REQUIRES that all bits of the row are zero.
void PutPositions(std::span<const uint16_t> positions, std::span<const uint8_t> is_sent,
                  size_t length, std::span<uint8_t> row);

// Reads positions[0, k) of a block of `length` elements from a row of SparseFormOf(k, length).bytes
// bytes. Returns false if the row is invalid. REQUIRES 0 < k <= length.
bool GetPositions(std::span<const uint8_t> row, size_t k, size_t length,
                  SparsePositions* positions);

}  // namespace tern::codec

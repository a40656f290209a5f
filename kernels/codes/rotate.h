// The randomized Hadamard transform (Ailon and Chazelle 2009; Suresh et al. 2017), a rotation of a
// tensor, block by block. For a block x of n elements, n a power of two:
//
//   rotated:       y = H D x / sqrt(n)
//   rotated back:  x = D H y / sqrt(n)
//
// H is the Walsh-Hadamard matrix: element (i, j) is -1 if the number of bits that both i and j have
// is odd, else +1. D is diagonal and has random signs. A rotation keeps the norm of a block. The
// elements of y are sums of many elements of x with random signs, so that they are close to
// Gaussian, whatever the elements of x are.
//
// A tensor is cut into blocks of Rotation::block elements. What is left at its end is cut into
// blocks of the largest power of two that fits, again and again: 100 elements are blocks of 64, 32
// and 4.
//
// The sign of element e of a tensor is -1 if bit e % 32 of word (e % 128) / 32 of the Philox block
// e / 128 is 1 (philox.h; stream kRotation, rank and round 0). All workers therefore have the same
// rotation, and the sum of what they rotated, rotated back, is the sum of their gradients.
//
// The order of operations is fixed, so that every device gives the same bits. First each element is
// multiplied by its sign (only when rotating) and by the float next to 1 / sqrt(n). Then H is
// applied in log2(n) stages: with distances d = 1, 2, 4, ..., n / 2, the elements i and i + d with
// i & d = 0 become their sum and their difference. At last each element is multiplied by its sign
// (only when rotating back).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

// The sizes of blocks that Rotation::block may have.
constexpr uint64_t kMinRotation = 64, kMaxRotation = 65536;
constexpr bool IsRotationBlock(uint64_t block) {
  return block >= kMinRotation && block <= kMaxRotation && (block & (block - 1)) == 0;
}

struct Rotation {
  uint64_t seed = 0;    // the job's random seed
  uint32_t tensor = 0;  // the index of the tensor
  uint64_t block = 0;   // elements of a block
};

// Sets y[0, n) to the rotated elements [begin, begin + n) of a tensor, which are in x[0, n). y may
// be x; else they do not overlap. REQUIRES IsRotationBlock(block), a multiple of block as `begin`,
// and a multiple of block or the tensor's end as begin + n. If an element of a block is not finite,
// neither are all elements of the rotated block. RotateRef gives the same bits with scalar code.
void Rotate(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y);
void RotateRef(const float* x, uint64_t begin, size_t n, const Rotation& rotation, float* y);

// Sets x[0, n) to the elements [begin, begin + n) of a tensor, rotated back from y[0, n). x may be
// y. REQUIRES what Rotate does. RotateBackRef gives the same bits with scalar code.
void RotateBack(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x);
void RotateBackRef(const float* y, uint64_t begin, size_t n, const Rotation& rotation, float* x);

// The same on a GPU, for all parts of `tiling`, which begin and end where Rotate requires it; of
// `rotation`, tensor is not used. RotateOnDevice writes what is in the arena `from` to the arena
// `to`, which may be the same; RotateBackOnDevice works in place, and adds the number of results
// that are not finite to *bad_results. One launch; two if a block is larger than a tile.
[[nodiscard]] int RotateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const Rotation& rotation, const float* from, float* to);
[[nodiscard]] int RotateBackOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const Rotation& rotation, float* arena, uint32_t* bad_results);

}  // namespace tern::kernels

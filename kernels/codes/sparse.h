// Sparse codes with float values on a GPU, and their search for elements to send on a CPU. On a GPU
// the functions write and read the same bytes as common/codec/sparse.h, which defines them: for
// each block of 4096 elements a directory entry, and
// a body, which has the positions and values of the elements that are sent.
//
// A part is a run of elements of one tensor in an arena (one array with all tensors) that has a
// code of its own; a tile is a range of at most 4096 elements of a part; a chunk is neighbouring
// parts whose codes are sent together (kernels/device/tiling.h). Buffers of codes begin at a
// multiple of 4 bytes, and their length is rounded up to a multiple of 4 bytes, because the kernels
// read and write whole 32-bit words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

// The functions of this file that end in Ref give the same results with scalar code.

// Writes a row of n bits to `bits`, (n + 7) / 8 bytes: bit i is 1 if x[i] is not 0 and its
// magnitude is at least `threshold`. Unused bits are zero.
void PackAtLeast(const float* x, size_t n, float threshold, uint8_t* bits);
void PackAtLeastRef(const float* x, size_t n, float threshold, uint8_t* bits);
// Returns how many of x[0, n) have at least the magnitude `threshold`.
size_t CountAtLeast(const float* x, size_t n, float threshold);
size_t CountAtLeastRef(const float* x, size_t n, float threshold);

// ListOnes and CollectAtLeast may write so many numbers more than they return.
constexpr size_t kListRoom = 16;
// Writes those of x[0, n) that have at least the magnitude `threshold` to `out`, in order, and
// returns their number. `out` has room for kListRoom numbers more.
size_t CollectAtLeast(const float* x, size_t n, float threshold, float* out);
size_t CollectAtLeastRef(const float* x, size_t n, float threshold, float* out);
// Writes the positions of the ones among bits [begin, end) of a row, relative to `begin`, to
// `positions`, in ascending order, and returns their number. `positions` has room for kListRoom
// numbers more. REQUIRES end - begin <= 2^16.
size_t ListOnes(const uint8_t* row, size_t begin, size_t end, uint16_t* positions);
size_t ListOnesRef(const uint8_t* row, size_t begin, size_t end, uint16_t* positions);

// The arenas of a codec's memory: what was not sent yet, and its momentum, with the same indices as
// the arena that is encoded. Elements that are sent become 0 in both arenas, which is what
// DgcMemory::Update and ErrorFeedback::Update (common/codec) do for codes that send floats. Either
// may be null; without momentum masking, `momentum` is null.
struct SparseMemory {
  float* accumulated = nullptr;
  float* momentum = nullptr;
};

// Device memory for intermediate results. `num_finished` counts finished work: it must be zero
// before a call, and is zero after it. The other arrays need not be initialized.
struct SparseWorkspace {
  uint32_t* masks = nullptr;     // kTile / 32 words per tile: one bit per element, 1 if it is sent
  uint32_t* num_sent = nullptr;  // one per tile: how many elements are sent
  uint64_t* bodies = nullptr;    // one per tile: byte offset of its body in `out`
  uint32_t* num_finished = nullptr;  // one counter per chunk
};

// Encodes the elements of each part p that are not 0 and whose magnitude is at least thresholds[p].
// The codes of the parts of a chunk follow each other without gaps; the code of chunk c begins at
// chunks[c].code_begin of the tiling and has sizes[c] bytes. REQUIRES finite values. Two launches.
[[nodiscard]] int SparseOnDevice(DeviceStream stream, const float* arena,
                                 const DeviceTiling& tiling, const float* thresholds,
                                 const SparseMemory& memory, const SparseWorkspace& workspace,
                                 uint8_t* out, uint64_t* sizes);

// Decodes the codes of gradients, or of sums, into the parts of the arena. `bodies` is memory for
// intermediate results, one number per tile. Increments *invalid_count at least once for each code
// that the codec refuses; the values of such a part are unspecified. Two launches.
[[nodiscard]] int ReadSparseOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const CodeRange* ranges,
                                     uint64_t* bodies, float* arena, uint32_t* invalid_count);

}  // namespace tern::kernels

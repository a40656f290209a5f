// The codec 1bitSGD (Seide et al. 2014): groups of elements on a CPU, and whole codes on a GPU.
//
// On a GPU the functions write and read the same bytes as common/codec/onebit.cc, which defines
// them. A part is a run of elements of one tensor in an arena (one array with all tensors) that has
// a code of its own; a tile is a range of at most 4096 elements of a part
// (kernels/device/tiling.h). A group is a run of elements of a part that have common means: the
// weights of one output of a layer, or a bucket of fixed size. The code of a part has OneBitSize
// bytes (onebit_math.h). Buffers of codes begin at a multiple of 4 bytes, and their length is
// rounded up to a multiple of 4 bytes, because the kernels read and write whole 32-bit words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

struct OneBitSums {
  double lower, upper;     // the sum of the negative elements, and the sum of the others
  uint64_t num_negatives;  // the number of negative elements
};

// Returns the sums of a group v[0, n). Each of the two sums runs over all of v, with 0 in place of
// the elements that it leaves out. Each block of 4096 elements is added in the order that stats.h
// defines, and the sums of the blocks are added one after the other. Functions named ...Ref give
// the same results with scalar code.
OneBitSums SumOneBit(const float* v, size_t n);
OneBitSums SumOneBitRef(const float* v, size_t n);

// Writes a row of n bits to `signs`, PlaneBytes(n) bytes (ternary.h): bit i is 1 if v[i] is
// negative. Unused bits are zero.
void PackOneBitSigns(const float* v, size_t n, uint8_t* signs);
void PackOneBitSignsRef(const float* v, size_t n, uint8_t* signs);

// A range of bits of a row: `count` bits from bit `first` on. REQUIRES that they lie in the row's
// `size` bytes.
struct OneBitSigns {
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  uint64_t first = 0, count = 0;
};

// Returns how many of the bits are 1.
uint64_t CountOneBitSigns(const OneBitSigns& signs);
uint64_t CountOneBitSignsRef(const OneBitSigns& signs);

// Sets values[i] to `lower` if bit i of the range is 1, else to `upper`.
void ExpandOneBitSigns(const OneBitSigns& signs, float lower, float upper, float* values);
void ExpandOneBitSignsRef(const OneBitSigns& signs, float lower, float upper, float* values);

// Device memory for intermediate results. `num_finished` counts finished work: it must be zero
// before a call, and is zero after it. The other arrays need not be initialized.
struct OneBitWorkspace {
  OneBitSums* partial_sums = nullptr;  // two per tile: sums of the pieces of groups in the tile
  uint32_t* num_finished = nullptr;    // one counter per tile
  float* means = nullptr;              // two per group: of the negative elements, and of the others
};

// Encodes v, which is g if `residual` is null, and else g + residual. The residual becomes v minus
// the decoded code. grouped_parts[p] are the groups of part p; its code is written to ranges[p] of
// `out`. Adds to *invalid_count the number of groups with a mean that is not finite; the codes of
// such groups are unspecified. Two launches.
[[nodiscard]] int OneBitOnDevice(DeviceStream stream, const float* g, float* residual,
                                 const DeviceTiling& tiling, const GroupedPart* grouped_parts,
                                 const CodeRange* ranges, const OneBitWorkspace& workspace,
                                 uint8_t* out, uint32_t* invalid_count);

// Decodes the codes of gradients, or of sums, into the parts of the arena. Increments
// *invalid_count at least once for each code that the codec refuses; the values of such a part are
// unspecified. One launch.
[[nodiscard]] int ReadOneBitOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const GroupedPart* grouped_parts,
                                     const CodeRange* ranges, float* arena,
                                     uint32_t* invalid_count);

}  // namespace tern::kernels

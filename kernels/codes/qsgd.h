// The codec QSGD (Alistarh et al. 2017): the levels of a bucket (a run of neighbouring elements
// with one norm) on a CPU, and whole codes on a GPU.
//
// On a GPU the functions write and read the same bytes as common/codec/qsgd_form.h, which defines
// them: for each bucket a norm and, if the rule gives no fixed width (bits per element), a width;
// then a level per element. A part is a run of elements of one tensor in an arena (one array with
// all tensors) that has a code of its own; a tile is a range of at most 4096 elements of a part; a
// chunk is neighbouring parts whose codes are sent together (kernels/device/tiling.h). The groups
// of tiling.h are the buckets here. All buckets have the same size, or each part is one bucket.
// Buffers of codes begin at a multiple of 4 bytes, and their length is rounded up to a multiple of
// 4 bytes, because the kernels read and write whole 32-bit words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codes/philox.h"
#include "kernels/codes/qsgd_math.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// Sets codes[i], for i < n, to the code of v[i]: a sign and a level, or the number of an end of an
// interval (common/codec/qsgd_levels.h). v[i] is a finite value of the bucket and element first + i
// of the tensor key.tensor, which gives its 32 random bits (philox.h). Functions named ...Ref give
// the same results with scalar code.
void EncodeQsgd(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                const NoiseKey& key, uint64_t first, uint32_t* codes);
void EncodeQsgdRef(const float* v, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                   const NoiseKey& key, uint64_t first, uint32_t* codes);

// Sets values[i], for i < n, to the value of codes[i], a number of bucket.width bits. Returns false
// if a code is invalid; the values are then unspecified.
bool DecodeQsgd(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                float* values);
bool DecodeQsgdRef(const uint32_t* codes, size_t n, bool uses_intervals, const QsgdBucket& bucket,
                   float* values);

// What the norm of a bucket is computed from.
struct QsgdSums {
  double squares;    // the sum of the squares of the elements
  uint32_t largest;  // the largest magnitude, as the bits of a float
  uint32_t unused;   // makes the size a multiple of 8 bytes without padding
};

// Device memory for intermediate results. `num_finished` and `num_finished_of_chunk` count finished
// work: they must be zero before a call, and are zero after it. The other arrays need not be
// initialized.
struct QsgdWorkspace {
  QsgdSums* partial_sums = nullptr;  // two per tile: the sums of the pieces of buckets in the tile
  uint32_t* num_finished = nullptr;  // one counter per tile
  float* norms = nullptr;            // one per bucket
  // Only used if buckets differ in width:
  uint8_t* widths = nullptr;         // one per bucket
  uint64_t* bit_offsets = nullptr;   // one per bucket: of its levels among the part's levels
  uint64_t* byte_offsets = nullptr;  // one per part: of its levels in `out`
  uint32_t* num_finished_of_chunk = nullptr;  // one counter per chunk
};

// The settings of QsgdOnDevice.
struct QsgdCoding {
  QsgdRule rule;
  uint64_t bucket_size = 512;                  // elements per bucket; 0: each part is one bucket
  const GroupedPart* grouped_parts = nullptr;  // one per part: its buckets
  // One per part: where in `out` its code of QsgdMaxSize bytes is written. Used only if all buckets
  // have the same width, because other codes differ in size.
  const CodeRange* ranges = nullptr;
  NoiseKey key;  // The key of the random numbers. Each part's tensor replaces key.tensor.
};

// Encodes all parts. If buckets differ in width, the codes of the parts of a chunk follow each
// other without gaps, and the code of chunk c has sizes[c] bytes. `out` has out_bytes bytes, enough
// for all codes. Adds to *invalid_count the number of buckets with a value that is not finite;
// their codes are unspecified. One launch if tiles consist of whole buckets of the same width, else
// two.
[[nodiscard]] int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                               const QsgdCoding& coding, const QsgdWorkspace& workspace,
                               uint8_t* out, uint64_t out_bytes, uint64_t* sizes,
                               uint32_t* invalid_count);

// Decodes the codes of gradients, or of sums, into the parts of the arena. `bit_offsets` is memory
// for intermediate results, one number per bucket; it is used only if buckets differ in width.
// Increments *invalid_count at least once for each code that the codec refuses; the values of such
// a part are unspecified. One launch, or two if buckets differ in width.
[[nodiscard]] int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                   const uint8_t* codes, const QsgdRule& rule,
                                   const GroupedPart* grouped_parts, const CodeRange* ranges,
                                   uint64_t* bit_offsets, float* arena, uint32_t* invalid_count);

}  // namespace tern::kernels

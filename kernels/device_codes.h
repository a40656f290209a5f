// GPU kernels of the codecs other than ternary: the same bytes and floats as in common/codec, whose
// headers define them. As in device.h: many tensors at once, arrays in device memory, launches
// ordered on their stream; functions return a cudaError_t.
//
// Rows of codes begin at a multiple of 4 bytes and have room up to the next one: whole words of
// them are read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/dgc_inl.h"
#include "kernels/qsgd_inl.h"

namespace tern::kernels {

// Where a part's code is.
struct CodePlace {
  uint64_t begin = 0, size = 0;  // bytes
};

// Lays out the chunks of a tiling for codes other than ternary: sets chunks[c].out and out_bytes,
// where size(p) is the most bytes that part p takes. Returns the place of each part's code for
// parts that all take their maximum.
std::vector<CodePlace> PlaceCodes(const std::function<uint64_t(size_t part)>& size, Tiling* tiling);

// Grouping of a part: consecutive runs of `size` elements from its first element on; the last group
// may be shorter.
struct GroupedPart {
  uint64_t size = 1;         // at least 1
  uint64_t first_group = 0;  // index of its first group among those of all parts
};
// Groups part p by sizes[p]. *all: the number of groups of all parts.
std::vector<GroupedPart> GroupParts(const Tiling& tiling, std::span<const uint64_t> sizes,
                                    uint64_t* all);

// --- 1bitSGD (onebit_inl.h). A group is a column or a bucket; a part's code has OneBitSize bytes.

struct OneBitSums {
  double lower, upper;  // of negatives, of others
  uint64_t negatives;
};

// Workspace. Uninitialized, except `done`: zeroed counters, reset on return.
struct OneBitRoom {
  OneBitSums* partial = nullptr;  // two per tile
  uint32_t* done = nullptr;       // per tile
  float* means = nullptr;         // two per group: of negatives, of others
};

// Encodes v, which is g or, with a residual, fl(g + residual). The residual becomes
// fl(v - decoded(code)) (error_feedback.h). Increments *bad per group with a non-finite value; the
// codes of those groups are unspecified. Two launches.
[[nodiscard]] int OneBitOnDevice(DeviceStream stream, const float* g, float* residual,
                                 const DeviceTiling& tiling, const GroupedPart* groups,
                                 const CodePlace* places, const OneBitRoom& room, uint8_t* out,
                                 uint32_t* bad);

// Decodes codes, or sums that were coded anew, into their parts of the arena. Increments *bad per
// code that Codec::Decode refuses; the values of those parts are unspecified. One launch.
[[nodiscard]] int ReadOneBitOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const GroupedPart* groups,
                                     const CodePlace* places, float* arena, uint32_t* bad);

// --- QSGD (qsgd_form.h). A group is a bucket: all have the same size, or each part is one.

struct QsgdSums {
  double squares;
  uint32_t largest;  // bits of the largest magnitude
  uint32_t unused;
};

// Workspace. Uninitialized, except `done` and `chunk_done`: zeroed counters, reset on return.
struct QsgdRoom {
  QsgdSums* partial = nullptr;  // two per tile
  uint32_t* done = nullptr;     // per tile
  float* norms = nullptr;       // per bucket
  // For a rule whose buckets differ in width:
  uint8_t* widths = nullptr;       // per bucket
  uint64_t* bits = nullptr;        // per bucket: the bit at which its levels begin in the part's
  uint64_t* levels = nullptr;      // per part: the byte of `out` at which its levels begin
  uint32_t* chunk_done = nullptr;  // per chunk
};

// Which codes to write, where, and with which noise.
struct QsgdCoding {
  QsgdRule rule;
  uint64_t bucket = 512;  // elements; 0: the whole part
  const GroupedPart* groups = nullptr;
  // Sized by QsgdMaxSize. Used only if all buckets have one width: then every code has that size.
  const CodePlace* places = nullptr;
  NoiseKey key;  // key.tensor is ignored: each part's own is used
};

// Encodes all parts as QsgdForm::Append does. Where buckets differ in width, a part's code follows
// the one before it in its chunk, and chunk c takes sizes[c] bytes; out[0, out_bytes) has room for
// all. Increments *bad per bucket with a non-finite value; the codes of those buckets are
// unspecified. One launch where tiles hold whole buckets of one width, else two.
[[nodiscard]] int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                               const QsgdCoding& coding, const QsgdRoom& room, uint8_t* out,
                               uint64_t out_bytes, uint64_t* sizes, uint32_t* bad);

// Decodes codes, or sums that were coded anew, into their parts of the arena. `bits`: workspace,
// one word per bucket, for a rule whose buckets differ in width. Increments *bad for codes that
// Codec::Decode refuses; the values of those parts are unspecified. One launch, or two where widths
// differ.
[[nodiscard]] int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                   const uint8_t* codes, const QsgdRule& rule,
                                   const GroupedPart* groups, const CodePlace* places,
                                   uint64_t* bits, float* arena, uint32_t* bad);

// --- Deep gradient compression (dgc_memory.h, topk.cc). The host samples and chooses thresholds,
// with the counts that these kernels return.

// Memory::Compensate: adds g to U (null where m is 0) and V. V is what is coded then. Parts are
// whole tensors; stats[p] is of g of part p, null without clipping. One launch.
[[nodiscard]] int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                                   const DgcStep& step, const DeviceStats* stats, float* u,
                                   float* v);

// counts[p] = how many elements of part p have a magnitude of at least thresholds[p]; 0 where the
// threshold is negative or NaN. `partial`: one per tile. `done`: one zeroed counter per part, reset
// on return. One launch.
[[nodiscard]] int CountFromOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const float* thresholds,
                                    uint32_t* partial, uint32_t* done, uint32_t* counts);

// Workspace of a selection. `histograms` and `done` are zeroed counters, reset on return.
constexpr uint32_t kSelectRows = 2048;
struct SelectRoom {
  uint32_t* histograms = nullptr;  // kSelectRows per part
  uint32_t* done = nullptr;        // per part
  uint32_t* upper = nullptr;       // per part
  uint32_t* left = nullptr;        // per part
};

// kth[p] = KthMagnitude (select.h) of part p for k = ks[p]; unchanged where ks[p] is 0. Element i
// of a part is arena[begin + i * strides[p]], so parts may be samples. REQUIRES ks[p] at most the
// part's count. Three launches.
[[nodiscard]] int KthMagnitudeOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, const uint64_t* strides,
                                       const uint32_t* ks, const SelectRoom& room, float* kth);

// --- Sparse codes (sparse.h), with float values.

// What a memory holds back, in arenas parallel to the coded one. Sent elements become 0 in both
// arrays: the Keep of dgc_memory.h, and of error_feedback.h for codes that send floats. Each may be
// null; without masking, the momentum is null.
struct SparseMemory {
  float* accumulated = nullptr;
  float* momentum = nullptr;
};

// Workspace. Uninitialized, except `done`: zeroed counters, reset on return.
struct SparseRoom {
  uint32_t* masks = nullptr;   // kTile / 32 per tile
  uint32_t* sent = nullptr;    // per tile
  uint64_t* bodies = nullptr;  // per tile: the byte of `out` at which its body begins
  uint32_t* done = nullptr;    // per chunk
};

// Encodes the elements whose magnitude is at least thresholds[p], as AppendFrom does, each part's
// code after the one before it in its chunk; chunk c takes sizes[c] bytes. REQUIRES finite values.
// Two launches.
[[nodiscard]] int SparseOnDevice(DeviceStream stream, const float* arena,
                                 const DeviceTiling& tiling, const float* thresholds,
                                 const SparseMemory& memory, const SparseRoom& room, uint8_t* out,
                                 uint64_t* sizes);

// Decodes codes, or sums, into their parts of the arena. `bodies`: workspace, one word per tile.
// Increments *bad for codes that Codec::Decode refuses; the values of those parts are unspecified.
// Two launches.
[[nodiscard]] int ReadSparseOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const CodePlace* places,
                                     uint64_t* bodies, float* arena, uint32_t* bad);

}  // namespace tern::kernels

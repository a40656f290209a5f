// Codes other than ternary's on a GPU: bytes and floats as those of common/codec, whose codecs say
// what they mean. As in device.h: many tensors at once, arrays in device memory, launches in order
// on their stream; what is returned is a cudaError_t.
//
// Rows of codes begin at a multiple of 4 and have room to one: whole words of them are read and
// written.
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

// Gives the chunks of a tiling room for other codes than ternary's, of which a part has size(p)
// bytes or fewer: chunks[c].out and out_bytes. Returns where each part's is if none has fewer.
std::vector<CodePlace> PlaceCodes(const std::function<uint64_t(size_t part)>& size, Tiling* tiling);

// What of a part is coded together: so many neighbours from its first element on (the last group
// has what is left).
struct GroupedPart {
  uint64_t size = 1;         // at least 1
  uint64_t first_group = 0;  // where its groups are among those of all parts
};
// With these sizes; *all: the groups of all parts.
std::vector<GroupedPart> GroupParts(const Tiling& tiling, std::span<const uint64_t> sizes,
                                    uint64_t* all);

// --- 1bitSGD (onebit_inl.h). A group is a column or a bucket; a part's code has OneBitSize bytes.

struct OneBitSums {
  double lower, upper;  // of negatives, of others
  uint64_t negatives;
};

// Room that it needs; all of it may be anything but `done`, zeros that are zeros again after it.
struct OneBitRoom {
  OneBitSums* partial = nullptr;  // two a tile
  uint32_t* done = nullptr;       // a tile
  float* means = nullptr;         // two a group: of negatives, of others
};

// The codes of v, which is g, or, where there is a residual, fl(g + residual): the residual is then
// fl(v - what the code makes of it) (error_feedback.h). `bad` goes up for groups with a value that
// is not finite: what their code is means nothing. Two launches.
[[nodiscard]] int OneBitOnDevice(DeviceStream stream, const float* g, float* residual,
                                 const DeviceTiling& tiling, const GroupedPart* groups,
                                 const CodePlace* places, const OneBitRoom& room, uint8_t* out,
                                 uint32_t* bad);

// The values of codes, or of sums that were coded anew, to their parts of the arena. `bad` goes up
// for codes that Codec::Decode refuses: what becomes of their parts means nothing. One launch.
[[nodiscard]] int ReadOneBitOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const GroupedPart* groups,
                                     const CodePlace* places, float* arena, uint32_t* bad);

// --- QSGD (qsgd_form.h). A group is a bucket: all have the same size, or each part is one.

struct QsgdSums {
  double squares;
  uint32_t largest;  // bits of the largest magnitude
  uint32_t unused;
};

// Room that it needs; all of it may be anything but `done` and `chunk_done`, zeros that are zeros
// again after it.
struct QsgdRoom {
  QsgdSums* partial = nullptr;  // two a tile
  uint32_t* done = nullptr;     // a tile
  float* norms = nullptr;       // a bucket
  // For a rule whose buckets differ in width:
  uint8_t* widths = nullptr;       // a bucket
  uint64_t* bits = nullptr;        // a bucket: at which of the levels' bits its own begin
  uint64_t* levels = nullptr;      // a part: at which byte of `out` its levels begin
  uint32_t* chunk_done = nullptr;  // a chunk
};

// Which codes, where they go, and what is drawn for them.
struct QsgdCoding {
  QsgdRule rule;
  uint64_t bucket = 512;  // elements; 0: a part
  const GroupedPart* groups = nullptr;
  // Of QsgdMaxSize; read where all buckets have one width, for then no code has fewer bytes.
  const CodePlace* places = nullptr;
  NoiseKey key;  // its tensor is that of each part
};

// The codes of all parts, as QsgdForm::Append writes them. Where buckets differ in width, a part's
// follows the one before it in its chunk, and chunk c has sizes[c] bytes; out[0, out_bytes) is room
// for all. `bad` goes up for buckets with a value that is not finite: what their code is means
// nothing. One launch where tiles hold whole buckets of one width, else two.
[[nodiscard]] int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                               const QsgdCoding& coding, const QsgdRoom& room, uint8_t* out,
                               uint64_t out_bytes, uint64_t* sizes, uint32_t* bad);

// The values of codes, or of sums that were coded anew, to their parts of the arena. `bits`: a word
// a bucket for a rule whose buckets differ in width. `bad` goes up for codes that Codec::Decode
// refuses: what becomes of their parts means nothing. One launch, or two where widths differ.
[[nodiscard]] int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                   const uint8_t* codes, const QsgdRule& rule,
                                   const GroupedPart* groups, const CodePlace* places,
                                   uint64_t* bits, float* arena, uint32_t* bad);

// --- Deep gradient compression (dgc_memory.h, topk.cc). Sampling and the choice of a threshold are
// the host's, by what these count.

// Compensate: g to U (null where m is 0) and V, of which all is to be coded. Parts are whole
// tensors, of whose g are `stats`; null where g is not clipped. One launch.
[[nodiscard]] int AddToDgcOnDevice(DeviceStream stream, const float* g, const DeviceTiling& tiling,
                                   const DgcStep& step, const DeviceStats* stats, float* u,
                                   float* v);

// counts[p] = how many of part p have the magnitude thresholds[p] or more; 0 where it is below 0 or
// no number. `partial`: room for one a tile. `done`: a zero a part, and zeros again after it. One
// launch.
[[nodiscard]] int CountFromOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const float* thresholds,
                                    uint32_t* partial, uint32_t* done, uint32_t* counts);

// Room that a selection needs; `histograms` and `done` are zeros, and zeros again after it.
constexpr uint32_t kSelectRows = 2048;
struct SelectRoom {
  uint32_t* histograms = nullptr;  // kSelectRows a part
  uint32_t* done = nullptr;        // a part
  uint32_t* upper = nullptr;       // a part
  uint32_t* left = nullptr;        // a part
};

// kth[p] = KthMagnitude (select.h) of part p for k = ks[p]; it stays as it is where that is 0.
// Element i of a part is arena[begin + i * strides[p]], so that parts may be samples. REQUIRES
// ks[p] at most the part's count. Three launches.
[[nodiscard]] int KthMagnitudeOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, const uint64_t* strides,
                                       const uint32_t* ks, const SelectRoom& room, float* kth);

// --- Codes of few elements (sparse.h), as floats.

// What holds what is not sent yet, arenas as that which is coded: what is sent becomes 0 in both
// (the Keep of dgc_memory.h, and of error_feedback.h for codes that send floats). Each may be null;
// without masking, the momentum is.
struct SparseMemory {
  float* accumulated = nullptr;
  float* momentum = nullptr;
};

// Room that it needs; all of it may be anything but `done`, zeros that are zeros again after it.
struct SparseRoom {
  uint32_t* masks = nullptr;   // kTile / 32 a tile
  uint32_t* sent = nullptr;    // a tile
  uint64_t* bodies = nullptr;  // a tile: at which byte of `out` it begins
  uint32_t* done = nullptr;    // a chunk
};

// The codes of what has the magnitude thresholds[p] or more, as AppendFrom writes them, each part's
// after the one before it in its chunk; chunk c has sizes[c] bytes. REQUIRES finite values. Two
// launches.
[[nodiscard]] int SparseOnDevice(DeviceStream stream, const float* arena,
                                 const DeviceTiling& tiling, const float* thresholds,
                                 const SparseMemory& memory, const SparseRoom& room, uint8_t* out,
                                 uint64_t* sizes);

// The values of codes, or of sums, to their parts of the arena. `bodies`: room for a word a tile.
// `bad` goes up for codes that Codec::Decode refuses: what becomes of their parts means nothing.
// Two launches.
[[nodiscard]] int ReadSparseOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const CodePlace* places,
                                     uint64_t* bodies, float* arena, uint32_t* bad);

}  // namespace tern::kernels

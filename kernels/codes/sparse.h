// Sparse codes with float values. GPU kernels: the same bytes and floats as in
// common/codec/sparse.h, which defines them.
//
// Rows of codes begin at a multiple of 4 bytes and have room up to the next one: whole words of
// them are read and written.
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

// The arenas of a codec's memory, which holds what was not sent yet, at the same indices as the
// encoded arena. Elements that are sent become 0 in both (Keep in common/codec/dgc_memory.h and
// error_feedback.h, for codes that send floats). Either may be null; without momentum masking, the
// momentum is null.
struct SparseMemory {
  float* accumulated = nullptr;
  float* momentum = nullptr;
};

// Workspace. Uninitialized, except `done`: zeroed counters, reset on return.
struct SparseWorkspace {
  uint32_t* masks = nullptr;   // kTile / 32 per tile
  uint32_t* sent = nullptr;    // per tile
  uint64_t* bodies = nullptr;  // per tile: byte offset of its body in `out`
  uint32_t* done = nullptr;    // per chunk
};

// Encodes the elements of each part p whose magnitude is at least thresholds[p], as AppendFrom
// (common/codec/sparse.h) does. A part's code follows the one before it in its chunk; the code of
// chunk c takes sizes[c] bytes. REQUIRES finite values. Two launches.
[[nodiscard]] int SparseOnDevice(DeviceStream stream, const float* arena,
                                 const DeviceTiling& tiling, const float* thresholds,
                                 const SparseMemory& memory, const SparseWorkspace& workspace,
                                 uint8_t* out, uint64_t* sizes);

// Decodes codes, or sums, into their parts of the arena. `bodies`: workspace, one word per tile.
// Increments *bad for codes that Codec::Decode refuses; the values of those parts are unspecified.
// Two launches.
[[nodiscard]] int ReadSparseOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const CodeRange* ranges,
                                     uint64_t* bodies, float* arena, uint32_t* bad);

}  // namespace tern::kernels

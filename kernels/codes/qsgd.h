// QSGD. GPU kernels: the same bytes and floats as in common/codec/qsgd_form.h, which defines them.
//
// Rows of codes begin at a multiple of 4 bytes and have room up to the next one: whole words of
// them are read and written. A group is a bucket: all have the same size, or each part is one.
#pragma once

#include <cstdint>

#include "kernels/codes/philox.h"
#include "kernels/codes/qsgd_math.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

struct QsgdSums {
  double squares;
  uint32_t largest;  // bits of the largest magnitude
  uint32_t unused;
};

// Workspace. Uninitialized, except `done` and `chunk_done`: zeroed counters, reset on return.
struct QsgdWorkspace {
  QsgdSums* partial = nullptr;  // two per tile
  uint32_t* done = nullptr;     // per tile
  float* norms = nullptr;       // per bucket
  // For a rule whose buckets differ in width:
  uint8_t* widths = nullptr;       // per bucket
  uint64_t* bits = nullptr;        // per bucket: bit offset of its levels among those of the part
  uint64_t* levels = nullptr;      // per part: byte offset of its levels in `out`
  uint32_t* chunk_done = nullptr;  // per chunk
};

// Which codes to write, where, and with which noise.
struct QsgdCoding {
  QsgdRule rule;
  uint64_t bucket = 512;  // elements; 0: the whole part
  const GroupedPart* groups = nullptr;
  // The place of each part's code, of QsgdMaxSize bytes. Used only if all buckets have one width:
  // then every code has that size.
  const CodeRange* ranges = nullptr;
  NoiseKey key;  // key.tensor is ignored: each part's own is used
};

// Encodes all parts as QsgdForm::Append does. If buckets differ in width, a part's code follows the
// one before it in its chunk, and chunk c takes sizes[c] bytes; out[0, out_bytes) is large enough
// for all. Increments *bad per bucket with a non-finite value; the codes of those buckets are
// unspecified. One launch if tiles hold whole buckets of one width, else two.
[[nodiscard]] int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                               const QsgdCoding& coding, const QsgdWorkspace& workspace,
                               uint8_t* out, uint64_t out_bytes, uint64_t* sizes, uint32_t* bad);

// Decodes codes, or sums that were encoded again, into their parts of the arena. `bits`: workspace,
// one word per bucket, for a rule whose buckets differ in width. Increments *bad for codes that
// Codec::Decode refuses; the values of those parts are unspecified. One launch, or two where widths
// differ.
[[nodiscard]] int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                   const uint8_t* codes, const QsgdRule& rule,
                                   const GroupedPart* groups, const CodeRange* ranges,
                                   uint64_t* bits, float* arena, uint32_t* bad);

}  // namespace tern::kernels

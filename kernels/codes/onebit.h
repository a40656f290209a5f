// 1bitSGD. GPU kernels: the same bytes and floats as in common/codec/onebit.cc, which defines them.
//
// Rows of codes begin at a multiple of 4 bytes and have room up to the next one: whole words of
// them are read and written. A group is a column or a bucket; a part's code has OneBitSize bytes
// (onebit_math.h).
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"

namespace tern::kernels {

struct OneBitSums {
  double lower, upper;  // sums of the negative elements, and of the others
  uint64_t negatives;
};

// Workspace. Uninitialized, except `done`: zeroed counters, reset on return.
struct OneBitWorkspace {
  OneBitSums* partial = nullptr;  // two per tile
  uint32_t* done = nullptr;       // per tile
  float* means = nullptr;         // two per group: of negatives, of others
};

// Encodes v, which is g or, with a residual, fl(g + residual). The residual becomes
// fl(v - decoded(code)) (error_feedback.h). Increments *bad per group with a non-finite value; the
// codes of those groups are unspecified. Two launches.
[[nodiscard]] int OneBitOnDevice(DeviceStream stream, const float* g, float* residual,
                                 const DeviceTiling& tiling, const GroupedPart* groups,
                                 const CodeRange* ranges, const OneBitWorkspace& workspace,
                                 uint8_t* out, uint32_t* bad);

// Decodes codes, or sums that were coded anew, into their parts of the arena. Increments *bad per
// code that Codec::Decode refuses; the values of those parts are unspecified. One launch.
[[nodiscard]] int ReadOneBitOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                     const uint8_t* codes, const GroupedPart* groups,
                                     const CodeRange* ranges, float* arena, uint32_t* bad);

}  // namespace tern::kernels

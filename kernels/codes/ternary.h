// TernGrad's codes (Wen et al. 2017, eq. 1 and 2) of n elements g of one tensor:
//
//   x            = min(|g|, clip)
//   P(code != 0) = x / s
//   code         = sign(g) * b
//
// s is the scaler of the tensor, and `clip` the worker's clip level (infinity: none). b is 1 if
// draw32 < floor(x / s * 2^32), else 0, where draw32 is a random number of 32 bits (philox.h), and
// x / s is rounded to float by IEEE division, so that codes are the same bits on every device. b is
// 0 if s == 0 or g == 0; otherwise it is 1 if x >= s. An element "fires" if its code is not 0.
//
// A code has two rows of bits. `mask` has one bit per element: bit i % 8 of byte i / 8 is 1 if
// element i fires. `signs` has one bit per element that fires, in the order of the elements, 1 if
// the code is -1. Unused bits are zero.
//
// Functions named ...Ref give the same results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/philox.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

// The bytes of a plane: a row of n bits, one per element.
inline size_t PlaneBytes(size_t n) { return (n + 7) / 8; }

// Encodes g[0, n), which are elements [first, first + n) of the tensor. Writes PlaneBytes(n) bytes
// of `mask` and of `signs`, with zeros after the last sign. Returns the number of elements that
// fire.
size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs);
size_t TernarizeRef(const float* g, size_t n, float s, float clip, const NoiseKey& key,
                    uint64_t first, uint8_t* mask, uint8_t* signs);

// Whether one element fires (equation 2). False if g is NaN or s is not above 0.
bool TernaryFires(float g, float s, float clip, const NoiseKey& key, uint64_t element);

// The number of ones in a plane of n bits. REQUIRES that the unused bits of the last byte are zero.
size_t CountOnes(const uint8_t* plane, size_t n);

// Decodes mask and signs to codes[0, n), each -1, 0 or +1. Slow; for tests.
void ExpandCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int8_t* codes);

// The scaler s and the clip level of a part.
struct TernaryScale {
  float scaler = 0, clip = 0;
};

// Device memory for what the warps of a launch tell each other. All of it must be zero before a
// call, and is zero after it. A part is a run of elements of one tensor that has a code of its own;
// a tile is a range of at most 4096 elements of a part; a chunk is neighbouring parts whose codes
// are sent together (tiling.h).
struct TernaryWorkspace {
  uint64_t* tile_states = nullptr;   // one per tile: its signs (look_back.cuh)
  uint64_t* part_states = nullptr;   // one per part: the bytes of its code
  uint32_t* num_finished = nullptr;  // one per chunk: how many tiles are written
  uint32_t* num_begun = nullptr;     // one: how many thread blocks have begun
};

// Encodes all chunks of a tiling of the arena, one array with all tensors. The code of chunk c has
// sizes[c] bytes, from byte tiling.chunks[c].code_begin of `out` on: for each part its mask and
// then its signs, without gaps. The scaler and clip level of part p are scales[p]. Each part's
// tensor replaces key.tensor. One launch.
[[nodiscard]] int TernarizeOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const TernaryScale* scales,
                                    const NoiseKey& key, const TernaryWorkspace& workspace,
                                    uint8_t* out, uint64_t* sizes);

}  // namespace tern::kernels

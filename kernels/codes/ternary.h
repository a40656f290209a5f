// TernGrad's codes (Wen et al. 2017, eq. 1 and 2) of one segment: n elements of one tensor.
//
//   x            = min(|g|, clip)
//   P(code != 0) = x / s
//   code         = sign(g) * b
//
// s is the (shared) scaler, `clip` the worker's own c * sigma (infinity: none). b is 1 if
// draw32 < floor(x / s * 2^32) (philox.h), with x / s in IEEE float division, so codes are
// bit-equal on every device. x >= s always gives b = 1; s == 0 or g == 0 gives 0.
//
// Format: `mask`, a plane of n bits (element i is bit i % 8 of byte i / 8; one = not zero), and
// `signs`, one bit per non-zero in element order, packed the same way (one = negative). Unused bits
// are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/philox.h"
#include "kernels/device/tiling.h"

namespace tern::kernels {

inline size_t PlaneBytes(size_t n) { return (n + 7) / 8; }

// Codes g[0, n), elements [first, first + n) of the tensor. `mask` and `signs` have PlaneBytes(n)
// bytes each; both are written, with zeros behind the last sign. Returns the number of non-zeros.
size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs);
size_t TernarizeRef(const float* g, size_t n, float s, float clip, const NoiseKey& key,
                    uint64_t first, uint8_t* mask, uint8_t* signs);

// Equation 2 for one element: whether its code is not zero. False for a NaN, and for an invalid s.
bool TernaryFires(float g, float s, float clip, const NoiseKey& key, uint64_t element);

// Number of ones in a plane of n bits. REQUIRES unused bits of the last byte zero.
size_t CountOnes(const uint8_t* plane, size_t n);

// {-1, 0, +1} from mask and signs, for references and tests.
void ExpandCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int8_t* codes);

// The scaler and clip of a part: of a range of a tensor that has one scaler.
struct TernaryScale {
  float scaler = 0, clip = 0;
};

// Workspace. Uninitialized, except `done`: one zeroed counter per chunk, reset on return.
struct TernaryWorkspace {
  uint8_t* masks = nullptr;        // kTile / 8 bytes per tile
  uint8_t* signs = nullptr;        // kTile / 8 bytes per tile
  uint32_t* ones = nullptr;        // per tile
  uint32_t* sign_bit = nullptr;    // per tile: bit offset of its signs among those of its part
  uint64_t* mask_begin = nullptr;  // per part: byte offset in the code of its chunk
  uint32_t* done = nullptr;        // per chunk
};

// Encodes all chunks of a tiling. The code of chunk number c takes sizes[c] bytes, from byte
// tiling.chunks[c].out of `out` on: the codes of its parts one after the other, each as
// AppendMaskSigns (common/codec/mask_signs.h) writes it. key.tensor is ignored: each part's own is
// used. Two launches.
[[nodiscard]] int TernarizeOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const TernaryScale* scales,
                                    const NoiseKey& key, const TernaryWorkspace& workspace,
                                    uint8_t* out, uint64_t* sizes);

}  // namespace tern::kernels

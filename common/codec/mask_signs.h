// The bytes of ternary codes as they travel: PlaneBytes(n) bytes of mask, then one sign bit a
// non-zero in ceil(nonzeros / 8) bytes (kernels/ternary.h). Unused bits are zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// Codes g[0, segment.count) and appends mask and signs.
void AppendMaskSigns(const float* g, const Segment& segment, const Prepared& prepared,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out);

// Views into the bytes that were parsed.
struct MaskSigns {
  std::span<const uint8_t> mask;
  std::span<const uint8_t> signs;
  size_t size() const { return mask.size() + signs.size(); }
};

// The mask and signs of `count` elements at the front of `bytes`; kMismatch if they are cut short
// or an unused bit is set.
Result<MaskSigns> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count);

// The signs at the places of their elements: a plane that is zero where the mask is. REQUIRES room
// of the mask's size.
void PlaceSigns(const MaskSigns& code, std::span<uint8_t> negative);

// Back again: the signs of such a plane, packed, in place of what `signs` held.
void GatherSigns(std::span<const uint8_t> mask, std::span<const uint8_t> negative,
                 std::vector<uint8_t>* signs);

// Whether the bits beyond the first `bits` in the last byte of a row of bits are zero.
bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits);

}  // namespace tern::codec

// The bytes of ternary codes as they travel: PlaneBytes(n) bytes of mask, then one sign bit a
// non-zero in ceil(nonzeros / 8) bytes (kernels/ternary.h). Unused bits are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// Codes g[0, segment.count) and appends mask and signs.
void AppendMaskSigns(const float* g, const Segment& segment, const Prepared& prepared,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out);

// Bytes that are written before they are read: they stay as they were, and so does their number
// where less is asked for.
class Scratch {
 public:
  std::span<uint8_t> Take(size_t size) {
    if (size > size_) bytes_ = std::make_unique_for_overwrite<uint8_t[]>(size_ = size);
    return {bytes_.get(), size};
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

// One worker's codes with each sign at the place of its element: two planes, views of the bytes
// that were parsed and of the scratch.
struct ParsedCode {
  std::span<const uint8_t> mask;
  std::span<const uint8_t> negative;
  size_t size = 0;  // bytes at the front that it took
};

// The mask and signs of `count` elements at the front of `bytes`; kMismatch if they are cut short
// or an unused bit is set.
Result<ParsedCode> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count, Scratch* scratch);

// Whether the bits beyond the first `bits` in the last byte of a row of bits are zero.
bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits);

}  // namespace tern::codec

// The bytes of ternary codes on the wire: PlaneBytes(n) bytes of mask, then one sign bit per
// non-zero in ceil(nonzeros / 8) bytes (kernels/codes/ternary.h). Unused bits are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// Encodes g[0, segment.count), and appends mask and signs.
void AppendMaskSigns(const float* g, const Segment& segment, const Prepared& prepared,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out);

// A buffer that is written before it is read: it is not cleared, and never shrinks.
class Scratch {
 public:
  std::span<uint8_t> Get(size_t size) {
    if (size > size_) bytes_ = std::make_unique_for_overwrite<uint8_t[]>(size_ = size);
    return {bytes_.get(), size};
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

// One worker's codes with each sign at its element's bit: two planes, which are views of the parsed
// bytes and of the scratch buffer.
struct ParsedCode {
  std::span<const uint8_t> mask;
  std::span<const uint8_t> negative;
  size_t size = 0;  // bytes consumed from the front
};

// Parses the mask and signs of `count` elements at the front of `bytes`; kMismatch if they are cut
// short or an unused bit is set.
Result<ParsedCode> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count, Scratch* scratch);

// Whether the bits behind the first `bits` bits of a row are zero in its last byte.
bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits);

}  // namespace tern::codec

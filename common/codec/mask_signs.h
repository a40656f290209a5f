// The bytes of the ternary codes (-1, 0, +1) of n elements: a mask plane, which has one bit per
// element, 1 where the code is not 0, in PlaneBytes(n) bytes; then one sign bit per non-zero code,
// in ceil(nonzeros / 8) bytes (kernels/codes/ternary.h). Unused bits are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// Encodes g[0, segment.count) with random numbers of the key `noise`, and appends mask and signs.
void AppendMaskSigns(const float* g, const Segment& segment, const EncodeParams& params,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out);

// A buffer for intermediate results, to be used again and again.
class Scratch {
 public:
  // Returns `size` bytes with arbitrary content. They are valid until the next call.
  std::span<uint8_t> GetBuffer(size_t size) {
    if (size > size_) bytes_ = std::make_unique_for_overwrite<uint8_t[]>(size_ = size);
    return {bytes_.get(), size};
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

// One worker's codes as planes of one bit per element (kernels::WorkerCodes). The planes refer to
// the parsed bytes and to the scratch buffer.
struct ParsedCode {
  // The lower bits. For ternary codes the mask: bit i is 1 if the code of element i is not 0.
  std::span<const uint8_t> low_planes;
  std::span<const uint8_t> sign_plane;  // Bit i is 1 if the code of element i is negative.
  size_t size = 0;                      // the size of the code in bytes, as received
};

// Parses the mask and signs of `count` elements at the front of `bytes`; kMismatch if `bytes` is
// too short or an unused bit is set. The result refers to `bytes` and `scratch`.
Result<ParsedCode> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count, Scratch* scratch);

// Whether the unused bits in the last byte of a row of `bits` bits are zero.
bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits);

}  // namespace tern::codec

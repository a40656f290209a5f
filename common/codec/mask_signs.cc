#include "common/codec/mask_signs.h"

#include <string>

#include "kernels/ternary.h"

namespace tern::codec {

void AppendMaskSigns(const float* g, const Segment& segment, const Prepared& prepared,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out) {
  noise.tensor = segment.tensor;
  const size_t begin = out->size();
  const size_t plane = kernels::PlaneBytes(segment.count);
  out->resize(begin + 2 * plane);
  uint8_t* mask = out->data() + begin;
  const size_t ones = kernels::Ternarize(g, segment.count, prepared.scaler, prepared.clip, noise,
                                         segment.begin, mask, mask + plane);
  out->resize(begin + plane + kernels::PlaneBytes(ones));
}

bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits) {
  return bits % 8 == 0 || row.back() >> (bits % 8) == 0;
}

Result<MaskSigns> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count) {
  const size_t plane = kernels::PlaneBytes(count);
  if (bytes.size() < plane) {
    return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                       " bytes, expected a mask of " + std::to_string(plane) +
                                       " for " + std::to_string(count) + " elements");
  }
  MaskSigns code{bytes.first(plane), {}};
  if (!UnusedBitsAreZero(code.mask, count)) {
    return Status(Code::kMismatch, "ternary mask of " + std::to_string(count) +
                                       " elements has a bit set beyond the last of them");
  }
  const size_t ones = kernels::CountOnes(code.mask.data(), count);
  const size_t sign_bytes = kernels::PlaneBytes(ones);
  if (bytes.size() - plane < sign_bytes) {
    return Status(Code::kMismatch,
                  "ternary code cut short: " + std::to_string(bytes.size() - plane) +
                      " bytes of signs, expected " + std::to_string(sign_bytes) + " for " +
                      std::to_string(ones) + " non-zeros");
  }
  code.signs = bytes.subspan(plane, sign_bytes);
  if (!UnusedBitsAreZero(code.signs, ones)) {
    return Status(Code::kMismatch, "ternary signs of " + std::to_string(ones) +
                                       " non-zeros have a bit set beyond the last of them");
  }
  return code;
}

}  // namespace tern::codec

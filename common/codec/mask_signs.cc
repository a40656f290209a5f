// Writes and checks the bytes of the codec `ternary` (TernGrad, Wen et al. 2017): a mask plane (one
// bit per element), then the signs of the non-zero codes.
#include "common/codec/mask_signs.h"

#include <string>

#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {

void AppendMaskSigns(const float* g, const Segment& segment, const EncodeParams& params,
                     kernels::NoiseKey noise, std::vector<uint8_t>* out) {
  noise.tensor = segment.tensor;
  const size_t begin = out->size();
  const size_t plane_bytes = kernels::PlaneBytes(segment.count);
  out->resize(begin + 2 * plane_bytes);
  uint8_t* mask = out->data() + begin;
  const size_t num_nonzeros = kernels::Ternarize(g, segment.count, params.scaler, params.clip,
                                                 noise, segment.begin, mask, mask + plane_bytes);
  out->resize(begin + plane_bytes + kernels::PlaneBytes(num_nonzeros));
}

bool UnusedBitsAreZero(std::span<const uint8_t> row, uint64_t bits) {
  return bits % 8 == 0 || row.back() >> (bits % 8) == 0;
}

Result<ParsedCode> ParseMaskSigns(std::span<const uint8_t> bytes, uint64_t count,
                                  Scratch* scratch) {
  const size_t plane_bytes = kernels::PlaneBytes(count);
  if (bytes.size() < plane_bytes) {
    return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                       " bytes, expected a mask of " + std::to_string(plane_bytes) +
                                       " for " + std::to_string(count) + " elements");
  }
  const std::span<const uint8_t> mask = bytes.first(plane_bytes);
  if (!UnusedBitsAreZero(mask, count)) {
    return Status(Code::kMismatch, "ternary mask of " + std::to_string(count) +
                                       " elements has a bit set beyond the last of them");
  }
  const std::span<uint8_t> sign_plane = scratch->GetBuffer(plane_bytes);
  const std::span<const uint8_t> sign_row = bytes.subspan(plane_bytes);
  const size_t num_nonzeros = kernels::SpreadSigns(mask.data(), count, sign_row, sign_plane.data());
  const size_t sign_bytes = kernels::PlaneBytes(num_nonzeros);
  if (sign_row.size() < sign_bytes) {
    return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(sign_row.size()) +
                                       " bytes of signs, expected " + std::to_string(sign_bytes) +
                                       " for " + std::to_string(num_nonzeros) + " non-zeros");
  }
  if (!UnusedBitsAreZero(sign_row.first(sign_bytes), num_nonzeros)) {
    return Status(Code::kMismatch, "ternary signs of " + std::to_string(num_nonzeros) +
                                       " non-zeros have a bit set beyond the last of them");
  }
  return ParsedCode{mask, sign_plane, plane_bytes + sign_bytes};
}

}  // namespace tern::codec

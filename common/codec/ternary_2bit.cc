// The wire format ternary_2bit: TernGrad's codes (Wen et al. 2017) as two planes (rows with one bit
// per element): the mask, 1 where the code is not 0, and the signs, 1 where the code is negative.
#include <string>

#include "common/codec/integer_wire.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

class TwoBit : public IntegerWire {
 public:
  std::string_view name() const override { return "ternary_2bit"; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t begin = out->size();
    const size_t plane_bytes = kernels::PlaneBytes(segment.count);
    AppendMaskSigns(g, segment, prepared, noise, out);
    const std::vector<uint8_t> signs(out->begin() + begin + plane_bytes, out->end());
    out->resize(begin + 2 * plane_bytes);
    uint8_t* const mask = out->data() + begin;
    kernels::SpreadSigns(mask, segment.count, signs, mask + plane_bytes);
  }
  size_t MaxCodeSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch*) const override {
    const size_t plane_bytes = kernels::PlaneBytes(count);
    if (bytes.size() < 2 * plane_bytes) {
      return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected two planes of " +
                                         std::to_string(plane_bytes) + " for " +
                                         std::to_string(count) + " elements");
    }
    const std::span<const uint8_t> mask = bytes.first(plane_bytes);
    const std::span<const uint8_t> sign_plane = bytes.subspan(plane_bytes, plane_bytes);
    if (!UnusedBitsAreZero(mask, count) || !UnusedBitsAreZero(sign_plane, count)) {
      return Status(Code::kMismatch, "ternary planes of " + std::to_string(count) +
                                         " elements have a bit set beyond the last of them");
    }
    return ParsedCode{mask, sign_plane, 2 * plane_bytes};
  }
};

}  // namespace

const IntegerWire& TwoBitWire() {
  static const TwoBit wire;
  return wire;
}

}  // namespace tern::codec

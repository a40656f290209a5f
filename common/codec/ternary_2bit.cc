#include <string>

#include "common/codec/mask_signs.h"
#include "common/codec/ternary_wire.h"
#include "kernels/planes.h"
#include "kernels/ternary.h"

namespace tern::codec {
namespace {

class TwoBit : public TernaryWire {
 public:
  std::string_view name() const override { return "ternary_2bit"; }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t begin = out->size();
    const size_t plane = kernels::PlaneBytes(segment.count);
    AppendMaskSigns(g, segment, prepared, noise, out);
    const std::vector<uint8_t> signs(out->begin() + begin + plane, out->end());
    out->resize(begin + 2 * plane);
    const std::span<uint8_t> code = std::span(*out).subspan(begin);
    PlaceSigns({code.first(plane), signs}, code.subspan(plane));
  }
  size_t MaxCodeSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<Parsed> Parse(std::span<const uint8_t> bytes, uint64_t count,
                       std::vector<uint8_t>*) const override {
    const size_t plane = kernels::PlaneBytes(count);
    if (bytes.size() < 2 * plane) {
      return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected two planes of " + std::to_string(plane) +
                                         " for " + std::to_string(count) + " elements");
    }
    const std::span<const uint8_t> mask = bytes.first(plane);
    const std::span<const uint8_t> negative = bytes.subspan(plane, plane);
    if (!UnusedBitsAreZero(mask, count)) {
      return Status(Code::kMismatch, "ternary mask of " + std::to_string(count) +
                                         " elements has a bit set beyond the last of them");
    }
    if (!kernels::SignsHaveOnes(mask.data(), negative.data(), count)) {
      size_t i = 0;
      while ((negative[i] & ~mask[i]) == 0) ++i;
      return Status(Code::kMismatch, "ternary code has a sign without a one in its mask, in byte " +
                                         std::to_string(i) + " of " + std::to_string(plane));
    }
    return Parsed{{mask, negative}, 2 * plane, true};
  }
};

}  // namespace

const TernaryWire& TwoBitWire() {
  static const TwoBit wire;
  return wire;
}

}  // namespace tern::codec

// The wire format ternary: TernGrad's codes (Wen et al. 2017, Algorithm 1 and section 3.3) as a
// mask and the signs of the codes that are not 0.
#include "kernels/codes/ternary.h"

#include "common/codec/integer_wire.h"
#include "common/codec/mask_signs.h"

namespace tern::codec {
namespace {

// The byte format of the codec `ternary` (mask_signs.h).
class MaskAndSigns : public IntegerWire {
 public:
  std::string_view name() const override { return "ternary"; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    AppendMaskSigns(g, segment, prepared, noise, out);
  }
  size_t MaxCodeSize(uint64_t count) const override { return 2 * kernels::PlaneBytes(count); }
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch* scratch) const override {
    return ParseMaskSigns(bytes, count, scratch);
  }
};

}  // namespace

const IntegerWire& MaskSignsWire() {
  static const MaskAndSigns wire;
  return wire;
}

}  // namespace tern::codec

// qsgd_shared: QSGD (Alistarh et al. 2017) with a norm that all workers share, as TernGrad (Wen et
// al. 2017) shares its scalers, so that codes are integers with one unit and their sums are exact
// (docs/ALGORITHMS.md, section 14). With 2 bits its codes are TernGrad's without a clip.
#include <array>

#include "common/base/text.h"
#include "common/codec/integer_wire.h"
#include "common/codec/makers.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// Codes of `bits` bits in two's complement, as planes: plane p has bit p of each code. Every row of
// bits is valid, because the adder takes the smallest number, which is not a code, as 0
// (kernels/codes/planes.h).
class LevelPlanes : public IntegerWire {
 public:
  explicit LevelPlanes(int bits) : bits_(bits) {}

  std::string_view name() const override { return "qsgd_shared"; }
  int code_bits() const override { return bits_; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    if (segment.count == 0) return;
    kernels::NoiseKey key = noise;
    key.tensor = segment.tensor;
    const size_t begin = out->size();
    out->resize(begin + MaxCodeSize(segment.count));
    kernels::EncodeLevels(g, segment.count, {bits_, prepared.scaler, prepared.clip}, key,
                          segment.begin, out->data() + begin);
  }
  size_t MaxCodeSize(uint64_t count) const override {
    return static_cast<size_t>(bits_) * kernels::PlaneBytes(count);
  }
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch*) const override {
    const size_t plane_bytes = kernels::PlaneBytes(count), code_size = MaxCodeSize(count);
    if (bytes.size() < code_size) {
      return Status(Code::kMismatch,
                    Cat("qsgd_shared code cut short: ", bytes.size(), " bytes, expected ", bits_,
                        " planes of ", plane_bytes, " for ", count, " elements"));
    }
    for (size_t at = 0; at < code_size; at += plane_bytes) {
      if (UnusedBitsAreZero(bytes.subspan(at, plane_bytes), count)) continue;
      return Status(Code::kMismatch, Cat("qsgd_shared planes of ", count,
                                         " elements have a bit set beyond the last of them"));
    }
    const size_t low_bytes = code_size - plane_bytes;
    return ParsedCode{bytes.first(low_bytes), bytes.subspan(low_bytes, plane_bytes), code_size};
  }

 private:
  const int bits_;
};

}  // namespace

const IntegerWire& LevelPlanesWire(int bits) {
  static const std::array<LevelPlanes, kernels::kMaxLevelBits - kernels::kMinLevelBits + 1> wires =
      {LevelPlanes(2), LevelPlanes(3), LevelPlanes(4), LevelPlanes(5),
       LevelPlanes(6), LevelPlanes(7), LevelPlanes(8)};
  return wires[static_cast<size_t>(bits - kernels::kMinLevelBits)];
}

Result<std::unique_ptr<Codec>> MakeQsgdShared(const Options& options) {
  const uint32_t bits = options.keys.qsgd_shared().bits();
  if (bits < kernels::kMinLevelBits || bits > kernels::kMaxLevelBits)
    return Status(Code::kBadJob, Cat("exchange.qsgd_shared.bits is ", bits, ", expected ",
                                     kernels::kMinLevelBits, " to ", kernels::kMaxLevelBits));
  if (options.clip == Clip::kGrace)
    return Status(Code::kBadJob,
                  "exchange.clip is grace, which is defined for scalers per worker only, and the "
                  "workers share the norms of qsgd_shared: set exchange.clip to none");
  return MakeIntegerCodec(options, LevelPlanesWire(static_cast<int>(bits)));
}

}  // namespace tern::codec

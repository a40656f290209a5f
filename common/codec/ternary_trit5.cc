// The wire format ternary_trit5: TernGrad's codes (Wen et al. 2017) as digits in base 3 (trits),
// five in a byte, which is 1.6 bits per element (docs/ALGORITHMS.md, section 5).
#include <algorithm>
#include <string>

#include "common/codec/integer_wire.h"
#include "common/codec/mask_signs.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/trits.h"

namespace tern::codec {
namespace {

using kernels::kTritsInByte;
using kernels::TritBytes;

constexpr unsigned kPowersOf3[] = {1, 3, 9, 27, 81, 243};

// Checks that no byte is larger than the largest number of its trits: 3^5 - 1, or less for a last
// byte with fewer than five trits.
Status CheckTrits(std::span<const uint8_t> bytes, uint64_t count) {
  // The first loop has no branches. The second loop only runs if a byte is invalid, to report it.
  unsigned largest = 0;
  for (const uint8_t byte : bytes) largest = std::max<unsigned>(largest, byte);
  const bool is_last_full = count % kTritsInByte == 0;
  if (largest < kPowersOf3[kTritsInByte] &&
      (is_last_full || bytes.back() < kPowersOf3[count % kTritsInByte])) {
    return Ok();
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_partial = i + 1 == bytes.size() && !is_last_full;
    const unsigned byte_limit = kPowersOf3[is_partial ? count % kTritsInByte : kTritsInByte];
    if (bytes[i] < byte_limit) continue;
    return Status(Code::kMismatch, "ternary byte " + std::to_string(i) + " is " +
                                       std::to_string(bytes[i]) + ", expected less than " +
                                       std::to_string(byte_limit));
  }
  return Ok();
}

class Trit5 : public IntegerWire {
 public:
  std::string_view name() const override { return "ternary_trit5"; }
  void Encode(const float* g, const Segment& segment, const EncodeParams& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t plane_bytes = kernels::PlaneBytes(segment.count);
    std::vector<uint8_t> code;
    AppendMaskSigns(g, segment, prepared, noise, &code);
    const size_t begin = out->size();
    out->resize(begin + TritBytes(segment.count));
    kernels::TritsOfCode(code.data(), code.data() + plane_bytes, code.size() - plane_bytes,
                         segment.count, out->data() + begin);
  }
  size_t MaxCodeSize(uint64_t count) const override { return TritBytes(count); }
  Result<ParsedCode> Parse(std::span<const uint8_t> bytes, uint64_t count,
                           Scratch* scratch) const override {
    const size_t code_size = TritBytes(count);
    if (bytes.size() < code_size) {
      return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected " + std::to_string(code_size) + " for " +
                                         std::to_string(count) + " elements");
    }
    TERN_RETURN_IF_ERROR(CheckTrits(bytes.first(code_size), count));
    const size_t plane_bytes = kernels::PlaneBytes(count);
    // CodeOfTrits may write 8 bytes beyond the signs.
    const std::span<uint8_t> code = scratch->GetBuffer(3 * plane_bytes + 8);
    const std::span<uint8_t> sign_plane = code.first(plane_bytes);
    const std::span<uint8_t> mask = code.subspan(plane_bytes, plane_bytes);
    const std::span<uint8_t> signs = code.subspan(2 * plane_bytes);
    kernels::CodeOfTrits(bytes.data(), count, mask.data(), signs.data());
    kernels::SpreadSigns(mask.data(), count, signs, sign_plane.data());
    return ParsedCode{mask, sign_plane, code_size};
  }
};

}  // namespace

const IntegerWire& Trit5Wire() {
  static const Trit5 wire;
  return wire;
}

}  // namespace tern::codec

#include <array>
#include <string>

#include "common/codec/mask_signs.h"
#include "common/codec/ternary_wire.h"
#include "kernels/ternary.h"

namespace tern::codec {
namespace {

// A byte is t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4 of five codes in order of elements, where t is 0 for
// 0, 1 for +1 and 2 for -1: t = mask + negative, so a byte is the sum of both, each in base 3.
constexpr size_t kTrits = 5;
constexpr unsigned kPowers[] = {1, 3, 9, 27, 81, 243};

// kBase3[bits]: five bits as digits in base 3.
constexpr auto kBase3 = [] {
  std::array<uint8_t, 32> table{};
  for (unsigned bits = 0; bits < 32; ++bits) {
    for (unsigned i = 0; i < kTrits; ++i) table[bits] += (bits >> i & 1) * kPowers[i];
  }
  return table;
}();

struct Bits {
  uint8_t mask, negative;
};
constexpr auto kBitsOf = [] {
  std::array<Bits, kPowers[kTrits]> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    for (unsigned i = 0; i < kTrits; ++i) {
      const unsigned trit = byte / kPowers[i] % 3;
      table[byte].mask |= (trit != 0) << i;
      table[byte].negative |= (trit == 2) << i;
    }
  }
  return table;
}();

size_t TritBytes(uint64_t count) { return (count + kTrits - 1) / kTrits; }

// Bits [at, at + 5) of a plane, zeros beyond its end.
unsigned FiveBits(std::span<const uint8_t> plane, size_t at) {
  const unsigned low = plane[at / 8];
  const unsigned high = at / 8 + 1 < plane.size() ? plane[at / 8 + 1] : 0;
  return (low | high << 8) >> (at % 8) & 31;
}

// Five bits from bit `at` on, onto a plane of zeros. REQUIRES no ones beyond its end.
void PutFiveBits(unsigned bits, size_t at, std::span<uint8_t> plane) {
  const unsigned both = bits << (at % 8);
  plane[at / 8] |= static_cast<uint8_t>(both);
  if (both > 0xFF) plane[at / 8 + 1] |= static_cast<uint8_t>(both >> 8);
}

Status CheckTrits(std::span<const uint8_t> bytes, uint64_t count) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool last = i + 1 == bytes.size() && count % kTrits != 0;
    const unsigned end = kPowers[last ? count % kTrits : kTrits];
    if (bytes[i] < end) continue;
    return Status(Code::kMismatch, "ternary byte " + std::to_string(i) + " is " +
                                       std::to_string(bytes[i]) + ", expected less than " +
                                       std::to_string(end));
  }
  return Ok();
}

class Trit5 : public TernaryWire {
 public:
  std::string_view name() const override { return "ternary_trit5"; }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const size_t plane = kernels::PlaneBytes(segment.count);
    std::vector<uint8_t> code, negative(plane);
    AppendMaskSigns(g, segment, prepared, noise, &code);
    const std::span<const uint8_t> mask = std::span(code).first(plane);
    PlaceSigns({mask, std::span(code).subspan(plane)}, negative);
    const size_t begin = out->size();
    out->resize(begin + TritBytes(segment.count));
    for (size_t i = 0; i < TritBytes(segment.count); ++i) {
      (*out)[begin + i] = static_cast<uint8_t>(kBase3[FiveBits(mask, kTrits * i)] +
                                               kBase3[FiveBits(negative, kTrits * i)]);
    }
  }
  size_t MaxCodeSize(uint64_t count) const override { return TritBytes(count); }
  Result<Parsed> Parse(std::span<const uint8_t> bytes, uint64_t count,
                       std::vector<uint8_t>* scratch) const override {
    const size_t size = TritBytes(count);
    if (bytes.size() < size) {
      return Status(Code::kMismatch, "ternary code cut short: " + std::to_string(bytes.size()) +
                                         " bytes, expected " + std::to_string(size) + " for " +
                                         std::to_string(count) + " elements");
    }
    TERN_RETURN_IF_ERROR(CheckTrits(bytes.first(size), count));
    const size_t plane = kernels::PlaneBytes(count);
    std::vector<uint8_t> negative(plane), signs;
    scratch->assign(plane, 0);
    for (size_t i = 0; i < size; ++i) {
      const Bits& bits = kBitsOf[bytes[i]];
      PutFiveBits(bits.mask, kTrits * i, *scratch);
      PutFiveBits(bits.negative, kTrits * i, negative);
    }
    GatherSigns(*scratch, negative, &signs);
    scratch->insert(scratch->end(), signs.begin(), signs.end());
    const std::span<const uint8_t> code(*scratch);
    return Parsed{{code.first(plane), code.subspan(plane)}, size};
  }
};

}  // namespace

const TernaryWire& Trit5Wire() {
  static const Trit5 wire;
  return wire;
}

}  // namespace tern::codec

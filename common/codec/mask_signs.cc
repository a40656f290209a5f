#include "common/codec/mask_signs.h"

#include <array>
#include <bit>
#include <string>

#include "kernels/ternary.h"

namespace tern::codec {
namespace {

using NibbleTable = std::array<std::array<uint8_t, 16>, 16>;

// kDeposit[mask][bits]: the low bits of `bits`, one for each 1 of `mask` and in order, at its
// place. kGather[mask][bits]: the bits at the ones of `mask`, together at the low end.
constexpr NibbleTable kDeposit = [] {
  NibbleTable table{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      unsigned next = 0;
      for (unsigned i = 0; i < 4; ++i) {
        if ((mask >> i & 1) != 0) table[mask][bits] |= (bits >> next++ & 1) << i;
      }
    }
  }
  return table;
}();
constexpr NibbleTable kGather = [] {
  NibbleTable table{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      unsigned next = 0;
      for (unsigned i = 0; i < 4; ++i) {
        if ((mask >> i & 1) != 0) table[mask][bits] |= (bits >> i & 1) << next++;
      }
    }
  }
  return table;
}();

}  // namespace

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

void PlaceSigns(const MaskSigns& code, std::span<uint8_t> negative) {
  const std::span<const uint8_t> signs = code.signs;
  const auto sign_byte = [&](size_t i) { return i < signs.size() ? unsigned{signs[i]} : 0; };
  size_t one = 0;
  for (size_t byte = 0; byte < code.mask.size(); ++byte) {
    const unsigned m = code.mask[byte];
    const unsigned bits = (sign_byte(one / 8) | sign_byte(one / 8 + 1) << 8) >> (one % 8);
    const unsigned high = bits >> std::popcount(m & 15);
    negative[byte] =
        static_cast<uint8_t>(kDeposit[m & 15][bits & 15] | kDeposit[m >> 4][high & 15] << 4);
    one += std::popcount(m);
  }
}

void GatherSigns(std::span<const uint8_t> mask, std::span<const uint8_t> negative,
                 std::vector<uint8_t>* signs) {
  signs->clear();
  signs->reserve(mask.size());
  unsigned pending = 0;
  int used = 0;
  for (size_t byte = 0; byte < mask.size(); ++byte) {
    const unsigned m = mask[byte], bits = negative[byte];
    const int low = std::popcount(m & 15);
    pending |= (kGather[m & 15][bits & 15] | kGather[m >> 4][bits >> 4] << low) << used;
    used += std::popcount(m);
    if (used < 8) continue;
    signs->push_back(static_cast<uint8_t>(pending));
    pending >>= 8;
    used -= 8;
  }
  if (used > 0) signs->push_back(static_cast<uint8_t>(pending));
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

// Packs and unpacks numbers of 1 to 24 bits, for QSGD's levels, through a 64-bit buffer, 32 bits at
// a time.
#include "common/codec/bit_pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tern::codec {

static_assert(std::endian::native == std::endian::little, "words are copied as they lie");

void BitWriter::Put(std::span<const uint32_t> values, int width) {
  for (const uint32_t value : values) {
    held_ |= uint64_t{value} << bits_;
    bits_ += width;
    if (bits_ < 32) continue;
    const auto word = static_cast<uint32_t>(held_);
    std::memcpy(to_, &word, sizeof word);
    to_ += sizeof word;
    held_ >>= 32;
    bits_ -= 32;
  }
}

void BitWriter::Finish() {
  for (; bits_ > 0; bits_ -= 8, held_ >>= 8) *to_++ = static_cast<uint8_t>(held_);
}

void UnpackBits(std::span<const uint8_t> bytes, uint64_t at, int width,
                std::span<uint32_t> values) {
  if (width == 0) {
    std::fill(values.begin(), values.end(), 0);
    return;
  }
  const uint32_t mask = (uint32_t{1} << width) - 1;
  for (uint32_t& value : values) {
    const uint8_t* from = bytes.data() + at / 8;
    const uint64_t left = bytes.size() - at / 8;
    uint32_t word = 0;
    // A number of 24 bits or fewer lies in four bytes wherever it starts.
    if (left >= sizeof word) {
      std::memcpy(&word, from, sizeof word);
    } else {
      std::memcpy(&word, from, left);
    }
    value = word >> (at % 8) & mask;
    at += static_cast<uint64_t>(width);
  }
}

}  // namespace tern::codec

// Packs and unpacks numbers of at most 24 bits, the levels of QSGD codes. The writer collects bits
// in a 64-bit integer and writes 32 bits at a time.
#include "common/codec/bit_pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tern::codec {

static_assert(std::endian::native == std::endian::little, "words are copied in native byte order");

void BitWriter::AppendValues(std::span<const uint32_t> values, int width) {
  for (const uint32_t value : values) {
    pending_ |= uint64_t{value} << pending_bits_;
    pending_bits_ += width;
    if (pending_bits_ < 32) continue;
    const auto word = static_cast<uint32_t>(pending_);
    std::memcpy(out_, &word, sizeof word);
    out_ += sizeof word;
    pending_ >>= 32;
    pending_bits_ -= 32;
  }
}

void BitWriter::Finish() {
  for (; pending_bits_ > 0; pending_bits_ -= 8, pending_ >>= 8)
    *out_++ = static_cast<uint8_t>(pending_);
}

void UnpackBits(std::span<const uint8_t> bytes, uint64_t first_bit, int width,
                std::span<uint32_t> values) {
  if (width == 0) {
    std::fill(values.begin(), values.end(), 0);
    return;
  }
  const uint32_t mask = (uint32_t{1} << width) - 1;
  for (uint32_t& value : values) {
    const uint8_t* first_byte = bytes.data() + first_bit / 8;
    const uint64_t num_bytes_left = bytes.size() - first_bit / 8;
    uint32_t word = 0;
    // A number of 24 bits or fewer lies in four bytes wherever it starts.
    if (num_bytes_left >= sizeof word) {
      std::memcpy(&word, first_byte, sizeof word);
    } else {
      std::memcpy(&word, first_byte, num_bytes_left);
    }
    value = word >> (first_bit % 8) & mask;
    first_bit += static_cast<uint64_t>(width);
  }
}

}  // namespace tern::codec

// Packs and unpacks numbers of at most 24 bits, the levels of QSGD codes. The writer collects bits
// in a 64-bit integer and writes it when it is full.
#include "common/codec/bit_pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tern::codec {

static_assert(std::endian::native == std::endian::little, "words are copied in native byte order");

void BitWriter::AppendBits(uint64_t bits, int num_bits) {
  pending_ |= bits << pending_bits_;
  pending_bits_ += num_bits;
  if (pending_bits_ < 64) return;
  std::memcpy(out_, &pending_, sizeof pending_);
  out_ += sizeof pending_;
  pending_bits_ -= 64;
  pending_ = pending_bits_ == 0 ? 0 : bits >> (num_bits - pending_bits_);
}

// Appends kTogether values at a time, which have at most 64 bits together.
template <size_t kTogether>
void BitWriter::AppendGroups(std::span<const uint32_t> values, int width) {
  size_t i = 0;
  for (; values.size() - i >= kTogether; i += kTogether) {
    uint64_t bits = 0;
    for (size_t k = kTogether; k-- > 0;) bits = bits << width | values[i + k];
    AppendBits(bits, static_cast<int>(kTogether) * width);
  }
  for (; i < values.size(); ++i) AppendBits(values[i], width);
}

namespace {

// The loops over whole bytes below are simple enough for compilers to vectorize. kWidth is 2, 4
// or 8.
template <size_t kWidth>
void PackBytes(const uint32_t* values, size_t num_bytes, uint8_t* out) {
  constexpr size_t kPerByte = 8 / kWidth;
  for (size_t i = 0; i < num_bytes; ++i) {
    uint32_t byte = 0;
    for (size_t k = 0; k < kPerByte; ++k) byte |= values[i * kPerByte + k] << (kWidth * k);
    out[i] = static_cast<uint8_t>(byte);
  }
}

template <size_t kWidth>
void UnpackBytes(const uint8_t* bytes, size_t num_bytes, uint32_t* values) {
  constexpr size_t kPerByte = 8 / kWidth;
  constexpr uint32_t kMask = (1u << kWidth) - 1;
  for (size_t i = 0; i < num_bytes; ++i) {
    for (size_t k = 0; k < kPerByte; ++k)
      values[i * kPerByte + k] = bytes[i] >> (kWidth * k) & kMask;
  }
}

void PackPairsOfBytes(std::span<const uint32_t> values, uint8_t* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<uint16_t>(values[i]);
    std::memcpy(out + sizeof value * i, &value, sizeof value);
  }
}

void UnpackPairsOfBytes(const uint8_t* bytes, std::span<uint32_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t value = 0;
    std::memcpy(&value, bytes + sizeof value * i, sizeof value);
    values[i] = value;
  }
}

}  // namespace

void BitWriter::AppendValues(std::span<const uint32_t> values, int width) {
  if (pending_bits_ == 0 && (width == 2 || width == 4 || width == 8)) {
    const size_t per_byte = 8 / static_cast<size_t>(width), num_bytes = values.size() / per_byte;
    if (width == 2) PackBytes<2>(values.data(), num_bytes, out_);
    if (width == 4) PackBytes<4>(values.data(), num_bytes, out_);
    if (width == 8) PackBytes<8>(values.data(), num_bytes, out_);
    out_ += num_bytes;
    values = values.subspan(num_bytes * per_byte);
  }
  if (pending_bits_ == 0 && width == 16) {
    PackPairsOfBytes(values, out_);
    out_ += 2 * values.size();
    return;
  }
  if (width <= 8) return AppendGroups<8>(values, width);
  if (width <= 16) return AppendGroups<4>(values, width);
  AppendGroups<2>(values, width);
}

void BitWriter::Finish() {
  for (; pending_bits_ > 0; pending_bits_ -= 8, pending_ >>= 8)
    *out_++ = static_cast<uint8_t>(pending_);
}

namespace {

// Unpacks kTogether values from each 64 bits that it loads, as long as 64 bits are left. REQUIRES
// that so many values have at most 57 bits, because they may begin at any bit of the first byte.
// Returns the number of unpacked values.
template <size_t kTogether>
size_t UnpackGroups(std::span<const uint8_t> bytes, uint64_t first_bit, int width,
                    std::span<uint32_t> values) {
  const uint64_t mask = (uint64_t{1} << width) - 1;
  size_t i = 0;
  for (; values.size() - i >= kTogether && first_bit / 8 + sizeof(uint64_t) <= bytes.size();
       i += kTogether, first_bit += kTogether * static_cast<uint64_t>(width)) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + first_bit / 8, sizeof bits);
    bits >>= first_bit % 8;
    for (size_t k = 0; k < kTogether; ++k, bits >>= width)
      values[i + k] = static_cast<uint32_t>(bits & mask);
  }
  return i;
}

size_t UnpackMost(std::span<const uint8_t> bytes, uint64_t first_bit, int width,
                  std::span<uint32_t> values) {
  if (first_bit % 8 == 0 && (width == 2 || width == 4 || width == 8)) {
    const size_t per_byte = 8 / static_cast<size_t>(width), num_bytes = values.size() / per_byte;
    const uint8_t* first_byte = bytes.data() + first_bit / 8;
    if (width == 2) UnpackBytes<2>(first_byte, num_bytes, values.data());
    if (width == 4) UnpackBytes<4>(first_byte, num_bytes, values.data());
    if (width == 8) UnpackBytes<8>(first_byte, num_bytes, values.data());
    return num_bytes * per_byte;
  }
  if (first_bit % 8 == 0 && width == 16) {
    UnpackPairsOfBytes(bytes.data() + first_bit / 8, values);
    return values.size();
  }
  if (width <= 7) return UnpackGroups<8>(bytes, first_bit, width, values);
  if (width <= 14) return UnpackGroups<4>(bytes, first_bit, width, values);
  return UnpackGroups<2>(bytes, first_bit, width, values);
}

}  // namespace

void Unpack(const PackedNumbers& numbers, std::span<uint32_t> values) {
  const std::span<const uint8_t> bytes = numbers.bytes;
  const int width = numbers.width;
  uint64_t first_bit = numbers.first_bit;
  if (width == 0) {
    std::fill(values.begin(), values.end(), 0);
    return;
  }
  const size_t num_unpacked = UnpackMost(bytes, first_bit, width, values);
  first_bit += num_unpacked * static_cast<uint64_t>(width);
  const uint64_t mask = (uint64_t{1} << width) - 1;
  for (uint32_t& value : values.subspan(num_unpacked)) {
    const std::span<const uint8_t> left = bytes.subspan(first_bit / 8);
    uint64_t bits = 0;
    std::memcpy(&bits, left.data(), std::min(left.size(), sizeof bits));
    value = static_cast<uint32_t>(bits >> (first_bit % 8) & mask);
    first_bit += static_cast<uint64_t>(width);
  }
}

bool Contains(const PackedNumbers& numbers, uint32_t number) {
  const auto width = static_cast<uint64_t>(numbers.width);
  uint64_t num_searched = 0;
  if (numbers.first_bit % 8 == 0 && (width == 2 || width == 4 || width == 8 || width == 16)) {
    const uint64_t per_word = 64 / width, num_words = numbers.count / per_word;
    // A one in the lowest bit of each number of a word, and ones in all bits but the highest.
    const uint64_t ones = ~uint64_t{0} / ((uint64_t{1} << width) - 1);
    const uint64_t all_but_highest = ones * ((uint64_t{1} << (width - 1)) - 1);
    const uint8_t* first_byte = numbers.bytes.data() + numbers.first_bit / 8;
    uint64_t found = 0;
    for (uint64_t i = 0; i < num_words; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, first_byte + i * sizeof word, sizeof word);
      const uint64_t difference = word ^ number * ones;  // 0 where a number is `number`
      // The sum carries into the highest bit of each number whose other bits are not all 0.
      found |=
          ~(((difference & all_but_highest) + all_but_highest) | difference) & ~all_but_highest;
    }
    if (found != 0) return true;
    num_searched = num_words * per_word;
  }
  std::array<uint32_t, 64> block;
  for (; num_searched < numbers.count; num_searched += block.size()) {
    const std::span<uint32_t> values =
        std::span(block).first(std::min<size_t>(block.size(), numbers.count - num_searched));
    Unpack({numbers.bytes, numbers.first_bit + num_searched * width, numbers.width, values.size()},
           values);
    if (std::find(values.begin(), values.end(), number) != values.end()) return true;
  }
  return false;
}

}  // namespace tern::codec

// Numbers of a few bits each, packed without gaps: number i of `width` bits occupies bits
// [i * width, (i + 1) * width) of the row, lowest bit first; bit k of a row is bit k % 8 of byte
// k / 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::codec {

// The largest number of bits that a packed number may have.
inline constexpr int kMaxPackedBits = 24;

// Writes a row to `out`, which must have room for the whole row.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}

  // Appends the values to the row, each in `width` bits. REQUIRES every value below 2^width and
  // width at most kMaxPackedBits.
  void AppendValues(std::span<const uint32_t> values, int width);
  // Writes the last bits, and fills the last byte with zeros. AppendValues must not be called
  // afterwards.
  void Finish();

 private:
  // Appends `num_bits` bits, 0 to 64. REQUIRES that the other bits of `bits` are zero.
  void AppendBits(uint64_t bits, int num_bits);
  template <size_t kTogether>
  void AppendGroups(std::span<const uint32_t> values, int width);

  uint8_t* out_;
  uint64_t pending_ = 0;  // the bits that are not written yet, fewer than 64
  int pending_bits_ = 0;  // the number of bits in pending_
};

// Numbers of a row: number i is at bits [first_bit + i * width, first_bit + (i + 1) * width).
// REQUIRES that these bits lie within `bytes`, and width at most kMaxPackedBits.
struct PackedNumbers {
  std::span<const uint8_t> bytes;  // the whole row
  uint64_t first_bit = 0;
  int width = 0;
  size_t count = 0;
};

// Sets values[i] to number i. REQUIRES as many values as numbers.
void Unpack(const PackedNumbers& numbers, std::span<uint32_t> values);

// Whether one of the numbers is `number`, which is below 2^width. Needs a fraction of the time of
// Unpack if the width is 2, 4, 8 or 16 and the numbers begin at a byte.
bool Contains(const PackedNumbers& numbers, uint32_t number);

}  // namespace tern::codec

// Numbers of a few bits each, packed without gaps: number i of `width` bits occupies bits
// [i * width, (i + 1) * width) of the row, lowest bit first; bit k of a row is bit k % 8 of byte
// k / 8.
#pragma once

#include <cstdint>
#include <span>

namespace tern::codec {

// The largest width.
inline constexpr int kMaxPackedBits = 24;

// Writes a row to `to`, which must be large enough for all of it.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* to) : to_(to) {}

  // REQUIRES every value below 2^width and width at most kMaxPackedBits.
  void Put(std::span<const uint32_t> values, int width);
  // Writes the last bits, and zeros up to the byte's end. No Put after it.
  void Finish();

 private:
  uint8_t* to_;
  uint64_t held_ = 0;  // bits not written yet, fewer than 32
  int bits_ = 0;       // the number of bits in held_
};

// values[i] = the number at bits [at + i * width, at + (i + 1) * width) of the row. REQUIRES that
// these lie within the bytes, and width at most kMaxPackedBits.
void UnpackBits(std::span<const uint8_t> bytes, uint64_t at, int width, std::span<uint32_t> values);

}  // namespace tern::codec

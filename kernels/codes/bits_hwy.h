// Converts the signs of ternary codes (kernels/codes/ternary.h) between two orders: packed, one bit
// per non-zero element, and spread, with the sign of element i at bit i. Works on 64 elements at a
// time. Compiled for each instruction set by Highway.
#if defined(TERN_KERNELS_BITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_BITS_INL
#undef TERN_KERNELS_BITS_INL
#else
#define TERN_KERNELS_BITS_INL
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && !defined(TERN_KERNELS_HAVE_BMI_HEADER)
#define TERN_KERNELS_HAVE_BMI_HEADER
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

// CompressBits returns the bits of `bits` at the positions where `mask` is one, moved to the low
// end (the instruction pext). ExpandBits moves the low bits of `bits`, in order, to the positions
// where `mask` is one (the instruction pdep).
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2

HWY_INLINE uint64_t CompressBits(uint64_t bits, uint64_t mask) { return _pext_u64(bits, mask); }
HWY_INLINE uint64_t ExpandBits(uint64_t bits, uint64_t mask) { return _pdep_u64(bits, mask); }

#else

// How CompressBits moves bits. A bit moves down by the number of zeros of `mask` below it, in steps
// of 1, 2, 4, ..., 32 positions. steps[k] marks the bits that move by 2^k, at their positions after
// the smaller steps.
struct BitMoves {
  explicit BitMoves(uint64_t mask) {
    uint64_t zeros = ~mask << 1;
    for (int k = 0; k < 6; ++k) {
      uint64_t parity =
          zeros;  // Bit i becomes the parity of the number of ones of `zeros` up to bit i.
      for (int shift = 1; shift < 64; shift *= 2) parity ^= parity << shift;
      steps[k] = parity & mask;
      mask = (mask ^ steps[k]) | steps[k] >> (1 << k);
      zeros &= ~parity;
    }
  }
  uint64_t steps[6];
};

HWY_INLINE uint64_t CompressBits(uint64_t bits, uint64_t mask) {
  const BitMoves moves(mask);
  bits &= mask;
  for (int k = 0; k < 6; ++k) {
    const uint64_t moving = bits & moves.steps[k];
    bits = (bits ^ moving) | moving >> (1 << k);
  }
  return bits;
}

HWY_INLINE uint64_t ExpandBits(uint64_t bits, uint64_t mask) {
  const BitMoves moves(mask);
  for (int k = 5; k >= 0; --k) {
    const uint64_t moved = bits << (1 << k);
    bits = (bits & ~moves.steps[k]) | (moved & moves.steps[k]);
  }
  return bits & mask;
}

#endif

// The number of one bits.
HWY_INLINE size_t CountOneBits(uint64_t word) {
  return static_cast<size_t>(__builtin_popcountll(word));
}

// Loads `size` bytes, at most 8, as a little-endian number.
HWY_INLINE uint64_t LoadWord(const uint8_t* bytes, size_t size) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return word;
}

// How many bytes can be loaded at byte `at` of a row of `size` bytes, at most 8.
HWY_INLINE size_t LoadableBytes(size_t size, size_t at) { return size - at < 8 ? size - at : 8; }

// Loads 64 bits of a row of `size` bytes, from bit `at` on. Bits beyond the row are zero.
HWY_INLINE uint64_t LoadBits(const uint8_t* bytes, size_t size, size_t at) {
  const size_t byte = at / 8, shift = at % 8;
  if (HWY_LIKELY(byte + 9 <= size)) {
    return LoadWord(bytes + byte, 8) >> shift | uint64_t{bytes[byte + 8]} << 1 << (63 - shift);
  }
  if (byte >= size) return 0;
  return LoadWord(bytes + byte, LoadableBytes(size, byte)) >> shift;
}

// Reads packed signs from bit `first_bit` on. Signs beyond `size` bytes are zero.
class SignReader {
 public:
  SignReader(const uint8_t* bytes, size_t size, size_t first_bit)
      : bytes_(bytes),
        size_(size),
        fast_end_(size < 8 ? 0 : 8 * (size - 7)),
        next_bit_(first_bit) {}
  // Returns the signs of the next 64 elements, spread: one for each one bit of `mask`, at the
  // position of that bit.
  HWY_INLINE uint64_t ReadSigns(uint64_t mask) {
    const size_t num_signs = CountOneBits(mask);
    // From any bit of the first byte on, eight bytes contain at least 57 signs.
    const uint64_t bits = HWY_LIKELY(num_signs <= 57 && next_bit_ < fast_end_)
                              ? LoadWord(bytes_ + next_bit_ / 8, 8) >> next_bit_ % 8
                              : LoadBits(bytes_, size_, next_bit_);
    next_bit_ += num_signs;
    return ExpandBits(bits, mask);
  }
  // The index of the bit that has the next sign.
  size_t next_bit() const { return next_bit_; }

 private:
  const uint8_t* bytes_;
  // For bits below fast_end_, eight bytes can be loaded from the bit's byte.
  size_t size_, fast_end_, next_bit_;
};

// Writes packed signs after the first `num_signs` signs of a row, then zeros up to the end of a
// 64-bit word. REQUIRES 8 bytes of room after the last sign.
class SignWriter {
 public:
  SignWriter(uint8_t* bytes, size_t num_signs)
      : next_word_(bytes + num_signs / 64 * 8),
        num_pending_(num_signs % 64),
        num_signs_(num_signs) {
    if (num_pending_ != 0) pending_ = LoadWord(next_word_, 8) & ((uint64_t{1} << num_pending_) - 1);
  }
  // Appends the signs of 64 elements: the bits of `signs` at the positions where `mask` is one.
  HWY_INLINE void WriteSigns(uint64_t signs, uint64_t mask) {
    const uint64_t bits = CompressBits(signs, mask);
    const size_t count = CountOneBits(mask);
    const uint64_t full_word = pending_ | bits << num_pending_;
    std::memcpy(next_word_, &full_word, 8);
    const uint64_t overflow = bits >> 1 >> (63 - num_pending_);
    num_pending_ += count;
    num_signs_ += count;
    const bool is_full = num_pending_ >= 64;
    pending_ = is_full ? overflow : full_word;
    next_word_ += is_full ? 8 : 0;
    num_pending_ &= 63;
  }
  // Writes the last word. Returns the number of signs in the row.
  size_t Finish() {
    std::memcpy(next_word_, &pending_, 8);
    return num_signs_;
  }

 private:
  uint8_t* next_word_;    // where the next 64-bit word is written
  size_t num_pending_;    // number of signs in pending_, below 64
  size_t num_signs_;      // number of signs in the row
  uint64_t pending_ = 0;  // the signs of the next word
};

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// The search for elements to send (sparse.h), vectorized, compiled once for each instruction set by
// Highway.
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/codes/sparse.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/sparse_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void PackAtLeast(const float* x, size_t n, float threshold, uint8_t* bits) {
  PackAtLeastRef(x, n, threshold, bits);
}
size_t CountAtLeast(const float* x, size_t n, float threshold) {
  return CountAtLeastRef(x, n, threshold);
}
size_t CollectAtLeast(const float* x, size_t n, float threshold, float* out) {
  return CollectAtLeastRef(x, n, threshold, out);
}
size_t ListOnes(const uint8_t* row, size_t begin, size_t end, uint16_t* positions) {
  return ListOnesRef(row, begin, end, positions);
}

#else

using DF = hn::CappedTag<float, 16>;

HWY_INLINE hn::Mask<DF> IsAtLeast(hn::Vec<DF> x, float threshold) {
  return hn::Ge(hn::Abs(x), hn::Set(DF(), threshold));
}

void PackAtLeast(const float* x, size_t n, float threshold, uint8_t* bits) {
  const DF d;
  const size_t num_whole = n - n % 64;
  for (size_t i = 0; i < num_whole; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0; k < 64; k += hn::Lanes(d)) {
      uint64_t lane_bits = 0;
      uint8_t bytes[8] = {};
      const auto v = hn::LoadU(d, x + i + k);
      hn::StoreMaskBits(d, hn::And(IsAtLeast(v, threshold), hn::Ne(v, hn::Zero(d))), bytes);
      std::memcpy(&lane_bits, bytes, sizeof lane_bits);
      word |= lane_bits << k;
    }
    std::memcpy(bits + i / 8, &word, sizeof word);
  }
  PackAtLeastRef(x + num_whole, n - num_whole, threshold, bits + num_whole / 8);
}

size_t CountAtLeast(const float* x, size_t n, float threshold) {
  const DF d;
  const size_t num_whole = n - n % hn::Lanes(d);
  size_t count = CountAtLeastRef(x + num_whole, n - num_whole, threshold);
  for (size_t i = 0; i < num_whole; i += hn::Lanes(d))
    count += hn::CountTrue(d, IsAtLeast(hn::LoadU(d, x + i), threshold));
  return count;
}

size_t CollectAtLeast(const float* x, size_t n, float threshold, float* out) {
  const DF d;
  const size_t num_whole = n - n % hn::Lanes(d);
  size_t count = 0;
  for (size_t i = 0; i < num_whole; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    const auto is_large = IsAtLeast(v, threshold);
    hn::StoreU(hn::Compress(v, is_large), d, out + count);
    count += hn::CountTrue(d, is_large);
  }
  return count + CollectAtLeastRef(x + num_whole, n - num_whole, threshold, out + count);
}

// Writes the positions of the ones of `word`, plus `base`, to `positions`, and returns their
// number. May write up to 4 numbers too many: they are written four at a time, so that few branches
// depend on how many there are.
HWY_INLINE size_t ListOnesOfWord(uint64_t word, uint32_t base, uint16_t* positions) {
  const auto count = static_cast<size_t>(std::popcount(word));
  size_t i = 0;
  do {
    for (const size_t end = i + 4; i < end; ++i, word &= word - 1)
      positions[i] = static_cast<uint16_t>(base + static_cast<uint32_t>(std::countr_zero(word)));
  } while (i < count);
  return count;
}

size_t ListOnes(const uint8_t* row, size_t begin, size_t end, uint16_t* positions) {
  size_t count = 0;
  for (size_t first = begin / 8 * 8; first < end; first += 64) {
    uint64_t word = 0;
    const size_t num_bits = end - first < 64 ? end - first : 64;
    std::memcpy(&word, row + first / 8, (num_bits + 7) / 8);
    if (num_bits < 64) word &= (uint64_t{1} << num_bits) - 1;
    if (first < begin) word &= ~uint64_t{0} << (begin - first);
    count += ListOnesOfWord(word, static_cast<uint32_t>(first - begin), positions + count);
  }
  return count;
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(PackAtLeast);
HWY_EXPORT(CountAtLeast);
HWY_EXPORT(CollectAtLeast);
HWY_EXPORT(ListOnes);
void PackAtLeast(const float* x, size_t n, float threshold, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackAtLeast)(x, n, threshold, bits);
}
size_t CountAtLeast(const float* x, size_t n, float threshold) {
  return HWY_DYNAMIC_DISPATCH(CountAtLeast)(x, n, threshold);
}
size_t CollectAtLeast(const float* x, size_t n, float threshold, float* out) {
  return HWY_DYNAMIC_DISPATCH(CollectAtLeast)(x, n, threshold, out);
}
size_t ListOnes(const uint8_t* row, size_t begin, size_t end, uint16_t* positions) {
  return HWY_DYNAMIC_DISPATCH(ListOnes)(row, begin, end, positions);
}

}  // namespace tern::kernels
#endif

// Groups of 1bitSGD (onebit.h), vectorized, compiled once for each instruction set by Highway.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/codes/onebit.h"
#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/onebit_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/bits_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t CountOneBitSigns(const OneBitSigns& signs) {
  uint64_t num_ones = 0;
  for (uint64_t i = 0; i < signs.count; i += 64) {
    const uint64_t num_left = signs.count - i;
    const uint64_t word = LoadBits(signs.bytes, signs.size, signs.first + i);
    num_ones += CountOneBits(num_left < 64 ? word & ((uint64_t{1} << num_left) - 1) : word);
  }
  return num_ones;
}

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

OneBitSums SumOneBit(const float* v, size_t n) { return SumOneBitRef(v, n); }
void PackOneBitSigns(const float* v, size_t n, uint8_t* signs) { PackOneBitSignsRef(v, n, signs); }
void ExpandOneBitSigns(const OneBitSigns& signs, float lower, float upper, float* values) {
  ExpandOneBitSignsRef(signs, lower, upper, values);
}

#else

constexpr size_t kBlock = 4096;  // elements
constexpr size_t kLanes = 128;   // lanes of stats.h

using DD = hn::CappedTag<double, 8>;
using DF = hn::CappedTag<float, 16>;

// Adds lane l + kHalf to each lane l < kHalf, then does so with half of kHalf, until one is left.
// `lower` and `upper` are two rows of lanes.
template <size_t kHalf>
HWY_INLINE void FoldLanes(double* lower, double* upper) {
  if constexpr (kHalf > 0) {
    const hn::CappedTag<double, HWY_MIN(kHalf, 8)> d;
    for (double* lanes : {lower, upper}) {
      for (size_t l = 0; l < kHalf; l += hn::Lanes(d))
        hn::Store(hn::Add(hn::Load(d, lanes + l), hn::LoadU(d, lanes + l + kHalf)), d, lanes + l);
    }
    FoldLanes<kHalf / 2>(lower, upper);
  }
}

// Returns the sums of `num_rows` rows of v and of `last_row`, if it is not null. A row has kRow
// elements.
template <size_t kRow>
HWY_INLINE OneBitSums SumRows(const float* v, size_t num_rows, const float* last_row) {
  const DD d;
  const hn::Rebind<float, DD> df;
  alignas(64) double lower_sums[kRow], upper_sums[kRow];
  OneBitSums sums{};
  for (size_t lane = 0; lane < kRow; lane += hn::Lanes(d)) {
    auto lower = hn::Zero(d), upper = lower;
    const auto add = [&](const float* x) HWY_ATTR {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, x));
      const auto is_negative = hn::Lt(value, hn::Zero(d));
      lower = hn::Add(lower, hn::IfThenElseZero(is_negative, value));
      upper = hn::Add(upper, hn::IfThenZeroElse(is_negative, value));
      sums.num_negatives += hn::CountTrue(d, is_negative);
    };
    for (size_t row = 0; row < num_rows; ++row) add(v + row * kRow + lane);
    if (last_row != nullptr) add(last_row + lane);
    hn::Store(lower, d, lower_sums + lane);
    hn::Store(upper, d, upper_sums + lane);
  }
  FoldLanes<kRow / 2>(lower_sums, upper_sums);
  sums.lower = lower_sums[0];
  sums.upper = upper_sums[0];
  return sums;
}

// Returns the sums of n elements in rows of kRow elements, the last one with zeros at its end.
template <size_t kRow>
HWY_INLINE OneBitSums SumInRows(const float* v, size_t n) {
  alignas(64) float last_row[kRow];
  const size_t num_rows = n / kRow, num_left = n % kRow;
  if (num_left == 0) return SumRows<kRow>(v, num_rows, nullptr);
  std::memcpy(last_row, v + n - num_left, num_left * sizeof(float));
  std::memset(last_row + num_left, 0, (kRow - num_left) * sizeof(float));
  return SumRows<kRow>(v, num_rows, last_row);
}

// Returns the sums of at most kBlock elements. A group that is shorter than a row of stats.h has
// zeros in the other lanes, so that a shorter row gives the same sums.
HWY_INLINE OneBitSums SumBlock(const float* v, size_t n) {
  if (n <= 16) return SumInRows<16>(v, n);
  if (n <= 32) return SumInRows<32>(v, n);
  if (n <= 64) return SumInRows<64>(v, n);
  return SumInRows<kLanes>(v, n);
}

OneBitSums SumOneBit(const float* v, size_t n) {
  OneBitSums sums{};
  for (size_t first = 0; first < n; first += kBlock) {
    const OneBitSums block = SumBlock(v + first, std::min(kBlock, n - first));
    sums.lower += block.lower;
    sums.upper += block.upper;
    sums.num_negatives += block.num_negatives;
  }
  return sums;
}

// The signs of 64 elements.
HWY_INLINE uint64_t SignsOf(const float* v) {
  const DF d;
  uint64_t word = 0;
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, v + i), hn::Zero(d)), bytes);
    word |= LoadWord(bytes, 8) << i;
  }
  return word;
}

void PackOneBitSigns(const float* v, size_t n, uint8_t* signs) {
  size_t i = 0;
  for (; n - i >= 64; i += 64) {
    const uint64_t word = SignsOf(v + i);
    std::memcpy(signs + i / 8, &word, 8);
  }
  if (i == n) return;
  float last_values[64] = {};
  std::memcpy(last_values, v + i, (n - i) * sizeof(float));
  const uint64_t word = SignsOf(last_values);
  std::memcpy(signs + i / 8, &word, PlaneBytes(n - i));
}

// Writes 32 values for the bits of `word`.
HWY_INLINE void ExpandWord(uint32_t word, hn::Vec<DF> lower, hn::Vec<DF> upper, float* values) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const auto words = hn::Set(du, word);
  auto bit = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto is_set = hn::RebindMask(d, hn::TestBit(words, bit));
    hn::StoreU(hn::IfThenElse(is_set, lower, upper), d, values + i);
    bit = hn::ShiftLeftSame(bit, static_cast<int>(hn::Lanes(d)));
  }
}

void ExpandOneBitSigns(const OneBitSigns& signs, float lower, float upper, float* values) {
  const auto lowers = hn::Set(DF(), lower), uppers = hn::Set(DF(), upper);
  uint64_t i = 0;
  const auto next_word = [&] {
    return static_cast<uint32_t>(LoadBits(signs.bytes, signs.size, signs.first + i));
  };
  for (; signs.count - i >= 32; i += 32) ExpandWord(next_word(), lowers, uppers, values + i);
  if (i == signs.count) return;
  float last_values[32];
  ExpandWord(next_word(), lowers, uppers, last_values);
  std::memcpy(values + i, last_values, (signs.count - i) * sizeof(float));
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(SumOneBit);
HWY_EXPORT(PackOneBitSigns);
HWY_EXPORT(CountOneBitSigns);
HWY_EXPORT(ExpandOneBitSigns);

OneBitSums SumOneBit(const float* v, size_t n) { return HWY_DYNAMIC_DISPATCH(SumOneBit)(v, n); }
void PackOneBitSigns(const float* v, size_t n, uint8_t* signs) {
  HWY_DYNAMIC_DISPATCH(PackOneBitSigns)(v, n, signs);
}
uint64_t CountOneBitSigns(const OneBitSigns& signs) {
  return HWY_DYNAMIC_DISPATCH(CountOneBitSigns)(signs);
}
void ExpandOneBitSigns(const OneBitSigns& signs, float lower, float upper, float* values) {
  HWY_DYNAMIC_DISPATCH(ExpandOneBitSigns)(signs, lower, upper, values);
}

}  // namespace tern::kernels
#endif

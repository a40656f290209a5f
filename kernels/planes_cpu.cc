#include <cstdint>
#include <cstring>

#include "kernels/planes.h"
#include "kernels/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/planes_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && !defined(TERN_KERNELS_HAVE_BMI_HEADER)
#define TERN_KERNELS_HAVE_BMI_HEADER
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // one lane: nothing to gain over the reference

void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes) {
  AddCodesRef(mask, signs, n, bits, planes);
}

bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean) {
  return DecodeMeanRef(planes, n, workers, s, first, count, mean);
}

#else

// The low bits of `signs` go to the ones of `mask`, in order.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2

HWY_INLINE uint64_t Expand(uint64_t signs, uint64_t mask) { return _pdep_u64(signs, mask); }

#else

// By halves, the other way round: a bit must move left by the number of zeros of `mask` below its
// place; `moves[k]` marks the places whose bit makes the step of 2^k on its way there.
HWY_INLINE uint64_t Expand(uint64_t signs, uint64_t mask) {
  const uint64_t original = mask;
  uint64_t moves[6];
  uint64_t zeros = ~mask << 1;
  for (int k = 0; k < 6; ++k) {
    uint64_t parity = zeros;  // of the zeros below each place
    for (int shift = 1; shift < 64; shift *= 2) parity ^= parity << shift;
    const uint64_t step = parity & mask;
    moves[k] = step;
    mask = (mask ^ step) | step >> (1 << k);
    zeros &= ~parity;
  }
  for (int k = 5; k >= 0; --k) {
    const uint64_t moved = signs << (1 << k);
    signs = (signs & ~moves[k]) | (moved & moves[k]);
  }
  return signs & original;
}

#endif

HWY_INLINE uint64_t LoadWord(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

// 64 bits from bit `at` on; what lies beyond the `size` bytes reads as zero.
HWY_INLINE uint64_t LoadBits(const uint8_t* bytes, size_t size, size_t at) {
  const size_t byte = at / 8;
  const size_t shift = at % 8;
  if (byte + 9 <= size) {
    const uint64_t low = LoadWord(bytes + byte, 8);
    return shift == 0 ? low : low >> shift | uint64_t{bytes[byte + 8]} << (64 - shift);
  }
  if (byte >= size) return 0;
  return LoadWord(bytes + byte, size - byte < 8 ? size - byte : 8) >> shift;
}

// planes += codes in [begin, begin + Lanes(d)) bytes: full adders along the planes. A code's bit 0
// is `mask`; all others are `negative`, -1 being all ones.
template <class D>
HWY_INLINE void AddBytes(D d, const uint8_t* mask, const uint8_t* negative, size_t stride, int bits,
                         uint8_t* planes) {
  const auto one = hn::LoadU(d, mask);
  const auto sign = hn::LoadU(d, negative);
  const auto lowest = hn::LoadU(d, planes);
  hn::StoreU(hn::Xor(lowest, one), d, planes);
  auto carry = hn::And(lowest, one);
  for (int p = 1; p < bits; ++p) {
    planes += stride;
    const auto plane = hn::LoadU(d, planes);
    const auto half = hn::Xor(plane, sign);
    hn::StoreU(hn::Xor(half, carry), d, planes);
    carry = hn::Or(hn::And(plane, sign), hn::And(half, carry));
  }
}

void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes) {
  constexpr size_t kBatch = 512;  // bytes of a plane at a time
  const size_t stride = PlaneBytes(n);
  const size_t sign_bytes = PlaneBytes(CountOnes(mask, n));
  uint8_t negative[kBatch];
  size_t sign = 0;
  for (size_t begin = 0; begin < stride; begin += kBatch) {
    const size_t size = stride - begin < kBatch ? stride - begin : kBatch;
    for (size_t i = 0; i < size; i += 8) {
      const uint64_t ones = LoadWord(mask + begin + i, size - i < 8 ? size - i : 8);
      const uint64_t word = Expand(LoadBits(signs, sign_bytes, sign), ones);
      std::memcpy(negative + i, &word, 8);
      sign += static_cast<size_t>(__builtin_popcountll(ones));
    }
    const hn::CappedTag<uint8_t, 64> d;
    const hn::CappedTag<uint8_t, 1> d1;
    size_t i = 0;
    for (; i + hn::Lanes(d) <= size; i += hn::Lanes(d)) {
      AddBytes(d, mask + begin + i, negative + i, stride, bits, planes + begin + i);
    }
    for (; i < size; ++i) {
      AddBytes(d1, mask + begin + i, negative + i, stride, bits, planes + begin + i);
    }
  }
}

// Beyond these the reference, which needs no table, is as good.
constexpr int kMostBits = 12;

// Sums as they index the table: k + workers, from two's complement; above 2 * workers: not a sum.
template <class DI>
HWY_INLINE hn::Vec<DI> SumIndex(DI di, const uint64_t* words, int bits, int workers, size_t i) {
  auto k = hn::Zero(di);
  for (int p = 0; p < bits; ++p) {
    uint8_t lanes[8];
    const uint64_t word = words[p] >> i;
    std::memcpy(lanes, &word, 8);
    k = hn::Or(k, hn::IfThenElseZero(hn::LoadMaskBits(di, lanes), hn::Set(di, 1 << p)));
  }
  return hn::And(hn::Add(k, hn::Set(di, workers)), hn::Set(di, (1 << bits) - 1));
}

// table[index] of `size` entries, a power of 2: from registers while a few hold it.
template <class D, class V>
HWY_INLINE hn::Vec<D> Lookup(D d, const float* table, size_t size, V index) {
  const hn::RebindToSigned<D> di;
  const size_t step = hn::Lanes(d);
  if (size > 4 * step) return hn::GatherIndex(d, table, index);
  const auto low = hn::Set(di, static_cast<int32_t>(step - 1));
  const auto lane = hn::IndicesFromVec(d, hn::And(index, low));
  const auto part = hn::AndNot(low, index);
  auto value = hn::TableLookupLanes(hn::LoadU(d, table), lane);
  for (size_t begin = step; begin < size; begin += step) {
    const auto mine = hn::Eq(part, hn::Set(di, static_cast<int32_t>(begin)));
    value = hn::IfThenElse(hn::RebindMask(d, mine),
                           hn::TableLookupLanes(hn::LoadU(d, table + begin), lane), value);
  }
  return value;
}

bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean) {
  const int bits = SumBits(workers);
  const size_t entries = 2 * static_cast<size_t>(workers) + 1;
  if (bits > kMostBits || count < entries) {
    return DecodeMeanRef(planes, n, workers, s, first, count, mean);
  }
  // Room for whole vectors behind a table that is shorter than one.
  alignas(64) float table[1 << kMostBits];
  for (size_t k = 0; k < entries; ++k) {
    const double sum = static_cast<double>(k) - workers;
    table[k] = static_cast<float>(static_cast<double>(s) * sum / workers);
  }
  const size_t size = size_t{1} << bits;
  for (size_t k = entries; k < size || k < 64; ++k) table[k] = 0;

  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  auto largest = hn::Zero(di);
  for (size_t j = 0; j < count; j += 64) {
    const size_t todo = count - j < 64 ? count - j : 64;
    uint64_t words[kMostBits];
    for (int p = 0; p < bits; ++p) {
      words[p] =
          LoadBits(planes + static_cast<size_t>(p) * PlaneBytes(n), PlaneBytes(n), first + j);
      if (todo < 64) words[p] &= (uint64_t{1} << todo) - 1;
    }
    float last[64];
    float* out = todo == 64 ? mean + j : last;
    for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
      const auto index = SumIndex(di, words, bits, workers, i);
      largest = hn::Max(largest, index);
      hn::StoreU(Lookup(d, table, size, index), d, out + i);
    }
    if (todo < 64) std::memcpy(mean + j, last, todo * sizeof(float));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest)) <= 2 * workers;
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(AddCodes);
HWY_EXPORT(DecodeMean);

void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes) {
  HWY_DYNAMIC_DISPATCH(AddCodes)(mask, signs, n, bits, planes);
}

bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean) {
  return HWY_DYNAMIC_DISPATCH(DecodeMean)(planes, n, workers, s, first, count, mean);
}

}  // namespace tern::kernels
#endif

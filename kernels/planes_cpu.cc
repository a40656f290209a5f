#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
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

void AddCodes(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held, int bits,
              uint8_t* planes) {
  AddCodesRef(codes, n, sum, held, bits, planes);
}

bool SignsHaveOnes(const uint8_t* mask, const uint8_t* signs, size_t n) {
  unsigned bad = 0;
  for (size_t i = 0; i < PlaneBytes(n); ++i) bad |= signs[i] & ~unsigned{mask[i]};
  return bad == 0;
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
  if (HWY_LIKELY(byte + 9 <= size)) {
    const uint64_t high = bytes[byte + 8];
    return LoadWord(bytes + byte, 8) >> shift | high << 1 << (63 - shift);
  }
  if (byte >= size) return 0;
  return LoadWord(bytes + byte, size - byte < 8 ? size - byte : 8) >> shift;
}

constexpr size_t kBatch = 512;   // bytes of a plane at a time
constexpr size_t kAhead = 2048;  // bytes of it that are fetched ahead

// A part of each plane, side by side in the first cache: in memory planes of chunks lie powers of 2
// apart and compete for the same few places of every cache.
struct Batch {
  alignas(64) uint8_t mask[kMostCodes][kBatch] = {};
  alignas(64) uint8_t sign[kMostCodes][kBatch] = {};  // placed
  alignas(64) uint8_t sum[kMostPlanes][kBatch];
  int held, bits;  // planes of it
};

// a + b + carry, bit by bit; `carry` becomes the next one.
template <class D, class V>
HWY_INLINE V FullAdd(D, V a, V b, V* carry) {
  const V half = hn::Xor(a, b);
  const V sum = hn::Xor(half, *carry);
  *carry = hn::Or(hn::And(a, b), hn::And(half, *carry));
  return sum;
}

// A sum of up to 4 codes in two's complement; above bit 3 as in bit 3.
template <class V>
struct Digits {
  V d0, d1, d2, d3;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Digits<V> SumOfTwo(D d, const Batch& batch, size_t c, size_t i) {
  const V mask_a = hn::Load(d, batch.mask[c] + i), mask_b = hn::Load(d, batch.mask[c + 1] + i);
  const V sign_a = hn::Load(d, batch.sign[c] + i), sign_b = hn::Load(d, batch.sign[c + 1] + i);
  Digits<V> sum;
  V carry = hn::And(mask_a, mask_b);
  sum.d0 = hn::Xor(mask_a, mask_b);
  sum.d1 = FullAdd(d, sign_a, sign_b, &carry);
  sum.d2 = sum.d3 = FullAdd(d, sign_a, sign_b, &carry);
  return sum;
}

template <size_t kCodes, class D, class V = hn::Vec<D>>
HWY_INLINE Digits<V> SumOfCodes(D d, const Batch& batch, size_t i) {
  if constexpr (kCodes == 1) {
    const V sign = hn::Load(d, batch.sign[0] + i);
    return {hn::Load(d, batch.mask[0] + i), sign, sign, sign};
  }
  const Digits<V> a = SumOfTwo(d, batch, 0, i);
  if constexpr (kCodes == 2) return a;
  const Digits<V> b = SumOfTwo(d, batch, 2, i);
  Digits<V> sum;
  V carry = hn::And(a.d0, b.d0);
  sum.d0 = hn::Xor(a.d0, b.d0);
  sum.d1 = FullAdd(d, a.d1, b.d1, &carry);
  sum.d2 = FullAdd(d, a.d2, b.d2, &carry);
  sum.d3 = FullAdd(d, a.d2, b.d2, &carry);
  return sum;
}

// sum += codes. Each plane of it is read before it is written.
template <size_t kCodes>
HWY_INLINE void AddBatch(Batch* batch) {
  const hn::CappedTag<uint8_t, 64> d;
  using V = hn::Vec<decltype(d)>;
  for (size_t i = 0; i < kBatch; i += hn::Lanes(d)) {
    const Digits<V> codes = SumOfCodes<kCodes>(d, *batch, i);
    V carry = hn::Zero(d);
    V plane = hn::Zero(d);  // beyond those held as the sign below
    int p = 0;
    const auto add = [&](V digit) HWY_ATTR {
      if (p < batch->held) plane = hn::Load(d, batch->sum[p] + i);
      hn::Store(FullAdd(d, plane, digit, &carry), d, batch->sum[p] + i);
      ++p;
    };
    add(codes.d0);
    add(codes.d1);
    if constexpr (kCodes > 1) add(codes.d2);
    while (p < batch->bits) add(codes.d3);
  }
}

// A part of a row on its way between memory and a batch; what comes after it is fetched.
HWY_INLINE void Copy(const uint8_t* from, size_t size, uint8_t* to) {
  for (size_t line = 0; line < size; line += 64) hwy::Prefetch(from + kAhead + line);
  std::memcpy(to, from, size);
}

// The next `size` bytes of signs, placed; `at` is the first of them.
HWY_INLINE void Place(const WorkerCodes& codes, size_t begin, size_t size, size_t* at,
                      uint8_t* placed) {
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t ones = LoadWord(codes.mask + begin + i, size - i < 8 ? size - i : 8);
    const uint64_t word = Expand(LoadBits(codes.signs.data(), codes.signs.size(), *at), ones);
    std::memcpy(placed + i, &word, 8);
    *at += static_cast<size_t>(__builtin_popcountll(ones));
  }
}

void AddCodes(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held, int bits,
              uint8_t* planes) {
  const size_t stride = PlaneBytes(n);
  size_t sign[kMostCodes] = {};
  Batch batch;
  batch.held = held;
  batch.bits = bits;
  for (size_t begin = 0; begin < stride; begin += kBatch) {
    const size_t size = stride - begin < kBatch ? stride - begin : kBatch;
    for (size_t c = 0; c < codes.size(); ++c) {
      Copy(codes[c].mask + begin, size, batch.mask[c]);
      if (codes[c].placed) {
        Copy(codes[c].signs.data() + begin, size, batch.sign[c]);
      } else {
        Place(codes[c], begin, size, &sign[c], batch.sign[c]);
      }
    }
    for (int p = 0; p < held; ++p) {
      Copy(sum + static_cast<size_t>(p) * stride + begin, size, batch.sum[p]);
    }
    if (codes.size() <= 1) {
      AddBatch<1>(&batch);
    } else if (codes.size() == 2) {
      AddBatch<2>(&batch);
    } else {
      AddBatch<4>(&batch);
    }
    for (int p = 0; p < bits; ++p) {
      std::memcpy(planes + static_cast<size_t>(p) * stride + begin, batch.sum[p], size);
    }
  }
}

bool SignsHaveOnes(const uint8_t* mask, const uint8_t* signs, size_t n) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t size = PlaneBytes(n);
  auto bad = hn::Zero(d);
  unsigned rest = 0;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= size; i += hn::Lanes(d)) {
    bad = hn::Or(bad, hn::AndNot(hn::LoadU(d, mask + i), hn::LoadU(d, signs + i)));
  }
  for (; i < size; ++i) rest |= signs[i] & ~unsigned{mask[i]};
  return rest == 0 && hn::AllTrue(d, hn::Eq(bad, hn::Zero(d)));
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
HWY_EXPORT(SignsHaveOnes);
HWY_EXPORT(DecodeMean);

void AddCodes(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held, int bits,
              uint8_t* planes) {
  HWY_DYNAMIC_DISPATCH(AddCodes)(codes, n, sum, held, bits, planes);
}

bool SignsHaveOnes(const uint8_t* mask, const uint8_t* signs, size_t n) {
  return HWY_DYNAMIC_DISPATCH(SignsHaveOnes)(mask, signs, n);
}

bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean) {
  return HWY_DYNAMIC_DISPATCH(DecodeMean)(planes, n, workers, s, first, count, mean);
}

}  // namespace tern::kernels
#endif

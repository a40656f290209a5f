// Vectorized functions of planes.h, compiled once for each instruction set by Highway.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/planes_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/bits_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void AddCodes(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
              int old_bits, int new_bits, uint8_t* planes) {
  AddCodesRef(codes, code_bits, n, stride, old_bits, new_bits, planes);
}

size_t SpreadSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* plane) {
  return SpreadSignsRef(mask, n, signs, plane);
}

bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean) {
  return DecodeMeanRef(planes, n, table.max_sum(), table.scaler(), first, count, mean);
}

#else

// How many bytes ahead rows of bits are prefetched. SpreadSigns prefetches the mask twice as far
// ahead.
constexpr size_t kPrefetchBytes = 512;

// The arguments of AddCodes.
struct CodeBatch {
  WorkerCodes codes[kMaxCodes];
  int code_bits;
  size_t code_stride;  // bytes from one plane of a code to the next
  uint8_t* planes;
  size_t plane_bytes, stride;  // bytes of a plane, and bytes from one plane of the sum to the next
  int old_bits, new_bits;      // number of planes of the sum before and after the addition
};

// Adds the bits of a, b and *carry at each position. Returns the low bits of the sums; *carry
// becomes the high bits.
template <class D, class V>
HWY_INLINE V FullAdd(D, V a, V b, V* carry) {
  const V a_xor_b = hn::Xor(a, b);
  const V sum = hn::Xor(a_xor_b, *carry);
  *carry = hn::Or(hn::And(a, b), hn::And(a_xor_b, *carry));
  return sum;
}

// Computes the sums of kCodes codes in two's complement bit by bit, the lowest first, for the
// elements of one vector from byte i of the planes on. kBits is the number of bits of a code, or 0
// if that is not known at compile time.
template <int kBits, size_t kCodes, class D, class V = hn::Vec<D>>
class DigitsOfSum {
 public:
  HWY_INLINE DigitsOfSum(D d, const CodeBatch& batch, size_t i)
      : carry_(hn::Zero(d)), carry_of_rest_(hn::Zero(d)), carry_of_halves_(hn::Zero(d)) {
    for (size_t c = 0; c < kCodes; ++c) {
      low_[c] = batch.codes[c].low + i;
      signs_[c] = batch.codes[c].signs + i;
      is_nonzero_[c] = hn::Zero(d);
    }
  }

  // Returns bit p of the sums. REQUIRES calls with p = 0, 1, 2 ...
  HWY_INLINE V Next(D d, const CodeBatch& batch, int p) {
    const int code_bits = kBits == 0 ? batch.code_bits : kBits;
    for (size_t c = 0; c < kCodes; ++c) {
      if (p + 1 < code_bits) {
        bit_[c] = hn::LoadU(d, low_[c] + static_cast<size_t>(p) * batch.code_stride);
        is_nonzero_[c] = hn::Or(is_nonzero_[c], bit_[c]);
      } else if (p + 1 == code_bits) {
        bit_[c] = hn::And(is_nonzero_[c], hn::LoadU(d, signs_[c]));
      }
    }
    if constexpr (kCodes == 1) return bit_[0];
    const V two = FullAdd(d, bit_[0], bit_[1], &carry_);
    if constexpr (kCodes == 2) return two;
    const V rest = kCodes == 3 ? bit_[2] : FullAdd(d, bit_[2], bit_[3], &carry_of_rest_);
    return FullAdd(d, two, rest, &carry_of_halves_);
  }

 private:
  const uint8_t* low_[kCodes];
  const uint8_t* signs_[kCodes];
  V is_nonzero_[4];  // whether a bit so far was 1
  V bit_[4];         // the present bit of each code
  V carry_, carry_of_rest_, carry_of_halves_;
};

// Adds the codes to the sum, for the elements of one vector from byte i of the planes on.
template <int kBits, size_t kCodes, class D, class V = hn::Vec<D>>
HWY_INLINE void AddCodesToVector(D d, const CodeBatch& batch, size_t i) {
  DigitsOfSum<kBits, kCodes, D> digits(d, batch, i);
  uint8_t* plane_byte = batch.planes + i;
  V carry = hn::Zero(d);
  V plane = hn::Zero(d);  // For p >= batch.old_bits: the sign, the sum's last plane.
  int p = 0;
  const auto add = [&](V digit) HWY_ATTR {
    if (p < batch.old_bits) plane = hn::LoadU(d, plane_byte);
    hn::StoreU(FullAdd(d, plane, digit, &carry), d, plane_byte);
    ++p;
    plane_byte += batch.stride;
  };
  // The sum has at least so many planes.
  const int first_bits = (kBits == 0 ? batch.code_bits : kBits) + (kCodes > 1 ? 1 : 0);
  V digit = hn::Zero(d);
  for (int q = 0; q < first_bits; ++q) {
    digit = digits.Next(d, batch, q);
    add(digit);
  }
  // The sum of three or four codes has one more bit before its bits are all the same.
  if constexpr (kCodes > 2) digit = digits.Next(d, batch, first_bits);
  while (p < batch.new_bits) add(digit);
}

// Adds the first kCodes codes of the batch to the sum.
template <int kBits, size_t kCodes>
HWY_INLINE void AddBatch(const CodeBatch& batch) {
  const hn::CappedTag<uint8_t, 64> d;
  const int low_bits = (kBits == 0 ? batch.code_bits : kBits) - 1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= batch.plane_bytes; i += hn::Lanes(d)) {
    for (size_t c = 0; c < kCodes && (kBits == 2 || i % 64 == 0); ++c) {
      for (int p = 0; p < low_bits; ++p)
        hwy::Prefetch(batch.codes[c].low + static_cast<size_t>(p) * batch.code_stride + i +
                      kPrefetchBytes);
      hwy::Prefetch(batch.codes[c].signs + i + kPrefetchBytes);
    }
    AddCodesToVector<kBits, kCodes>(d, batch, i);
  }
  for (; i < batch.plane_bytes; ++i)
    AddCodesToVector<kBits, kCodes>(hn::CappedTag<uint8_t, 1>(), batch, i);
}

template <int kBits>
HWY_INLINE void AddBatchOf(size_t num_codes, const CodeBatch& batch) {
  if (num_codes == 1) return AddBatch<kBits, 1>(batch);
  if (num_codes == 2) return AddBatch<kBits, 2>(batch);
  if (num_codes == 3) return AddBatch<kBits, 3>(batch);
  AddBatch<kBits, 4>(batch);
}

// Adds codes of more than two bits, block by block. The planes of a code are often a large power of
// 2 apart, so that they compete for the same cache sets: this reads at most 8 planes at a time, and
// the block of the sum stays in the cache.
void AddInBlocks(size_t num_codes, const CodeBatch& batch) {
  constexpr size_t kBlockBytes = 2048;
  const size_t group = batch.code_bits <= 4 ? 2 : 1;  // codes that are added together
  for (size_t at = 0; at < batch.plane_bytes; at += kBlockBytes) {
    CodeBatch block = batch;
    block.planes = batch.planes + at;
    block.plane_bytes = std::min(kBlockBytes, batch.plane_bytes - at);
    for (size_t c = 0; c < num_codes; c += group) {
      const size_t size = std::min(group, num_codes - c);
      for (size_t k = 0; k < size; ++k)
        block.codes[k] = {batch.codes[c + k].low + at, batch.codes[c + k].signs + at};
      AddBatchOf<0>(size, block);
      block.old_bits = batch.new_bits;
    }
  }
}

void AddCodes(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
              int old_bits, int new_bits, uint8_t* planes) {
  const size_t plane_bytes = PlaneBytes(n);
  CodeBatch batch{{}, code_bits, plane_bytes, planes, plane_bytes, stride, old_bits, new_bits};
  for (size_t c = 0; c < codes.size(); ++c) batch.codes[c] = codes[c];
  if (code_bits == 2) return AddBatchOf<2>(codes.size(), batch);
  AddInBlocks(codes.size(), batch);
}

size_t SpreadSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* plane) {
  const size_t plane_bytes = PlaneBytes(n);
  SignReader reader(signs.data(), signs.size(), 0);
  size_t i = 0;
  for (; i + 8 <= plane_bytes; i += 8) {
    if (i % 64 == 0) {
      hwy::Prefetch(mask + i + 2 * kPrefetchBytes);
      hwy::Prefetch(signs.data() + reader.next_bit() / 8 + kPrefetchBytes);
    }
    const uint64_t negative = reader.ReadSigns(LoadWord(mask + i, 8));
    std::memcpy(plane + i, &negative, 8);
  }
  if (i < plane_bytes) {
    const uint64_t negative = reader.ReadSigns(LoadWord(mask + i, plane_bytes - i));
    std::memcpy(plane + i, &negative, plane_bytes - i);
  }
  return reader.next_bit();
}

using D8 = hn::CappedTag<uint8_t, 64>;
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DI8 = hn::Rebind<uint8_t, DF>;

// Converts 64 sums k to indices k + max_sum of a MeanTable. Bit j of words[p] is bit p of sum j.
// Raises *largest to the largest index of each lane; an index above 2 * max_sum comes from an
// invalid sum. REQUIRES bits <= 8.
HWY_INLINE void IndicesOfSums(const uint64_t* words, int bits, int max_sum, uint8_t* indices,
                              hn::Vec<D8>* largest) {
  const D8 d;
  const auto offset = hn::Set(d, static_cast<uint8_t>(max_sum));
  const auto index_mask = hn::Set(d, static_cast<uint8_t>((1 << bits) - 1));
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    auto k = hn::Zero(d);
    for (int p = 0; p < bits; ++p) {
      uint8_t lanes[8];
      const uint64_t word = words[p] >> i;
      std::memcpy(lanes, &word, 8);
      const auto bit = hn::Set(d, static_cast<uint8_t>(1 << p));
      k = hn::Or(k, hn::IfThenElseZero(hn::LoadMaskBits(d, lanes), bit));
    }
    const auto index = hn::And(hn::Add(k, offset), index_mask);
    *largest = hn::Max(*largest, index);
    hn::Store(index, d, indices + i);
  }
}

// Returns the indices that IndicesOfSums computes, but only for one vector of elements from element
// i on, and for any number of bits.
HWY_INLINE hn::Vec<DI> IndicesOfVector(DI di, const uint64_t* words, int bits, int max_sum,
                                       size_t i) {
  auto k = hn::Zero(di);
  for (int p = 0; p < bits; ++p) {
    uint8_t lanes[8];
    const uint64_t word = words[p] >> i;
    std::memcpy(lanes, &word, 8);
    k = hn::Or(k, hn::IfThenElseZero(hn::LoadMaskBits(di, lanes), hn::Set(di, 1 << p)));
  }
  return hn::And(hn::Add(k, hn::Set(di, max_sum)), hn::Set(di, (1 << bits) - 1));
}

// Returns the mean of each sum, index - max_sum, by the arithmetic of MeanTable::Of.
HWY_INLINE hn::Vec<DF> ComputeMeans(DF d, const MeanTable& table, hn::Vec<DI> index) {
  const hn::Half<DI> dih;
  const hn::Half<DF> dfh;
  const hn::Rebind<double, hn::Half<DF>> dd;
  const auto scaler = hn::Set(dd, static_cast<double>(table.scaler()));
  const auto max_sum = hn::Set(dd, static_cast<double>(table.max_sum()));
  const auto sum = hn::Sub(index, hn::Set(DI(), table.max_sum()));
  const auto mean_of = [&](hn::Vec<hn::Half<DI>> half) HWY_ATTR {
    return hn::DemoteTo(dfh, hn::Div(hn::Mul(scaler, hn::PromoteTo(dd, half)), max_sum));
  };
  return hn::Combine(d, mean_of(hn::UpperHalf(dih, sum)), mean_of(hn::LowerHalf(dih, sum)));
}

// Returns table[index] for each lane. The table has `size` entries, a power of 2. Small tables are
// held in registers.
HWY_INLINE hn::Vec<DF> Lookup(DF d, const float* table, size_t size, hn::Vec<DI> index) {
  const DI di;
  const size_t num_lanes = hn::Lanes(d);
  if (size <= num_lanes)
    return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, index));
  if (size > 4 * num_lanes) return hn::GatherIndex(d, table, index);
  const auto low_mask = hn::Set(di, static_cast<int32_t>(num_lanes - 1));
  const auto lane = hn::IndicesFromVec(d, hn::And(index, low_mask));
  const auto vector_begin = hn::AndNot(low_mask, index);
  auto value = hn::TableLookupLanes(hn::LoadU(d, table), lane);
  for (size_t begin = num_lanes; begin < size; begin += num_lanes) {
    const auto is_in_vector = hn::Eq(vector_begin, hn::Set(di, static_cast<int32_t>(begin)));
    value = hn::IfThenElse(hn::RebindMask(d, is_in_vector),
                           hn::TableLookupLanes(hn::LoadU(d, table + begin), lane), value);
  }
  return value;
}

// The arguments of DecodeMean.
struct DecodeArgs {
  const uint8_t* planes;
  size_t stride, first, count;  // `stride`: bytes from one plane to the next
  const MeanTable& table;
};

// The largest indices so far, per lane. An index above 2 * max_sum reveals an invalid sum.
struct MaxIndices {
  hn::Vec<D8> byte_indices;  // for sums of at most 8 bits
  hn::Vec<DI> word_indices;  // for longer sums
};

// Writes the means of 64 elements. Bit j of words[p] is bit p of the sum of element j. kBits is the
// number of planes, or 0 if that is not known at compile time.
template <int kBits>
HWY_INLINE void MeansOfWords(const uint64_t* words, const MeanTable& table, float* mean,
                             MaxIndices* largest) {
  const int bits = kBits == 0 ? table.bits() : kBits;
  const DF d;
  if (bits > MeanTable::kMaxBits) {
    for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
      const auto index = IndicesOfVector(DI(), words, bits, table.max_sum(), i);
      largest->word_indices = hn::Max(largest->word_indices, index);
      hn::StoreU(ComputeMeans(d, table, index), d, mean + i);
    }
    return;
  }
  alignas(64) uint8_t indices[64];
  IndicesOfSums(words, bits, table.max_sum(), indices, &largest->byte_indices);
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    const auto index = hn::PromoteTo(DI(), hn::Load(DI8(), indices + i));
    hn::StoreU(Lookup(d, table.means(), size_t{1} << bits, index), d, mean + i);
  }
}

// DecodeMean for sums that have kBits planes; kBits is 0 if the number is not known at compile
// time.
template <int kBits>
bool DecodeRange(const DecodeArgs& args, float* mean) {
  const int bits = kBits == 0 ? args.table.bits() : kBits;
  MaxIndices largest{hn::Zero(D8()), hn::Zero(DI())};
  uint64_t words[kMaxSumBits];
  size_t j = 0;
  if (args.first % 8 == 0) {
    for (; j + 64 <= args.count; j += 64) {
      const uint8_t* plane_byte = args.planes + (args.first + j) / 8;
      for (int p = 0; p < bits; ++p, plane_byte += args.stride) words[p] = LoadWord(plane_byte, 8);
      MeansOfWords<kBits>(words, args.table, mean + j, &largest);
    }
  }
  for (; j < args.count; j += 64) {
    const size_t n = args.count - j < 64 ? args.count - j : 64;
    for (int p = 0; p < bits; ++p) {
      const uint8_t* plane = args.planes + static_cast<size_t>(p) * args.stride;
      words[p] = LoadBits(plane, args.stride, args.first + j) & ~uint64_t{0} >> (64 - n);
    }
    float means[64];
    MeansOfWords<kBits>(words, args.table, means, &largest);
    std::memcpy(mean + j, means, n * sizeof(float));
  }
  const int max_index = 2 * args.table.max_sum();
  if (bits > MeanTable::kMaxBits)
    return hn::AllFalse(DI(), hn::Gt(largest.word_indices, hn::Set(DI(), max_index)));
  const auto max_index8 = hn::Set(D8(), static_cast<uint8_t>(max_index));
  return hn::AllFalse(D8(), hn::Gt(largest.byte_indices, max_index8));
}

bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean) {
  if (table.means() == nullptr) {
    return DecodeMeanRef(planes, n, table.max_sum(), table.scaler(), first, count, mean);
  }
  const DecodeArgs args{planes, PlaneBytes(n), first, count, table};
  switch (table.bits()) {
    case 2:
      return DecodeRange<2>(args, mean);
    case 3:
      return DecodeRange<3>(args, mean);
    case 4:
      return DecodeRange<4>(args, mean);
    case 5:
      return DecodeRange<5>(args, mean);
    default:
      return DecodeRange<0>(args, mean);
  }
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(AddCodes);
HWY_EXPORT(SpreadSigns);
HWY_EXPORT(DecodeMean);

void AddCodes(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
              int old_bits, int new_bits, uint8_t* planes) {
  HWY_DYNAMIC_DISPATCH(AddCodes)(codes, code_bits, n, stride, old_bits, new_bits, planes);
}

size_t SpreadSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* plane) {
  return HWY_DYNAMIC_DISPATCH(SpreadSigns)(mask, n, signs, plane);
}

bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean) {
  return HWY_DYNAMIC_DISPATCH(DecodeMean)(planes, n, table, first, count, mean);
}

}  // namespace tern::kernels
#endif

// Vectorized conversions of ans_symbols.h, compiled once for each instruction set by Highway.
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/ans_symbols_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/bits_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t sign_bit, uint8_t* symbols) {
  return SymbolsOfCodeRef(mask, n, signs, sign_bytes, sign_bit, symbols);
}
size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                     uint8_t* signs) {
  return CodeOfSymbolsRef(symbols, n, sign_bit, mask, signs);
}
void SymbolsOfPlanes(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                     size_t count, uint8_t* symbols) {
  SymbolsOfPlanesRef(planes, n, bits, zero, first, count, symbols);
}
void PlanesOfSymbols(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                     uint8_t* planes) {
  PlanesOfSymbolsRef(symbols, n, bits, zero, stride, planes);
}
void MeansOfSymbols(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean) {
  MeansOfSymbolsRef(symbols, n, max_sum, s, mean);
}

#else

using D = hn::CappedTag<uint8_t, 64>;

// Returns a mask of lanes: lane j is set if bit i + j of the 64-bit `word` is one.
HWY_INLINE hn::Mask<D> LanesOf(const uint64_t& word, size_t i) {
  uint8_t bytes[8];
  const uint64_t shifted_word = word >> i;
  std::memcpy(bytes, &shifted_word, 8);
  return hn::LoadMaskBits(D(), bytes);
}

// Returns the lanes of a mask as bits.
HWY_INLINE uint64_t BitsOf(hn::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(D(), mask, bytes);
  return LoadWord(bytes, 8);
}

size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t sign_bit, uint8_t* symbols) {
  const D d;
  SignReader reader(signs, sign_bytes, sign_bit);
  for (size_t i = 0; i < n; i += 64) {
    const uint64_t ones = LoadWord(mask + i / 8, LoadableBytes(PlaneBytes(n), i / 8));
    const uint64_t negative = reader.ReadSigns(ones), positive = ones & ~negative;
    uint8_t last_symbols[64];
    uint8_t* const target = n - i < 64 ? last_symbols : symbols + i;
    for (size_t j = 0; j < 64; j += hn::Lanes(d)) {
      // VecFromMask makes lanes whose mask bit is 1 all ones, which is -1, and the others 0.
      const auto minus_positive = hn::VecFromMask(d, LanesOf(positive, j));
      const auto minus_negative = hn::VecFromMask(d, LanesOf(negative, j));
      hn::StoreU(hn::Add(hn::Sub(hn::Set(d, 1), minus_positive), minus_negative), d, target + j);
    }
    if (target == last_symbols) std::memcpy(symbols + i, last_symbols, n - i);
  }
  return reader.next_bit();
}

size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                     uint8_t* signs) {
  const D d;
  SignWriter writer(signs, sign_bit);
  for (size_t i = 0; i < n; i += 64) {
    uint8_t last_symbols[64];
    const uint8_t* source = symbols + i;
    if (n - i < 64) {
      std::memset(last_symbols, 1, sizeof last_symbols);
      std::memcpy(last_symbols, source, n - i);
      source = last_symbols;
    }
    uint64_t zeros = 0, negative = 0;
    for (size_t j = 0; j < 64; j += hn::Lanes(d)) {
      const auto symbol_vector = hn::LoadU(d, source + j);
      zeros |= BitsOf(hn::Eq(symbol_vector, hn::Set(d, 1))) << j;
      negative |= BitsOf(hn::Eq(symbol_vector, hn::Zero(d))) << j;
    }
    const uint64_t ones = ~zeros;
    std::memcpy(mask + i / 8, &ones, LoadableBytes(PlaneBytes(n), i / 8));
    writer.WriteSigns(negative, ones);
  }
  return writer.Finish();
}

// Converts 64 integers to symbols. Bit j of words[p] is bit p of integer j.
template <size_t... p>
HWY_INLINE void SymbolsOfWords(const uint64_t* words, int zero, uint8_t* symbols,
                               std::index_sequence<p...>) {
  const D d;
  const auto modulo_mask = hn::Set(d, static_cast<uint8_t>((1 << sizeof...(p)) - 1));
  for (size_t j = 0; j < 64; j += hn::Lanes(d)) {
    auto k = hn::Set(d, static_cast<uint8_t>(zero));
    ((k = hn::Add(k, hn::IfThenElseZero(LanesOf(words[p], j), hn::Set(d, uint8_t{1 << p})))), ...);
    hn::StoreU(hn::And(k, modulo_mask), d, symbols + j);
  }
}

// SymbolsOfPlanes for integers of kBits bits.
template <size_t kBits>
void SymbolsOfBits(const uint8_t* planes, size_t n, int zero, size_t first, size_t count,
                   uint8_t* symbols) {
  const size_t plane_bytes = PlaneBytes(n);
  for (size_t i = 0; i < count; i += 64) {
    const size_t byte = (first + i) / 8, num_bytes = LoadableBytes(plane_bytes, byte);
    uint64_t words[kBits];
    for (size_t p = 0; p < kBits; ++p) {
      words[p] = num_bytes == 8 ? LoadWord(planes + p * plane_bytes + byte, 8)
                                : LoadWord(planes + p * plane_bytes + byte, num_bytes);
    }
    uint8_t last_symbols[64];
    uint8_t* const target = count - i < 64 ? last_symbols : symbols + i;
    SymbolsOfWords(words, zero, target, std::make_index_sequence<kBits>());
    if (target == last_symbols) std::memcpy(symbols + i, last_symbols, count - i);
  }
}

void SymbolsOfPlanes(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                     size_t count, uint8_t* symbols) {
  constexpr decltype(&SymbolsOfBits<2>) kFunctions[] = {
      SymbolsOfBits<2>, SymbolsOfBits<3>, SymbolsOfBits<4>, SymbolsOfBits<5>,
      SymbolsOfBits<6>, SymbolsOfBits<7>, SymbolsOfBits<8>};
  kFunctions[bits - 2](planes, n, zero, first, count, symbols);
}

void PlanesOfSymbols(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                     uint8_t* planes) {
  const D d;
  const auto offset = hn::Set(d, static_cast<uint8_t>(zero));
  for (size_t i = 0; i < n; i += 64) {
    uint8_t last_symbols[64];
    const uint8_t* source = symbols + i;
    if (n - i < 64) {
      std::memset(last_symbols, zero, sizeof last_symbols);
      std::memcpy(last_symbols, source, n - i);
      source = last_symbols;
    }
    const size_t num_bytes = LoadableBytes(PlaneBytes(n), i / 8);
    for (int p = 0; p < bits; ++p) {
      const auto bit = hn::Set(d, static_cast<uint8_t>(1 << p));
      uint64_t word = 0;
      for (size_t j = 0; j < 64; j += hn::Lanes(d))
        word |= BitsOf(hn::TestBit(hn::Sub(hn::LoadU(d, source + j), offset), bit)) << j;
      std::memcpy(planes + static_cast<size_t>(p) * stride + i / 8, &word, num_bytes);
    }
  }
}

// Returns table[index] for each lane. The table has `size` entries, padded to whole vectors. Small
// tables are held in registers.
template <class DF, class V>
HWY_INLINE hn::Vec<DF> Lookup(DF d, const float* table, size_t size, V index) {
  const hn::RebindToSigned<DF> di;
  const size_t num_lanes = hn::Lanes(d);
  if (size > 4 * num_lanes) return hn::GatherIndex(d, table, index);
  const auto low_mask = hn::Set(di, static_cast<int32_t>(num_lanes - 1));
  const auto lane = hn::IndicesFromVec(d, hn::And(index, low_mask));
  auto value = hn::TableLookupLanes(hn::LoadU(d, table), lane);
  for (size_t begin = num_lanes; begin < size; begin += num_lanes) {
    const auto is_beyond = hn::Gt(index, hn::Set(di, static_cast<int32_t>(begin - 1)));
    value = hn::IfThenElse(hn::RebindMask(d, is_beyond),
                           hn::TableLookupLanes(hn::LoadU(d, table + begin), lane), value);
  }
  return value;
}

void MeansOfSymbols(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t num_lanes = hn::Lanes(d);
  const size_t num_entries = 2 * static_cast<size_t>(max_sum) + 1;
  alignas(64) float table[256 + 16] = {};
  for (size_t k = 0; k < num_entries; ++k) {
    const auto symbol = static_cast<uint8_t>(k);
    MeansOfSymbolsRef(&symbol, 1, max_sum, s, table + k);
  }
  size_t i = 0;
  for (; i + num_lanes <= n; i += num_lanes) {
    const auto index = hn::PromoteTo(di, hn::LoadU(d8, symbols + i));
    hn::StoreU(Lookup(d, table, num_entries, index), d, mean + i);
  }
  for (; i < n; ++i) mean[i] = table[symbols[i]];
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(SymbolsOfCode);
HWY_EXPORT(CodeOfSymbols);
HWY_EXPORT(SymbolsOfPlanes);
HWY_EXPORT(PlanesOfSymbols);
HWY_EXPORT(MeansOfSymbols);

size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t sign_bit, uint8_t* symbols) {
  return HWY_DYNAMIC_DISPATCH(SymbolsOfCode)(mask, n, signs, sign_bytes, sign_bit, symbols);
}

size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                     uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(CodeOfSymbols)(symbols, n, sign_bit, mask, signs);
}

void SymbolsOfPlanes(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                     size_t count, uint8_t* symbols) {
  HWY_DYNAMIC_DISPATCH(SymbolsOfPlanes)(planes, n, bits, zero, first, count, symbols);
}

void PlanesOfSymbols(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                     uint8_t* planes) {
  HWY_DYNAMIC_DISPATCH(PlanesOfSymbols)(symbols, n, bits, zero, stride, planes);
}

void MeansOfSymbols(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean) {
  HWY_DYNAMIC_DISPATCH(MeansOfSymbols)(symbols, n, max_sum, s, mean);
}

}  // namespace tern::kernels
#endif

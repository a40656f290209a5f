// The vector operations of the entropy coder (ans.h) that ans_cpu.cc uses, compiled for each
// instruction set by Highway: the eight states of a block in vectors, the words that are moved into
// and out of them, and the lookups by symbol and by slot.
#ifndef TERN_KERNELS_ANS_INL_ONCE
#define TERN_KERNELS_ANS_INL_ONCE

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/codes/ans.h"

namespace tern::kernels {

// For each subset of eight lanes (bit j of the index: lane j is in the subset), a byte shuffle that
// reorders eight 16-bit words.
using WordOrders = std::array<std::array<uint8_t, 16>, 256>;

// Makes the shuffle `order` move word `from` to word `to`.
constexpr void SetWord(std::array<uint8_t, 16>* order, size_t to, size_t from) {
  (*order)[2 * to] = static_cast<uint8_t>(2 * from);
  (*order)[2 * to + 1] = static_cast<uint8_t>(2 * from + 1);
}

// kSpread moves the first words to the lanes of the subset and sets the other lanes to zero.
// kGather moves the words of the subset's lanes to the last positions.
alignas(64) constexpr WordOrders kSpread = [] {
  WordOrders orders{};
  for (unsigned subset = 0; subset < 256; ++subset) {
    orders[subset].fill(0x80);
    size_t from = 0;
    for (size_t lane = 0; lane < 8; ++lane) {
      if ((subset >> lane & 1) != 0) SetWord(&orders[subset], lane, from++);
    }
  }
  return orders;
}();
alignas(64) constexpr WordOrders kGather = [] {
  WordOrders orders{};
  for (unsigned subset = 0; subset < 256; ++subset) {
    size_t to = 8;
    for (size_t lane = 8; lane-- > 0;) {
      if ((subset >> lane & 1) != 0) SetWord(&orders[subset], --to, lane);
    }
  }
  return orders;
}();

}  // namespace tern::kernels

#endif

#if defined(TERN_KERNELS_ANS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_ANS_INL
#undef TERN_KERNELS_ANS_INL
#else
#define TERN_KERNELS_ANS_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The targets (instruction sets) that the next line excludes use the scalar code. Vector code with
// one lane is no faster, and vectors whose length is unknown at compile time cannot be members of a
// struct.
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE

// Vectors of 32-bit states (tag D, type V, mask of lanes M), and of eight 16-bit words (tag D16).
// The eight states of a block are in kParts vectors (1 or 2) of kLanes lanes each.
using D = hn::CappedTag<uint32_t, kAnsStates>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using D16 = hn::FixedTag<uint16_t, kAnsStates>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kParts = kAnsStates / kLanes;
struct States {
  V part[kParts];
};

// Loads the eight states from an array.
HWY_INLINE States LoadStates(const uint32_t* lanes) {
  States x;
  for (size_t p = 0; p < kParts; ++p) x.part[p] = hn::LoadU(D(), lanes + p * kLanes);
  return x;
}

// Returns the lanes of a mask as bits.
HWY_INLINE unsigned MaskBits(M mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(D(), mask, bytes);
  return bytes[0];
}

// LowWords returns the low 16 bits of the eight states as words. WordsOfPart(words, p) returns the
// words that belong to vector p of the states, as 32-bit lanes. SelectOfEight returns, for each
// lane, the number that the low three bits of the lane's index select from eight numbers.
#if HWY_MAX_BYTES >= 32

HWY_INLINE hn::Vec<D16> LowWords(const States& x) { return hn::TruncateTo(D16(), x.part[0]); }
HWY_INLINE V WordsOfPart(hn::Vec<D16> words, size_t) { return hn::PromoteTo(D(), words); }
HWY_INLINE V SelectOfEight(const States& numbers, V index) {
  const V seven = hn::Set(D(), 7);
  return hn::TableLookupLanes(numbers.part[0], hn::IndicesFromVec(D(), hn::And(index, seven)));
}

#else

HWY_INLINE hn::Vec<D16> LowWords(const States& x) {
  const hn::Half<D16> half;
  return hn::Combine(D16(), hn::TruncateTo(half, x.part[1]), hn::TruncateTo(half, x.part[0]));
}
HWY_INLINE V WordsOfPart(hn::Vec<D16> words, size_t p) {
  const hn::Half<D16> half;
  return hn::PromoteTo(D(), p == 0 ? hn::LowerHalf(half, words) : hn::UpperHalf(half, words));
}
HWY_INLINE V SelectOfEight(const States& numbers, V index) {
  const auto lane = hn::IndicesFromVec(D(), hn::And(index, hn::Set(D(), 3)));
  const M is_in_second = hn::Ne(hn::And(index, hn::Set(D(), 4)), hn::Zero(D()));
  return hn::IfThenElse(is_in_second, hn::TableLookupLanes(numbers.part[1], lane),
                        hn::TableLookupLanes(numbers.part[0], lane));
}

#endif

// Reorders the words by the shuffle that `orders` has for `subset`.
HWY_INLINE hn::Vec<D16> ReorderWords(hn::Vec<D16> words, const WordOrders& orders,
                                     unsigned subset) {
  const hn::Repartition<uint8_t, D16> d8;
  return hn::BitCast(
      D16(), hn::TableLookupBytesOr0(hn::BitCast(d8, words), hn::Load(d8, orders[subset].data())));
}

// A table of 8 * kTables numbers in registers. Its operator[] looks up one number per lane.
// REQUIRES indices below 8 * kTables.
template <size_t kTables>
struct RegisterTable {
  explicit RegisterTable(const uint32_t* numbers) {
    for (size_t t = 0; t < kTables; ++t) eights[t] = LoadStates(numbers + 8 * t);
  }
  HWY_INLINE V operator[](V index) const {
    V number = SelectOfEight(eights[0], index);
    if constexpr (kTables > 1) number = ReplaceFromTable<1>(index, number);
    if constexpr (kTables > 2) number = ReplaceFromTable<2>(index, number);
    return number;
  }
  // Replaces `number` in the lanes whose index is at least 8 * kTable.
  template <int32_t kTable>
  HWY_INLINE V ReplaceFromTable(V index, V number) const {
    const hn::RebindToSigned<D> di;
    const auto is_beyond = hn::Gt(hn::BitCast(di, index), hn::Set(di, 8 * kTable - 1));
    return hn::IfThenElse(hn::RebindMask(D(), is_beyond), SelectOfEight(eights[kTable], index),
                          number);
  }
  States eights[kTables];
};

// Returns table[index] for each lane. Loads one lane after the other, because the gather
// instructions of CPUs are no faster.
HWY_INLINE V GatherFrom(const uint32_t* table, V index) {
  uint32_t lanes[kLanes];
  hn::StoreU(index, D(), lanes);
  for (uint32_t& lane : lanes) lane = table[lane];
  return hn::LoadU(D(), lanes);
}

// The number of one bits.
HWY_INLINE size_t CountOneBits(unsigned word) {
  return static_cast<size_t>(__builtin_popcount(word));
}

// A mask of the lanes of vector p whose states are among the first `num_active` of the eight.
HWY_INLINE M ActiveLanesOfPart(size_t num_active, size_t p) {
  return hn::FirstN(D(), num_active < p * kLanes ? 0 : num_active - p * kLanes);
}

// The encoder computes floor(x / f), for a state x and a frequency f, with floats. The stored
// reciprocal of f is too small by a factor of 1 - 2^-22. The roundings of the reciprocal, of x and
// of their product change the product by a factor of at most 1 + 3 * 2^-24, so that the product is
// below x / f, and above x / f - 1/2 because x / f < 2^20. Adding kRound to the product gives a sum
// above 2^23, because x / f is at least 16. A float of this size has no fraction bits, so the
// addition rounds the product to floor(x / f), or to one less, in the low bits of the sum.
constexpr float kRound = 0x1p23f - 0.5f;
constexpr uint32_t kRoundBits = 0x4B000000;  // the bits of the float 2^23
// What the encoder looks up for the symbol of each lane: its frequency and first slot (f_s and b_s
// of ans.h), and the reciprocal of the frequency, as the bits of a float.
struct SymbolCoding {
  V frequency, begin, reciprocal;
};
// The bits of the stored reciprocal of f.
inline uint32_t ReciprocalBits(uint32_t f) {
  const float reciprocal = f == 0 ? 0 : static_cast<float>((1 - 0x1p-22) / f);
  uint32_t bits;
  std::memcpy(&bits, &reciprocal, sizeof bits);
  return bits;
}

// Lookups of a SymbolCoding: RegisterEncodeLookup keeps the values of up to 8 * kTables symbols in
// registers; MemoryEncodeLookup reads the values of any number of symbols from memory.
template <size_t kTables>
class RegisterEncodeLookup {
 public:
  explicit RegisterEncodeLookup(const AnsTable& table) : RegisterEncodeLookup(Arrays(table)) {}
  HWY_INLINE SymbolCoding operator()(V symbol) const {
    const V index = hn::Sub(symbol, first_);
    const V slot_range = slot_range_[index];
    return {hn::ShiftRight<16>(slot_range), hn::And(slot_range, hn::Set(D(), 0xFFFF)),
            reciprocal_[index]};
  }

 private:
  struct Arrays {
    explicit Arrays(const AnsTable& table) : first(static_cast<uint32_t>(table.first_symbol)) {
      for (size_t s = table.first_symbol; s <= table.last_symbol; ++s) {
        slot_range[s - first] = uint32_t{table.frequency[s]} << 16 | table.begin[s];
        reciprocal[s - first] = ReciprocalBits(table.frequency[s]);
      }
    }
    uint32_t first, slot_range[8 * kTables] = {}, reciprocal[8 * kTables] = {};
  };
  explicit RegisterEncodeLookup(const Arrays& a)
      : first_(hn::Set(D(), a.first)), slot_range_(a.slot_range), reciprocal_(a.reciprocal) {}

  V first_;
  RegisterTable<kTables> slot_range_, reciprocal_;
};

// The values of MemoryEncodeLookup, by symbol: frequency and first slot in one word, and
// reciprocal.
struct EncodeTable {
  explicit EncodeTable(const AnsTable& table) {
    for (size_t s = table.first_symbol; s <= table.last_symbol; ++s) {
      slot_range[s] = uint32_t{table.frequency[s]} << 16 | table.begin[s];
      reciprocal[s] = ReciprocalBits(table.frequency[s]);
    }
  }
  uint32_t slot_range[kAnsSymbols], reciprocal[kAnsSymbols];
};

struct MemoryEncodeLookup {
  HWY_INLINE SymbolCoding operator()(V symbol) const {
    const V slot_range = GatherFrom(table->slot_range, symbol);
    return {hn::ShiftRight<16>(slot_range), hn::And(slot_range, hn::Set(D(), 0xFFFF)),
            GatherFrom(table->reciprocal, symbol)};
  }
  const EncodeTable* table;
};

// Looks up the symbol of a slot, for up to kCount symbols, in registers. The distance from a
// symbol's first slot to the given slot, modulo 2^12, is smallest for the symbol to which the slot
// belongs. This distance is also the offset of the slot among the slots of the symbol.
template <size_t kCount>
class RegisterDecodeLookup {
 public:
  explicit RegisterDecodeLookup(const AnsTable& table) : RegisterDecodeLookup(Arrays(table)) {}
  // Decodes one symbol per lane, into *symbol. Returns the new states, without the words that
  // states below kAnsLowestState must still read.
  HWY_INLINE V operator()(V x, V* symbol) const {
    const V slot = hn::ShiftLeft<32 - kAnsBits>(x);
    const V nearest = MinDistance<0, kCount>(slot);
    const V index = hn::And(nearest, hn::Set(D(), kIndexMask));
    *symbol = hn::Sub(highest_symbol_, index);
    return hn::Add(hn::Mul(frequency_[index], hn::ShiftRight<kAnsBits>(x)),
                   hn::ShiftRight<32 - kAnsBits>(nearest));
  }

 private:
  // MinDistance compares numbers that have a distance in the high bits and an index in the low
  // bits. Symbol first_symbol + j has the index kMaxIndex - j. Of symbols that begin at the same
  // slot, only the last has slots; it has the smallest index, so that it is chosen.
  static constexpr size_t kTables = (kCount + 7) / 8;
  static constexpr uint32_t kMaxIndex = 8 * kTables - 1;
  static constexpr uint32_t kIndexMask = kTables == 1 ? 7 : 31;
  struct Arrays {
    explicit Arrays(const AnsTable& table)
        : highest_symbol(static_cast<uint32_t>(table.first_symbol + kMaxIndex)) {
      // Entries beyond the last symbol are those of the first symbol, whose distance is the slot
      // itself.
      for (uint32_t& b : begin) b = 0u - kMaxIndex;
      for (size_t s = table.first_symbol; s <= table.last_symbol; ++s) {
        const auto j = static_cast<uint32_t>(s - table.first_symbol);
        frequency[kMaxIndex - j] = table.frequency[s];
        if (j > 0) begin[j] = (uint32_t{table.begin[s]} << (32 - kAnsBits)) - (kMaxIndex - j);
      }
    }
    uint32_t highest_symbol, frequency[8 * kTables] = {}, begin[kCount];
  };
  explicit RegisterDecodeLookup(const Arrays& a)
      : highest_symbol_(hn::Set(D(), a.highest_symbol)), frequency_(a.frequency) {
    for (size_t j = 0; j < kCount; ++j) begin_[j] = hn::Set(D(), a.begin[j]);
  }
  // The smallest distance to begin_[kFrom, kTo), computed as a balanced tree.
  template <size_t kFrom, size_t kTo>
  HWY_INLINE V MinDistance(V slot) const {
    if constexpr (kTo - kFrom == 1) {
      return hn::Sub(slot, begin_[kFrom]);
    } else {
      constexpr size_t kMiddle = (kFrom + kTo) / 2;
      return hn::Min(MinDistance<kFrom, kMiddle>(slot), MinDistance<kMiddle, kTo>(slot));
    }
  }

  V highest_symbol_;
  RegisterTable<kTables> frequency_;
  V begin_[kCount];
};

// For each slot, what the decoder looks up, in one 32-bit word. From the highest bits down: the
// frequency minus 1 of the slot's symbol (12 bits), the offset of the slot among the slots of the
// symbol (12 bits), and the symbol.
struct DecodeTable {
  explicit DecodeTable(const AnsTable& table) {
    const V offsets = hn::ShiftLeft<8>(hn::Iota(D(), 0));
    for (size_t s = table.first_symbol; s <= table.last_symbol; ++s) {
      if (table.frequency[s] == 0) continue;
      const uint32_t entry = (table.frequency[s] - 1u) << 20 | static_cast<uint32_t>(s);
      for (uint32_t i = 0; i < table.frequency[s]; i += kLanes) {
        hn::StoreU(hn::Add(offsets, hn::Set(D(), entry + (i << 8))), D(),
                   slots + table.begin[s] + i);
      }
    }
  }
  // Longer than kAnsSlots, so that whole vectors can be stored.
  uint32_t slots[kAnsSlots + kAnsStates];
};

// Looks up the symbol of a slot in memory. Does the same as RegisterDecodeLookup.
struct MemoryDecodeLookup {
  HWY_INLINE V operator()(V x, V* symbol) const {
    const V slot = GatherFrom(table->slots, hn::And(x, hn::Set(D(), kAnsSlots - 1)));
    *symbol = hn::And(slot, hn::Set(D(), 0xFF));
    const V frequency = hn::Add(hn::ShiftRight<20>(slot), hn::Set(D(), 1));
    return hn::Add(hn::Mul(frequency, hn::ShiftRight<kAnsBits>(x)),
                   hn::And(hn::ShiftRight<8>(slot), hn::Set(D(), kAnsSlots - 1)));
  }
  const DecodeTable* table;
};

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

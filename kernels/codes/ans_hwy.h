// The building blocks of ans_cpu.cc for each of Highway's targets: the eight states of a block in
// vectors, their words, and the lookups by symbol and by slot.
#ifndef TERN_KERNELS_ANS_INL_ONCE
#define TERN_KERNELS_ANS_INL_ONCE

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/codes/ans.h"

namespace tern::kernels {

// Orders of the bytes of eight words, one for each set of lanes.
using WordOrders = std::array<std::array<uint8_t, 16>, 256>;

constexpr void SetWord(std::array<uint8_t, 16>* order, size_t to, size_t from) {
  (*order)[2 * to] = static_cast<uint8_t>(2 * from);
  (*order)[2 * to + 1] = static_cast<uint8_t>(2 * from + 1);
}

// kSpread: the first words go to the lanes of the set, other lanes get zero. kGather: the words of
// the set's lanes go to the last places.
alignas(64) constexpr WordOrders kSpread = [] {
  WordOrders orders{};
  for (unsigned set = 0; set < 256; ++set) {
    orders[set].fill(0x80);
    size_t from = 0;
    for (size_t lane = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) != 0) SetWord(&orders[set], lane, from++);
    }
  }
  return orders;
}();
alignas(64) constexpr WordOrders kGather = [] {
  WordOrders orders{};
  for (unsigned set = 0; set < 256; ++set) {
    size_t to = 8;
    for (size_t lane = 8; lane-- > 0;) {
      if ((set >> lane & 1) != 0) SetWord(&orders[set], --to, lane);
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

// One lane has nothing to gain over the reference; vectors of unknown length cannot be members.
#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE

// The eight states of a block: one vector, or two.
using D = hn::CappedTag<uint32_t, kAnsStates>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
using D16 = hn::FixedTag<uint16_t, kAnsStates>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kParts = kAnsStates / kLanes;
struct States {
  V part[kParts];
};

// An array of states, lane by lane.
HWY_INLINE States LoadStates(const uint32_t* lanes) {
  States x;
  for (size_t p = 0; p < kParts; ++p) x.part[p] = hn::LoadU(D(), lanes + p * kLanes);
  return x;
}

HWY_INLINE unsigned MaskBits(M mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(D(), mask, bytes);
  return bytes[0];
}

// LowWords: the low halves of the states as eight words. WordsOfPart: the reverse. LookUp: one of
// eight numbers, by the low three bits of an index.
#if HWY_MAX_BYTES >= 32

HWY_INLINE hn::Vec<D16> LowWords(const States& x) { return hn::TruncateTo(D16(), x.part[0]); }
HWY_INLINE V WordsOfPart(hn::Vec<D16> words, size_t) { return hn::PromoteTo(D(), words); }
HWY_INLINE V LookUp(const States& numbers, V index) {
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
HWY_INLINE V LookUp(const States& numbers, V index) {
  const auto lane = hn::IndicesFromVec(D(), hn::And(index, hn::Set(D(), 3)));
  const M upper = hn::Ne(hn::And(index, hn::Set(D(), 4)), hn::Zero(D()));
  return hn::IfThenElse(upper, hn::TableLookupLanes(numbers.part[1], lane),
                        hn::TableLookupLanes(numbers.part[0], lane));
}

#endif

HWY_INLINE hn::Vec<D16> Reorder(hn::Vec<D16> words, const WordOrders& orders, unsigned set) {
  const hn::Repartition<uint8_t, D16> d8;
  return hn::BitCast(
      D16(), hn::TableLookupBytesOr0(hn::BitCast(d8, words), hn::Load(d8, orders[set].data())));
}

// A table of 8 kTables numbers. REQUIRES an index below that.
template <size_t kTables>
struct Numbers {
  explicit Numbers(const uint32_t* numbers) {
    for (size_t t = 0; t < kTables; ++t) eights[t] = LoadStates(numbers + 8 * t);
  }
  HWY_INLINE V operator[](V index) const {
    V number = LookUp(eights[0], index);
    if constexpr (kTables > 1) number = Beyond<1>(index, number);
    if constexpr (kTables > 2) number = Beyond<2>(index, number);
    return number;
  }
  template <int32_t kTable>
  HWY_INLINE V Beyond(V index, V number) const {
    const hn::RebindToSigned<D> di;
    const auto beyond = hn::Gt(hn::BitCast(di, index), hn::Set(di, 8 * kTable - 1));
    return hn::IfThenElse(hn::RebindMask(D(), beyond), LookUp(eights[kTable], index), number);
  }
  States eights[kTables];
};

// Loads one by one: CPUs with a gather instruction are no faster with it.
HWY_INLINE V GatherFrom(const uint32_t* table, V index) {
  uint32_t lanes[kLanes];
  hn::StoreU(index, D(), lanes);
  for (uint32_t& lane : lanes) lane = table[lane];
  return hn::LoadU(D(), lanes);
}

HWY_INLINE size_t Ones(unsigned set) { return static_cast<size_t>(__builtin_popcount(set)); }

// The lanes of part p among the first `active` of eight.
HWY_INLINE M FirstOfPart(size_t active, size_t p) {
  return hn::FirstN(D(), active < p * kLanes ? 0 : active - p * kLanes);
}

// What the encoder looks up for a symbol. The reciprocal of f is too small by a relative 2^-22. The
// roundings that follow (of the reciprocal, x and their product) add at most 3 2^-24, so the
// product is below x / f; it is above x / f - 1/2, since x / f < 2^20. Added to 2^23 - 1/2, it is
// rounded to a whole number in the float's low bits: floor(x / f) or one less. x / f is at least
// 16, so the sum is above 2^23.
constexpr float kRound = 0x1p23f - 0.5f;
constexpr uint32_t kRoundBits = 0x4B000000;  // of 2^23
struct Coded {
  V frequency, begin, reciprocal;  // the last one a float
};
inline uint32_t ReciprocalBits(uint32_t f) {
  const float reciprocal = f == 0 ? 0 : static_cast<float>((1 - 0x1p-22) / f);
  uint32_t bits;
  std::memcpy(&bits, &reciprocal, sizeof bits);
  return bits;
}

// FewToEncode: alphabets of up to 8 kTables symbols, from registers. ManyToEncode: any, from
// memory.
template <size_t kTables>
class FewToEncode {
 public:
  explicit FewToEncode(const AnsTable& table) : FewToEncode(Arrays(table)) {}
  HWY_INLINE Coded operator()(V symbol) const {
    const V index = hn::Sub(symbol, first_);
    const V range = range_[index];
    return {hn::ShiftRight<16>(range), hn::And(range, hn::Set(D(), 0xFFFF)), reciprocal_[index]};
  }

 private:
  struct Arrays {
    explicit Arrays(const AnsTable& table) : first(static_cast<uint32_t>(table.first)) {
      for (size_t s = table.first; s <= table.last; ++s) {
        range[s - first] = uint32_t{table.frequency[s]} << 16 | table.begin[s];
        reciprocal[s - first] = ReciprocalBits(table.frequency[s]);
      }
    }
    uint32_t first, range[8 * kTables] = {}, reciprocal[8 * kTables] = {};
  };
  explicit FewToEncode(const Arrays& a)
      : first_(hn::Set(D(), a.first)), range_(a.range), reciprocal_(a.reciprocal) {}

  V first_;
  Numbers<kTables> range_, reciprocal_;
};

struct EncodeTable {
  explicit EncodeTable(const AnsTable& table) {
    for (size_t s = table.first; s <= table.last; ++s) {
      range[s] = uint32_t{table.frequency[s]} << 16 | table.begin[s];
      reciprocal[s] = ReciprocalBits(table.frequency[s]);
    }
  }
  uint32_t range[kAnsSymbols], reciprocal[kAnsSymbols];
};

struct ManyToEncode {
  HWY_INLINE Coded operator()(V symbol) const {
    const V range = GatherFrom(table->range, symbol);
    return {hn::ShiftRight<16>(range), hn::And(range, hn::Set(D(), 0xFFFF)),
            GatherFrom(table->reciprocal, symbol)};
  }
  const EncodeTable* table;
};

// Alphabets of up to kCount symbols. The smallest of the slot's distances to the symbols' first
// slots gives both the symbol and the offset inside it. Symbols that begin behind the slot are
// farther, because distances are modulo 2^12.
template <size_t kCount>
class FewToDecode {
 public:
  explicit FewToDecode(const AnsTable& table) : FewToDecode(Arrays(table)) {}
  // The state before words, and its symbol.
  HWY_INLINE V operator()(V x, V* symbol) const {
    const V slot = hn::ShiftLeft<32 - kAnsBits>(x);
    const V least = Least<0, kCount>(slot);
    const V index = hn::And(least, hn::Set(D(), kIndices));
    *symbol = hn::Sub(highest_, index);
    return hn::Add(hn::Mul(frequency_[index], hn::ShiftRight<kAnsBits>(x)),
                   hn::ShiftRight<32 - kAnsBits>(least));
  }

 private:
  // The distance stands in the high bits. In the low bits symbol first + j has the index kMost - j,
  // so that among symbols that begin at one slot the last is the nearest: the others have no slots.
  static constexpr size_t kTables = (kCount + 7) / 8;
  static constexpr uint32_t kMost = 8 * kTables - 1;
  static constexpr uint32_t kIndices = kTables == 1 ? 7 : 31;
  struct Arrays {
    explicit Arrays(const AnsTable& table) : highest(static_cast<uint32_t>(table.first + kMost)) {
      // Absent entries repeat the first symbol, whose distance is the slot itself.
      for (uint32_t& b : begin) b = 0u - kMost;
      for (size_t s = table.first; s <= table.last; ++s) {
        const auto j = static_cast<uint32_t>(s - table.first);
        frequency[kMost - j] = table.frequency[s];
        if (j > 0) begin[j] = (uint32_t{table.begin[s]} << (32 - kAnsBits)) - (kMost - j);
      }
    }
    uint32_t highest, frequency[8 * kTables] = {}, begin[kCount];
  };
  explicit FewToDecode(const Arrays& a)
      : highest_(hn::Set(D(), a.highest)), frequency_(a.frequency) {
    for (size_t j = 0; j < kCount; ++j) begin_[j] = hn::Set(D(), a.begin[j]);
  }
  // The minimum of the distances to begin_[kFrom, kTo), as a balanced tree.
  template <size_t kFrom, size_t kTo>
  HWY_INLINE V Least(V slot) const {
    if constexpr (kTo - kFrom == 1) {
      return hn::Sub(slot, begin_[kFrom]);
    } else {
      constexpr size_t kMiddle = (kFrom + kTo) / 2;
      return hn::Min(Least<kFrom, kMiddle>(slot), Least<kMiddle, kTo>(slot));
    }
  }

  V highest_;
  Numbers<kTables> frequency_;
  V begin_[kCount];
};

// Per slot: f - 1, the offset from b, the symbol.
struct DecodeTable {
  explicit DecodeTable(const AnsTable& table) {
    const V ramp = hn::ShiftLeft<8>(hn::Iota(D(), 0));
    for (size_t s = table.first; s <= table.last; ++s) {
      if (table.frequency[s] == 0) continue;
      const uint32_t entry = (table.frequency[s] - 1u) << 20 | static_cast<uint32_t>(s);
      for (uint32_t i = 0; i < table.frequency[s]; i += kLanes) {
        hn::StoreU(hn::Add(ramp, hn::Set(D(), entry + (i << 8))), D(), slots + table.begin[s] + i);
      }
    }
  }
  uint32_t slots[kAnsSlots + kAnsStates];  // with room for a whole vector behind
};

struct ManyToDecode {
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

// Vectorized encoder and decoder of ans.h, compiled once for each instruction set by Highway.
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/codes/ans.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/ans_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/ans_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The targets (instruction sets) of the next line use the scalar code. Vector code with one lane is
// no faster, and vectors whose length is unknown at compile time cannot be members of a struct.
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE

AnsCounts CountSymbols(const uint8_t* symbols, size_t n) { return CountSymbolsRef(symbols, n); }
void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer) {
  EncodeAnsRef(table, symbols, n, coded, buffer);
}
bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols) {
  return DecodeAnsRef(table, row, blocks, n, symbols);
}

#else

// The encoder of one block. Several blocks are encoded at a time. EncodeBlocks uses fold
// expressions over their encoders instead of loops, so that compilers keep all encoders in
// registers.
struct Encoding {
  States x;      // the eight states
  uint8_t* out;  // the bytes written so far begin here; words are written below it
};

// Encodes eight symbols or, if kAll is false, only the first `num_active` of eight. Writes words
// below e->out and lowers e->out by their size.
template <bool kAll, class Lookup>
HWY_INLINE void EncodeStep(const Lookup& lookup, const uint8_t* symbols, size_t num_active,
                           Encoding* e) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToFloat<D> df;
  const hn::Rebind<uint8_t, D> d8;
  SymbolCoding s[kParts];
  M keeps_state[kParts];
  unsigned word_lanes = 0;
  for (size_t p = 0; p < kParts; ++p) {
    s[p] = lookup(hn::PromoteTo(D(), hn::LoadU(d8, symbols + p * kLanes)));
    keeps_state[p] = hn::RebindMask(D(), hn::Gt(hn::BitCast(di, s[p].frequency),
                                                hn::BitCast(di, hn::ShiftRight<20>(e->x.part[p]))));
    word_lanes |= (~MaskBits(keeps_state[p]) & ((1u << kLanes) - 1)) << (p * kLanes);
  }
  if (!kAll) word_lanes &= (1u << num_active) - 1;
  hn::StoreU(ReorderWords(LowWords(e->x), kGather, word_lanes), D16(),
             reinterpret_cast<uint16_t*>(e->out - 2 * kAnsStates));
  e->out -= 2 * CountOneBits(word_lanes);
  for (size_t p = 0; p < kParts; ++p) {
    const V old_states = e->x.part[p];
    const V shifted = hn::IfThenElse(keeps_state[p], old_states, hn::ShiftRight<16>(old_states));
    const auto ratio = hn::MulAdd(hn::ConvertTo(df, shifted), hn::BitCast(df, s[p].reciprocal),
                                  hn::Set(df, kRound));
    const V quotient = hn::Sub(hn::BitCast(D(), ratio), hn::Set(D(), kRoundBits));
    const V remainder = hn::Sub(shifted, hn::Mul(quotient, s[p].frequency));
    const M is_exact =
        hn::RebindMask(D(), hn::Gt(hn::BitCast(di, s[p].frequency), hn::BitCast(di, remainder)));
    const V correction =
        hn::IfThenZeroElse(is_exact, hn::Sub(hn::Set(D(), kAnsSlots), s[p].frequency));
    const V new_states = hn::Add(hn::Add(hn::ShiftLeft<kAnsBits>(quotient), remainder),
                                 hn::Add(s[p].begin, correction));
    e->x.part[p] = kAll ? new_states
                        : hn::IfThenElse(ActiveLanesOfPart(num_active, p), new_states, old_states);
  }
}

// Starts a block and encodes its last n % 8 symbols. `padding` is any symbol with a frequency above
// 0, and `end` is the end of the buffer.
template <class Lookup>
HWY_INLINE Encoding BeginEncoding(const Lookup& lookup, const uint8_t* symbols, size_t n,
                                  uint8_t padding, uint8_t* end) {
  Encoding e;
  for (V& part : e.x.part) part = hn::Set(D(), kAnsLowestState);
  e.out = end;
  const size_t num_remaining = n % kAnsStates;
  if (num_remaining == 0) return e;
  uint8_t last[kAnsStates];
  std::memset(last, padding, sizeof last);
  std::memcpy(last, symbols + n - num_remaining, num_remaining);
  EncodeStep<false>(lookup, last, num_remaining, &e);
  return e;
}

// Writes the states. Returns the bytes of the block.
HWY_INLINE std::span<const uint8_t> EndEncoding(const Encoding& e, const uint8_t* end) {
  uint32_t states[kAnsStates];
  for (size_t p = 0; p < kParts; ++p) hn::StoreU(e.x.part[p], D(), states + p * kLanes);
  uint8_t* const out = e.out - sizeof states;
  std::memcpy(out, states, sizeof states);
  return {out, end};
}

// Encodes the blocks k... (all numbers of the index sequence) at the same time. `padding` is as in
// BeginEncoding.
template <class Lookup, size_t... k>
void EncodeBlocks(const Lookup& shared_lookup, uint8_t padding, const uint8_t* symbols, size_t n,
                  std::span<const uint8_t>* coded, uint8_t* buffer, std::index_sequence<k...>) {
  const Lookup lookup = shared_lookup;  // A local copy, which compilers can keep in registers.
  const size_t block_bytes = MaxAnsBytes(n);
  Encoding blocks[] = {
      BeginEncoding(lookup, symbols + k * n, n, padding, buffer + (k + 1) * block_bytes)...};
  for (size_t i = n / kAnsStates * kAnsStates; i != 0; i -= kAnsStates) {
    const uint8_t* const eight_symbols = symbols + i - kAnsStates;
    (EncodeStep<true>(lookup, eight_symbols + k * n, kAnsStates, blocks + k), ...);
  }
  ((coded[k] = EndEncoding(blocks[k], buffer + (k + 1) * block_bytes)), ...);
}

// The decoder of one block.
struct Decoding {
  States x;           // the eight states
  const uint8_t* in;  // the next word to read
};

// Decodes eight symbols or, if kAll is false, only the first `num_active` of eight. Advances d->in
// by the words that it reads. REQUIRES 16 readable bytes at d->in.
template <bool kAll, class Lookup>
HWY_INLINE void DecodeStep(const Lookup& lookup, size_t num_active, uint8_t* symbols, Decoding* d) {
  const hn::Rebind<uint8_t, D> d8;
  States new_states;
  M is_low[kParts];
  unsigned word_lanes = 0;
  for (size_t p = 0; p < kParts; ++p) {
    V symbol;
    new_states.part[p] = lookup(d->x.part[p], &symbol);
    hn::StoreU(hn::TruncateTo(d8, symbol), d8, symbols + p * kLanes);
    is_low[p] = hn::Eq(hn::ShiftRight<16>(new_states.part[p]), hn::Zero(D()));
    word_lanes |= MaskBits(is_low[p]) << (p * kLanes);
  }
  if (!kAll) word_lanes &= (1u << num_active) - 1;
  const auto words =
      ReorderWords(hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(d->in)), kSpread, word_lanes);
  d->in += 2 * CountOneBits(word_lanes);
  for (size_t p = 0; p < kParts; ++p) {
    const V refilled =
        hn::Or(hn::IfThenElse(is_low[p], hn::ShiftLeft<16>(new_states.part[p]), new_states.part[p]),
               WordsOfPart(words, p));
    d->x.part[p] =
        kAll ? refilled : hn::IfThenElse(ActiveLanesOfPart(num_active, p), refilled, d->x.part[p]);
  }
}

// Starts a block by reading its states. Returns false if the size of the block or a state is
// invalid.
HWY_INLINE bool BeginDecoding(std::span<const uint8_t> block, Decoding* d) {
  uint32_t states[kAnsStates] = {};
  const bool has_states = block.size() >= sizeof states && block.size() % 2 == 0;
  if (has_states) std::memcpy(states, block.data(), sizeof states);
  d->x = LoadStates(states);
  d->in = block.data() + (has_states ? sizeof states : 0);
  bool all_valid = true;
  for (const V& part : d->x.part) {
    all_valid &= hn::AllFalse(D(), hn::Eq(hn::ShiftRight<16>(part), hn::Zero(D())));
  }
  return all_valid;
}

// Decodes the rest of one block, from symbol i on, and checks that the block ends correctly.
// `last_readable` is the last address from which 16 bytes can be read.
template <class Lookup>
bool EndDecoding(const Lookup& lookup, Decoding d, std::span<const uint8_t> block,
                 const uint8_t* last_readable, size_t i, size_t n, uint8_t* symbols) {
  for (; n - i >= kAnsStates && d.in <= last_readable; i += kAnsStates) {
    DecodeStep<true>(lookup, kAnsStates, symbols + i, &d);
  }
  const uint8_t* const end = block.data() + block.size();
  if (d.in > end) return false;
  // The remaining bytes of the block (at most as many as eight symbols can use), then zeros.
  uint8_t padded_rest[6 * kAnsStates] = {};
  const size_t bytes_left = static_cast<size_t>(end - d.in);
  std::memcpy(padded_rest, d.in, bytes_left < 2 * kAnsStates ? bytes_left : 2 * kAnsStates);
  d.in = padded_rest;
  for (; i < n; i += kAnsStates) {
    uint8_t decoded[kAnsStates];
    const size_t num_active = n - i < kAnsStates ? n - i : kAnsStates;
    DecodeStep<false>(lookup, num_active, decoded, &d);
    if (static_cast<size_t>(d.in - padded_rest) > bytes_left) return false;
    std::memcpy(symbols + i, decoded, num_active);
  }
  bool ends_correctly = static_cast<size_t>(d.in - padded_rest) == bytes_left;
  for (const V& part : d.x.part) {
    ends_correctly &= hn::AllTrue(D(), hn::Eq(part, hn::Set(D(), kAnsLowestState)));
  }
  return ends_correctly;
}

// Decodes the blocks k... (all numbers of the index sequence) at the same time. Returns false if a
// block is invalid.
template <class Lookup, size_t... k>
bool DecodeBlocks(const Lookup& shared_lookup, std::span<const uint8_t> row,
                  const std::span<const uint8_t>* coded, size_t n, uint8_t* symbols,
                  std::index_sequence<k...>) {
  const Lookup lookup = shared_lookup;  // A local copy, which compilers can keep in registers.
  Decoding blocks[sizeof...(k)];
  if (!(BeginDecoding(coded[k], blocks + k) && ...)) return false;
  // If a block is invalid, its decoder may read on into later blocks of the row. EndDecoding then
  // returns false.
  const uint8_t* const last_readable = row.data() + row.size() - 2 * kAnsStates;
  size_t i = 0;
  for (; n - i >= kAnsStates && ((blocks[k].in <= last_readable) && ...); i += kAnsStates) {
    (DecodeStep<true>(lookup, kAnsStates, symbols + k * n + i, blocks + k), ...);
  }
  return (EndDecoding(lookup, blocks[k], coded[k], last_readable, i, n, symbols + k * n) && ...);
}

// Encodes all blocks, several at a time.
template <class Lookup>
void EncodeAll(const Lookup& lookup, const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer) {
  const auto padding = static_cast<uint8_t>(table.first_symbol);
  size_t k = 0;
  const auto encode = [&](auto blocks) HWY_ATTR {
    EncodeBlocks(lookup, padding, symbols + k * n, n, coded.data() + k, buffer + k * MaxAnsBytes(n),
                 blocks);
    k += blocks.size();
  };
  // Encoding four blocks at a time keeps all execution ports of a CPU busy. Decoding has longer
  // latencies, so that DecodeAll takes more blocks at a time.
  while (coded.size() - k >= 4) encode(std::make_index_sequence<4>());
  while (coded.size() - k >= 2) encode(std::make_index_sequence<2>());
  if (k < coded.size()) encode(std::make_index_sequence<1>());
}

void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer) {
  const size_t num_symbols = table.last_symbol - table.first_symbol + 1;
  if (num_symbols <= 8)
    return EncodeAll(RegisterEncodeLookup<1>(table), table, symbols, n, coded, buffer);
  if (num_symbols <= 16)
    return EncodeAll(RegisterEncodeLookup<2>(table), table, symbols, n, coded, buffer);
  if (num_symbols <= 24)
    return EncodeAll(RegisterEncodeLookup<3>(table), table, symbols, n, coded, buffer);
  const EncodeTable memory_table(table);
  EncodeAll(MemoryEncodeLookup{&memory_table}, table, symbols, n, coded, buffer);
}

// Decodes all blocks, several at a time. Returns false if one is invalid.
template <class Lookup>
bool DecodeAll(const Lookup& lookup, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> coded, size_t n, uint8_t* symbols) {
  size_t k = 0;
  bool all_valid = true;
  const auto decode = [&](auto blocks) HWY_ATTR {
    all_valid =
        all_valid && DecodeBlocks(lookup, row, coded.data() + k, n, symbols + k * n, blocks);
    k += blocks.size();
  };
  while (coded.size() - k >= kAnsMaxBlocks) decode(std::make_index_sequence<kAnsMaxBlocks>());
  while (coded.size() - k >= 4) decode(std::make_index_sequence<4>());
  while (coded.size() - k >= 2) decode(std::make_index_sequence<2>());
  if (k < coded.size()) decode(std::make_index_sequence<1>());
  return all_valid;
}

bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols) {
  const size_t num_symbols = table.last_symbol - table.first_symbol + 1;
  if (num_symbols <= 3) return DecodeAll(RegisterDecodeLookup<3>(table), row, blocks, n, symbols);
  if (num_symbols <= 5) return DecodeAll(RegisterDecodeLookup<5>(table), row, blocks, n, symbols);
  if (num_symbols <= 9) return DecodeAll(RegisterDecodeLookup<9>(table), row, blocks, n, symbols);
  if (num_symbols <= 17) return DecodeAll(RegisterDecodeLookup<17>(table), row, blocks, n, symbols);
  const DecodeTable slots(table);
  return DecodeAll(MemoryDecodeLookup{&slots}, row, blocks, n, symbols);
}

// If all symbols are below kNumCompared, CountSymbols compares each vector of symbols with each
// value up to the largest symbol.
constexpr size_t kNumCompared = 32;

// Adds the counts of symbols `first` to first + 3 to `counts`. REQUIRES that symbols[0, n) are at
// most 255 vectors, so that 8-bit counters do not overflow.
void CountFour(const uint8_t* symbols, size_t n, size_t first, AnsCounts* counts) {
  const hn::ScalableTag<uint8_t> d;
  const auto first_symbol = static_cast<uint8_t>(first);
  const auto symbol0 = hn::Set(d, first_symbol),
             symbol1 = hn::Set(d, static_cast<uint8_t>(first_symbol + 1)),
             symbol2 = hn::Set(d, static_cast<uint8_t>(first_symbol + 2)),
             symbol3 = hn::Set(d, static_cast<uint8_t>(first_symbol + 3));
  auto count0 = hn::Zero(d), count1 = count0, count2 = count0, count3 = count0;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto symbol_vector = hn::LoadU(d, symbols + i);
    count0 = hn::Sub(count0, hn::VecFromMask(d, hn::Eq(symbol_vector, symbol0)));
    count1 = hn::Sub(count1, hn::VecFromMask(d, hn::Eq(symbol_vector, symbol1)));
    count2 = hn::Sub(count2, hn::VecFromMask(d, hn::Eq(symbol_vector, symbol2)));
    count3 = hn::Sub(count3, hn::VecFromMask(d, hn::Eq(symbol_vector, symbol3)));
  }
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto sum_lanes = [&](auto c) { return hn::GetLane(hn::SumOfLanes(d64, hn::SumsOf8(c))); };
  (*counts)[first] += sum_lanes(count0);
  (*counts)[first + 1] += sum_lanes(count1);
  (*counts)[first + 2] += sum_lanes(count2);
  (*counts)[first + 3] += sum_lanes(count3);
}

AnsCounts CountSymbols(const uint8_t* symbols, size_t n) {
  const hn::ScalableTag<uint8_t> d;
  const size_t num_lanes = hn::Lanes(d);
  const size_t vectorized_n = n / num_lanes * num_lanes;
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < vectorized_n; i += num_lanes)
    largest = hn::Max(largest, hn::LoadU(d, symbols + i));
  if (!hn::AllTrue(d, hn::Lt(largest, hn::Set(d, kNumCompared))))
    return CountSymbolsRef(symbols, n);
  AnsCounts counts = CountSymbolsRef(symbols + vectorized_n, n - vectorized_n);
  for (size_t s = 0; s < kNumCompared; s += 4) {
    const auto is_below = hn::Lt(largest, hn::Set(d, static_cast<uint8_t>(s)));
    if (hn::AllTrue(d, is_below)) break;
    for (size_t i = 0; i < vectorized_n; i += 255 * num_lanes) {
      CountFour(symbols + i,
                vectorized_n - i < 255 * num_lanes ? vectorized_n - i : 255 * num_lanes, s,
                &counts);
    }
  }
  return counts;
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(CountSymbols);
HWY_EXPORT(EncodeAns);
HWY_EXPORT(DecodeAns);

AnsCounts CountSymbols(const uint8_t* symbols, size_t n) {
  return HWY_DYNAMIC_DISPATCH(CountSymbols)(symbols, n);
}

void EncodeAns(const AnsTable& table, const uint8_t* symbols, size_t n,
               std::span<std::span<const uint8_t>> coded, uint8_t* buffer) {
  HWY_DYNAMIC_DISPATCH(EncodeAns)(table, symbols, n, coded, buffer);
}

bool DecodeAns(const AnsTable& table, std::span<const uint8_t> row,
               std::span<const std::span<const uint8_t>> blocks, size_t n, uint8_t* symbols) {
  return HWY_DYNAMIC_DISPATCH(DecodeAns)(table, row, blocks, n, symbols);
}

}  // namespace tern::kernels
#endif

// The random number generator of philox.h for vectors of elements, and the bits of masks. Compiled
// for each instruction set by Highway, except for the scalar one.
#if defined(TERN_KERNELS_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_PHILOX_INL
#undef TERN_KERNELS_PHILOX_INL
#else
#define TERN_KERNELS_PHILOX_INL
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/codes/philox.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The vector types. A 64-bit lane computes one block of the random number generator Philox, that is
// eight random numbers ("draws") of 16 bits. A vector of blocks (D64) gives two vectors of draws
// (D16), which are enough for four vectors of floats.
using D64 = hn::CappedTag<uint64_t, 8>;
using D32 = hn::Repartition<uint32_t, D64>;
using D16 = hn::Repartition<uint16_t, D64>;
using DF = hn::Repartition<float, D64>;
using DI = hn::Repartition<int32_t, D64>;
using V64 = hn::Vec<D64>;
using V16 = hn::Vec<D16>;
using VF = hn::Vec<DF>;

// Philox (philox.h) for the blocks of one key. The words of a block are in the low halves of 64-bit
// lanes; the high halves are unspecified. Only word 0 of the generator's counter differs from block
// to block, so that half of the first two rounds is computed once, here.
struct Philox {
  explicit Philox(const NoiseKey& key) {
    for (uint32_t round = 0; round < 10; ++round) {
      key0[round] = static_cast<uint32_t>(key.seed) + round * 0x9E3779B9;
      key1[round] = static_cast<uint32_t>(key.seed >> 32) + round * 0xBB67AE85;
    }
    const uint64_t word3 = uint64_t{static_cast<uint8_t>(key.stream)} << 24 | uint64_t{key.rank};
    const uint64_t product1 = kMultiplier1 * static_cast<uint32_t>(key.round);
    const uint64_t word0 = static_cast<uint32_t>(product1 >> 32 ^ key.tensor ^ key0[0]);
    const uint64_t product0 = kMultiplier0 * word0;
    first2 = word3 ^ key1[0];
    second0 = static_cast<uint32_t>(product1) ^ key0[1];
    second2 = product0 >> 32 ^ key1[1];
    second3 = product0;
  }
  static constexpr uint64_t kMultiplier0 = 0xD2511F53;
  static constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  uint64_t key0[10], key1[10];  // the two words of the key in each round
  // What the first two rounds combine with: word 2 of round 1, words 0 and 2 of round 2, and word 3
  // after round 2.
  uint64_t first2, second0, second2, second3;
};

// Multiplies the low halves of the lanes by `multiplier`.
HWY_INLINE V64 MultiplyLow(V64 word, uint64_t multiplier) {
  return hn::BitCast(D64(), hn::MulEven(hn::BitCast(D32(), word),
                                        hn::Set(D32(), static_cast<uint32_t>(multiplier))));
}

HWY_INLINE V64 HighWords(V64 product) { return hn::ShiftRight<32>(product); }

// Computes the first two rounds of a vector of blocks, whose numbers are in `blocks`.
HWY_INLINE void FirstTwoRounds(const Philox& philox, V64 blocks, V64* c0, V64* c1, V64* c2,
                               V64* c3) {
  const D64 d;
  const V64 product0 = MultiplyLow(blocks, Philox::kMultiplier0);
  const V64 product1 =
      MultiplyLow(hn::Xor(HighWords(product0), hn::Set(d, philox.first2)), Philox::kMultiplier1);
  *c0 = hn::Xor(HighWords(product1), hn::Set(d, philox.second0));
  *c1 = product1;
  *c2 = hn::Xor(product0, hn::Set(d, philox.second2));
  *c3 = hn::Set(d, philox.second3);
}

// Computes one round.
HWY_INLINE void DoRound(V64 k0, V64 k1, V64* c0, V64* c1, V64* c2, V64* c3) {
  const V64 product0 = MultiplyLow(*c0, Philox::kMultiplier0);
  const V64 product1 = MultiplyLow(*c2, Philox::kMultiplier1);
  *c0 = hn::Xor3(HighWords(product1), *c1, k0);
  *c1 = product1;
  *c2 = hn::Xor3(HighWords(product0), *c3, k1);
  *c3 = product0;
}

// Packs the words after the last round into two vectors of draws. The draws are in the order of the
// elements if the blocks are in the order of InBlockOrder.
HWY_INLINE void PackDraws(V64 c0, V64 c1, V64 c2, V64 c3, V16* lower, V16* upper) {
  const D64 d;
  const auto join_halves = [&](V64 low, V64 high) HWY_ATTR {
    const auto high_words = hn::BitCast(D32(), hn::ShiftLeft<32>(high));
    return hn::BitCast(d, hn::OddEven(high_words, hn::BitCast(D32(), low)));
  };
  const V64 first = join_halves(c0, c1);
  const V64 second = join_halves(c2, c3);
  *lower = hn::BitCast(D16(), hn::InterleaveLower(d, first, second));
  *upper = hn::BitCast(D16(), hn::InterleaveUpper(d, first, second));
}

// The numbers of a vector of blocks from block `first` on, in the order that PackDraws needs: lanes
// 2 i and 2 i + 1 have blocks i and Lanes / 2 + i, because PackDraws moves lane 2 i to the i-th 128
// bits of its first result, and lane 2 i + 1 to the i-th 128 bits of its second result.
HWY_INLINE V64 InBlockOrder(uint32_t first) {
  const D64 d;
  const V64 lane = hn::Iota(d, 0);
  const V64 parity = hn::And(lane, hn::Set(d, 1));
  const V64 block =
      hn::Add(hn::ShiftRight<1>(lane),
              hn::IfThenElseZero(hn::Eq(parity, hn::Set(d, 1)), hn::Set(d, hn::Lanes(d) / 2)));
  return hn::Add(block, hn::Set(d, first));
}

// The draws of four vectors of elements, computed before these elements are encoded.
struct Draws {
  V16 q0, q1, q2, q3;
};

// Computes the draws of the first elements. Advances *blocks to the next blocks.
HWY_INLINE Draws FirstDraws(const Philox& philox, V64* blocks) {
  const D64 d;
  Draws draws;
  const auto compute_two = [&](V16* lower, V16* upper) HWY_ATTR {
    V64 c0, c1, c2, c3;
    FirstTwoRounds(philox, *blocks, &c0, &c1, &c2, &c3);
    *blocks = hn::Add(*blocks, hn::Set(d, hn::Lanes(d)));
    for (int round = 2; round < 10; ++round) {
      DoRound(hn::Set(d, philox.key0[round]), hn::Set(d, philox.key1[round]), &c0, &c1, &c2, &c3);
    }
    PackDraws(c0, c1, c2, c3, lower, upper);
  };
  compute_two(&draws.q0, &draws.q1);
  compute_two(&draws.q2, &draws.q3);
  return draws;
}

// Returns the lanes of a mask as bits.
template <class D>
HWY_INLINE uint64_t MaskBits(D d, hn::Mask<D> mask) {
  uint32_t bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&bits));
#if defined(__GNUC__)
  // g++ 12 spills a mask register by storing 4 bytes and reloads it as 8 (seen in the
  // ThreadSanitizer build). This moves the bits to a general register first.
  asm("" : "+r"(bits));
#endif
  return bits;
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif

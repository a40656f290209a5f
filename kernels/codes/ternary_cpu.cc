// Vectorized functions of ternary.h, compiled once for each instruction set by Highway.
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/ternary_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/bits_hwy.h"
#include "kernels/codes/philox_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

size_t CountOnes(const uint8_t* plane, size_t n) {
  const size_t plane_bytes = PlaneBytes(n);
  const auto ones_of_word = [plane](size_t at) HWY_ATTR {
    uint64_t word;
    std::memcpy(&word, plane + at, 8);
    return static_cast<size_t>(__builtin_popcountll(word));
  };
  size_t even_ones = 0, odd_ones = 0;
  size_t i = 0;
  for (; i + 64 <= plane_bytes; i += 64) {
    hwy::Prefetch(plane + i + 2048);
    for (size_t word = 0; word < 64; word += 16) {
      even_ones += ones_of_word(i + word);
      odd_ones += ones_of_word(i + word + 8);
    }
  }
  for (; i + 8 <= plane_bytes; i += 8) even_ones += ones_of_word(i);
  for (; i < plane_bytes; ++i) odd_ones += static_cast<size_t>(__builtin_popcount(plane[i]));
  return even_ones + odd_ones;
}

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs) {
  return TernarizeRef(g, n, s, clip, key, first, mask, signs);
}

#else

constexpr size_t kPrefetchElements = 1024;  // how far ahead elements are prefetched
constexpr int32_t kInfinityBits = 0x7F800000;

// Decides whether an element fires (has a code that is not 0) from its upper 16 random bits, an
// integer d, without a division. Let t = 65536 x / s, where x / s is rounded to float. The element
// fires if d < floor(t), does not if d > floor(t), and the lower 16 random bits decide if d ==
// floor(t). T is x * rate, rounded to an integer, with rate = 65536 / s. It approximates floor(t):
// three roundings of relative size 2^-24 and t <= 65536 keep x * rate within 3 / 256 of t, so that
// T is floor(t) or floor(t) + 1. Hence the element fires if d < T - 1 and does not if d > T. If d
// is T - 1 or T (a "tie"), TernaryFires decides. `limit` bounds x, so that T stays below 65536;
// larger x change the result only for ties.
struct QuickRule {
  QuickRule(float s, float clip) : rate(65536.0f / s) {
    const float max_limit = s * (65535.0f / 65536.0f);
    limit = clip < max_limit ? clip : max_limit;
  }
  float rate, limit;
};

constexpr size_t kStepElements = 128;  // elements that are encoded per step
// The codes of one step, one bit per element.
struct Codes {
  uint64_t fires[kStepElements / 64] = {};
  uint64_t ties[kStepElements / 64] = {};  // TernaryFires must decide these elements
  uint64_t negative[kStepElements / 64] = {};

  // The packed signs of word w, and their number.
  HWY_INLINE uint64_t SignBits(size_t w) const { return CompressBits(negative[w], fires[w]); }
  HWY_INLINE size_t NumSigns(size_t w) const {
    return static_cast<size_t>(__builtin_popcountll(fires[w]));
  }
};

// Encodes g[i, i + Lanes(D16)) with the draws `draws`. Raises *largest to the bits of the largest
// magnitudes, which show whether there is a NaN.
HWY_INLINE void CodeLanes(const float* g, size_t i, const QuickRule& rule, V16 draws, Codes* codes,
                          hn::Vec<DI>* largest) {
  const DF d;
  const DI di;
  const D16 d16;
  const hn::RebindToSigned<D16> di16;
  // All floats in [2^23, 2^24) are integers, so that adding 2^23 rounds to an integer, and the low
  // 16 bits of the sum are T.
  const auto threshold = [&](VF v) HWY_ATTR {
    const VF magnitude = hn::Abs(v);
    *largest = hn::Max(*largest, hn::BitCast(di, magnitude));
    const VF x = hn::Min(magnitude, hn::Set(d, rule.limit));
    return hn::BitCast(d16, hn::MulAdd(x, hn::Set(d, rule.rate), hn::Set(d, 0x1p23f)));
  };
  const VF low = hn::LoadU(d, g + i);
  const VF high = hn::LoadU(d, g + i + hn::Lanes(d));
  const V16 t = hn::ConcatEven(d16, threshold(high), threshold(low));
  const V16 upper_halves = hn::ConcatOdd(d16, hn::BitCast(d16, high), hn::BitCast(d16, low));
  codes->fires[i / 64] |= MaskBits(d16, hn::Gt(t, draws)) << i % 64;
  codes->ties[i / 64] |= MaskBits(d16, hn::Lt(hn::Sub(t, draws), hn::Set(d16, 2))) << i % 64;
  codes->negative[i / 64] |= MaskBits(di16, hn::Lt(hn::BitCast(di16, upper_halves), hn::Zero(di16)))
                             << i % 64;
}

// Encodes kStepElements elements. *draws has the first of their draws, and gets the first draws of
// the next step. Alternates drawing and encoding, which gives the CPU independent instructions.
HWY_INLINE void CodeStep(const Philox& philox, const QuickRule& rule, const float* g, V64* blocks,
                         Draws* draws, Codes* codes, hn::Vec<DI>* largest) {
  const D64 d;
  const size_t lanes = hn::Lanes(D16());
  for (size_t i = 0; i < kStepElements; i += 4 * lanes) {
    V64 a0, a1, a2, a3, b0, b1, b2, b3;
    FirstTwoRounds(philox, *blocks, &a0, &a1, &a2, &a3);
    *blocks = hn::Add(*blocks, hn::Set(d, hn::Lanes(d)));
    FirstTwoRounds(philox, *blocks, &b0, &b1, &b2, &b3);
    *blocks = hn::Add(*blocks, hn::Set(d, hn::Lanes(d)));
    const auto round = [&](int r) HWY_ATTR {
      const V64 k0 = hn::Set(d, philox.key0[r]);
      const V64 k1 = hn::Set(d, philox.key1[r]);
      DoRound(k0, k1, &a0, &a1, &a2, &a3);
      DoRound(k0, k1, &b0, &b1, &b2, &b3);
    };
    round(2);
    round(3);
    CodeLanes(g, i, rule, draws->q0, codes, largest);
    round(4);
    round(5);
    CodeLanes(g, i + lanes, rule, draws->q1, codes, largest);
    round(6);
    round(7);
    CodeLanes(g, i + 2 * lanes, rule, draws->q2, codes, largest);
    round(8);
    round(9);
    CodeLanes(g, i + 3 * lanes, rule, draws->q3, codes, largest);
    PackDraws(a0, a1, a2, a3, &draws->q0, &draws->q1);
    PackDraws(b0, b1, b2, b3, &draws->q2, &draws->q3);
  }
}

// Writes bits to a row of `capacity` bytes, 64 bits at a time.
class BitWriter {
 public:
  BitWriter(uint8_t* bytes, size_t capacity) : bytes_(bytes), capacity_(capacity) {}

  // Appends the low `count` bits of `bits`. REQUIRES that the other bits are zero, and that 8 bytes
  // can be written from byte num_bytes_ of the row on.
  HWY_INLINE void Append(uint64_t bits, size_t count) {
    const uint64_t full_word = pending_ | bits << num_pending_;
    std::memcpy(bytes_ + num_bytes_, &full_word, 8);
    const uint64_t overflow = bits >> 1 >> (63 - num_pending_);
    num_pending_ += count;
    const bool is_full = num_pending_ >= 64;
    pending_ = is_full ? overflow : full_word;
    num_bytes_ += is_full ? 8 : 0;
    num_pending_ &= 63;
  }

  // Appends the last bits, and fills the rest of the row with zeros. Returns the number of bits
  // written.
  size_t Finish(uint64_t bits, size_t count) {
    const uint64_t tail[2] = {pending_ | bits << num_pending_, bits >> 1 >> (63 - num_pending_)};
    const size_t bytes_left = capacity_ - num_bytes_;
    std::memcpy(bytes_ + num_bytes_, tail, bytes_left < sizeof(tail) ? bytes_left : sizeof(tail));
    if (bytes_left > sizeof(tail))
      std::memset(bytes_ + num_bytes_ + sizeof(tail), 0, bytes_left - sizeof(tail));
    return 8 * num_bytes_ + num_pending_ + count;
  }

 private:
  uint8_t* bytes_;
  size_t capacity_;
  size_t num_bytes_ = 0;    // whole bytes written
  uint64_t pending_ = 0;    // the bits of the next word
  size_t num_pending_ = 0;  // number of bits in pending_, below 64
};

// Decides the elements of one word whose bits in `ties` are one: about one element in 32768.
HWY_NOINLINE uint64_t DecideTies(const float* g, float s, float clip, const NoiseKey& key,
                                 uint64_t first, uint64_t ties) {
  uint64_t fire_bits = 0;
  for (; ties != 0; ties &= ties - 1) {
    const int i = __builtin_ctzll(ties);
    const bool fires = TernaryFires(g[i], s, clip, key, first + static_cast<uint64_t>(i));
    fire_bits |= uint64_t{fires} << i;
  }
  return fire_bits;
}

size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs) {
  // The scalar code handles empty tensors, invalid scalers and clip levels, and very small and very
  // large scalers.
  if (n == 0 || !(s > 1e-30f) || s > 3.4e38f || !(clip >= 0)) {
    return TernarizeRef(g, n, s, clip, key, first, mask, signs);
  }
  const Philox philox(key);
  const QuickRule rule(s, clip);
  BitWriter masks(mask, PlaneBytes(n));
  BitWriter negatives(signs, PlaneBytes(n));
  V64 blocks = InBlockOrder(static_cast<uint32_t>(first / 8));
  Draws draws = FirstDraws(philox, &blocks);
  auto largest = hn::Zero(DI());
  Codes codes;
  const auto append_word = [&](size_t w, size_t count) HWY_ATTR {
    masks.Append(codes.fires[w], count);
    negatives.Append(codes.SignBits(w), codes.NumSigns(w));
  };
  size_t num_skipped = first % 8;  // number of elements of the first block that precede g[0]
  size_t count = 0;
  for (size_t i = 0;; i += count, num_skipped = 0) {
    count = n - i < kStepElements - num_skipped ? n - i : kStepElements - num_skipped;
    for (size_t line = 0; line < kStepElements; line += 16)
      hwy::Prefetch(g + i + kPrefetchElements + line);
    const float* x = g + i;
    float padded[kStepElements];
    if (HWY_UNLIKELY(count < kStepElements)) {
      std::memset(padded, 0, sizeof(padded));
      std::memcpy(padded + num_skipped, x, count * sizeof(float));
      x = padded;
    }
    codes = Codes();
    CodeStep(philox, rule, x, &blocks, &draws, &codes, &largest);
    if (HWY_UNLIKELY((codes.ties[0] | codes.ties[1]) != 0)) {
      for (size_t w = 0; w < kStepElements / 64; ++w) {
        const uint64_t ties = codes.ties[w];
        codes.fires[w] &= ~ties;
        codes.fires[w] |=
            DecideTies(x + 64 * w, s, clip, key, first + i - num_skipped + 64 * w, ties);
      }
    }
    codes.fires[0] >>= num_skipped;
    codes.negative[0] >>= num_skipped;
    if (i + count == n) break;
    append_word(0, 64 - num_skipped);
    append_word(1, 64);
  }
  const size_t last_word = count > 64 - num_skipped ? 1 : 0;
  if (last_word == 1) append_word(0, 64 - num_skipped);
  masks.Finish(codes.fires[last_word], last_word == 1 ? count - (64 - num_skipped) : count);
  const size_t num_signs = negatives.Finish(codes.SignBits(last_word), codes.NumSigns(last_word));
  const bool has_nan = !hn::AllFalse(DI(), hn::Gt(largest, hn::Set(DI(), kInfinityBits)));
  return has_nan ? TernarizeRef(g, n, s, clip, key, first, mask, signs) : num_signs;
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(CountOnes);
HWY_EXPORT(Ternarize);

size_t CountOnes(const uint8_t* plane, size_t n) {
  return HWY_DYNAMIC_DISPATCH(CountOnes)(plane, n);
}

size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(Ternarize)(g, n, s, clip, key, first, mask, signs);
}

}  // namespace tern::kernels
#endif

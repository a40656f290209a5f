#include <cstdint>
#include <cstring>

#include "kernels/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ternary_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64 && !defined(TERN_KERNELS_HAVE_BMI_HEADER)
#define TERN_KERNELS_HAVE_BMI_HEADER
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

size_t CountOnes(const uint8_t* plane, size_t n) {
  const size_t size = PlaneBytes(n);
  size_t ones = 0;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, plane + i, 8);
    ones += static_cast<size_t>(__builtin_popcountll(word));
  }
  for (; i < size; ++i) ones += static_cast<size_t>(__builtin_popcount(plane[i]));
  return ones;
}

#if HWY_TARGET == HWY_SCALAR  // one lane: nothing to gain over the reference

size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs) {
  return TernarizeRef(g, n, s, clip, key, first, mask, signs);
}

#else

// The bits of `bits` at the ones of `mask`, moved together at the low end.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2

HWY_INLINE uint64_t Compress(uint64_t bits, uint64_t mask) { return _pext_u64(bits, mask); }

#else

// By halves: a bit must move right by the number of zeros of `mask` below it; round k moves by 2^k
// those whose number has bit k.
HWY_INLINE uint64_t Compress(uint64_t bits, uint64_t mask) {
  bits &= mask;
  uint64_t zeros = ~mask << 1;
  for (int k = 0; k < 6; ++k) {
    uint64_t parity = zeros;  // of the zeros below each place
    for (int shift = 1; shift < 64; shift *= 2) parity ^= parity << shift;
    const uint64_t step = parity & mask;
    mask = (mask ^ step) | step >> (1 << k);
    const uint64_t moving = bits & step;
    bits = (bits ^ moving) | moving >> (1 << k);
    zeros &= ~parity;
  }
  return bits;
}

#endif

constexpr size_t kBatch = 4096;   // elements whose draws are made at a time
constexpr size_t kMostStep = 32;  // blocks made at a time, at most
using D64 = hn::CappedTag<uint64_t, kMostStep / 2>;

// One round of Philox (philox_ref.cc), in the low halves of 64-bit lanes; the high halves are
// rubbish.
template <class V>
HWY_INLINE void Round(V* c0, V* c1, V* c2, V* c3, V k0, V k1) {
  const hn::Repartition<uint32_t, D64> d32;
  const auto product0 = hn::MulEven(hn::BitCast(d32, *c0), hn::Set(d32, 0xD2511F53));
  const auto product1 = hn::MulEven(hn::BitCast(d32, *c2), hn::Set(d32, 0xCD9E8D57));
  *c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), *c1), k0);
  *c1 = product1;
  *c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), *c3), k1);
  *c3 = product0;
}

// The level 0 draws of `blocks` blocks, rounded up to whole vectors.
void Draws(const NoiseKey& key, uint32_t block, size_t blocks, uint16_t* draws) {
  const D64 d;
  const hn::Repartition<uint16_t, D64> d16;
  const size_t step = hn::Lanes(d);
  // The last interleaving brings lanes 2 L and 2 L + 1 to 128-bit lane L of the first and of the
  // second vector: so these take blocks L and step / 2 + L.
  const auto iota = hn::Iota(d, 0);
  const auto odd = hn::And(iota, hn::Set(d, 1));
  const auto order = hn::Add(hn::ShiftRight<1>(iota),
                             hn::IfThenElseZero(hn::Eq(odd, hn::Set(d, 1)), hn::Set(d, step / 2)));
  const uint64_t place = uint64_t{static_cast<uint8_t>(key.stream)} << 24 | uint64_t{key.rank};
  const auto low = hn::Set(d, 0xFFFFFFFF);
  for (size_t b = 0; b < blocks; b += step, draws += 8 * step) {
    auto c0 = hn::Add(order, hn::Set(d, block + b));
    auto c1 = hn::Set(d, key.tensor);
    auto c2 = hn::Set(d, key.round);
    auto c3 = hn::Set(d, place);
    auto k0 = static_cast<uint32_t>(key.seed);
    auto k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Round(&c0, &c1, &c2, &c3, hn::Set(d, k0), hn::Set(d, k1));
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    const auto first = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto second = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d, first, second)), d16, draws);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d, first, second)), d16, draws + 4 * step);
  }
}

using DF = hn::CappedTag<float, 16>;

HWY_INLINE uint64_t MaskBits(DF d, hn::Mask<DF> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  return bits;
}

struct Word {
  uint64_t fires = 0;
  uint64_t ties = 0;  // 16 bits did not decide
  uint64_t negative = 0;
};

// Equation 2 for 64 elements by their level 0 draws.
HWY_INLINE Word CodeWord(const float* g, float s, float clip, const uint16_t* draws) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto scaler = hn::Set(d, s);
  const auto limit = hn::Set(d, clip);
  const auto one = hn::Set(d, 1.0f);
  Word word;
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, g + i);
    const auto magnitude = hn::Abs(v);
    // The threshold in units of a 16-bit draw, exact: its integer part decides, its fraction is for
    // ties.
    const auto p = hn::Div(hn::Min(magnitude, limit), scaler);
    const auto threshold = hn::Mul(p, hn::Set(d, 65536.0f));
    const auto draw = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, draws + i)));
    const auto number = hn::Gt(magnitude, hn::Zero(d));  // not zero, not NaN
    const auto fires = hn::And(number, hn::Le(hn::Add(draw, one), threshold));
    const auto reached = hn::And(number, hn::Le(draw, threshold));
    word.fires |= MaskBits(d, fires) << i;
    word.ties |= MaskBits(d, hn::AndNot(fires, reached)) << i;
    word.negative |= MaskBits(d, hn::Lt(v, hn::Zero(d))) << i;
  }
  return word;
}

// Appends bits to a row of bytes, a word at a time.
class SignWriter {
 public:
  explicit SignWriter(uint8_t* bytes) : bytes_(bytes) {}

  // REQUIRES the bits above `count` zero, and 8 bytes of room from the word being filled on.
  HWY_INLINE void Append(uint64_t bits, size_t count) {
    const uint64_t filled = pending_ | bits << used_;
    std::memcpy(bytes_ + size_, &filled, 8);
    const uint64_t rest = bits >> 1 >> (63 - used_);
    used_ += count;
    const bool full = used_ >= 64;
    pending_ = full ? rest : filled;
    size_ += full ? 8 : 0;
    used_ &= 63;
  }

  // The last bits, and zeros up to `room` bytes. Returns the number of bits in all.
  size_t Finish(uint64_t bits, size_t count, size_t room) {
    const uint64_t last[2] = {pending_ | bits << used_, bits >> 1 >> (63 - used_)};
    const size_t left = room - size_;
    std::memcpy(bytes_ + size_, last, left < sizeof(last) ? left : sizeof(last));
    if (left > sizeof(last)) std::memset(bytes_ + size_ + sizeof(last), 0, left - sizeof(last));
    return 8 * size_ + used_ + count;
  }

 private:
  uint8_t* bytes_;
  size_t size_ = 0;
  uint64_t pending_ = 0;
  size_t used_ = 0;
};

// The ties of 64 elements, one in 65536, by the rule for one element.
HWY_INLINE void Resolve(const float* g, float s, float clip, const NoiseKey& key, uint64_t first,
                        Word* word) {
  for (uint64_t ties = word->ties; ties != 0; ties &= ties - 1) {
    const int i = __builtin_ctzll(ties);
    const bool fires = TernaryFires(g[i], s, clip, key, first + static_cast<uint64_t>(i));
    word->fires |= uint64_t{fires} << i;
  }
}

size_t Ternarize(const float* g, size_t n, float s, float clip, const NoiseKey& key, uint64_t first,
                 uint8_t* mask, uint8_t* signs) {
  // Not what a scaler should be: 0 / 0 and the like are left to the rule for one element.
  if (n == 0 || !(s > 0) || s > 3.4e38f || !(clip >= 0)) {
    return TernarizeRef(g, n, s, clip, key, first, mask, signs);
  }
  alignas(64) uint16_t draws[kBatch + 8 * (kMostStep + 1) + 64];
  const size_t offset = first % 8;
  const uint16_t* draw = nullptr;
  SignWriter writer(signs);
  size_t i = 0;
  const auto code = [&](const float* x, size_t count) HWY_ATTR {
    if (i % kBatch == 0) {
      const size_t elements = offset + (n - i < kBatch ? n - i : kBatch);
      Draws(key, static_cast<uint32_t>((first + i) / 8), (elements + 7) / 8, draws);
      draw = draws + offset;
    }
    Word word = CodeWord(x, s, clip, draw);
    if (HWY_UNLIKELY(word.ties != 0)) Resolve(x, s, clip, key, first + i, &word);
    std::memcpy(mask + i / 8, &word.fires, PlaneBytes(count));
    draw += 64;
    return word;
  };
  for (; n - i >= 64; i += 64) {
    const Word word = code(g + i, 64);
    writer.Append(Compress(word.negative, word.fires),
                  static_cast<size_t>(__builtin_popcountll(word.fires)));
  }
  float last[64] = {};
  std::memcpy(last, g + i, (n - i) * sizeof(float));
  const Word word = i < n ? code(last, n - i) : Word();
  return writer.Finish(Compress(word.negative, word.fires),
                       static_cast<size_t>(__builtin_popcountll(word.fires)), PlaneBytes(n));
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

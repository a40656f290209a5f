// Vectorized conversions of trits.h, compiled once for each instruction set by Highway.
#include <cstdint>
#include <cstring>

#include "kernels/codes/ternary.h"
#include "kernels/codes/trits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/trits_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/bits_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void TritsOfCode(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                 uint8_t* trits) {
  TritsOfCodeRef(mask, signs, sign_bytes, n, trits);
}
size_t CodeOfTrits(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs) {
  return CodeOfTritsRef(trits, n, mask, signs);
}

#else

// 320 elements are converted at a time: kWords 64-bit words of a plane (one bit per element), and
// kTritBytes bytes of trits. 40 elements are five bytes of a plane and eight bytes of trits. In an
// intermediate format, 40 bits of a plane are spread over eight bytes, five bits in each byte.
constexpr size_t kWords = 5;
constexpr size_t kElements = 64 * kWords;
constexpr size_t kTritBytes = kElements / kTritsInByte;

using D = hn::CappedTag<uint8_t, kTritBytes>;
using D64 = hn::Repartition<uint64_t, D>;
using V64 = hn::Vec<D64>;

// SpreadHalves keeps the bits where the mask `lower` is one, and moves the bits where `upper` is
// one kShift bits up. JoinHalves moves them back.
template <int kShift>
HWY_INLINE V64 SpreadHalves(V64 bits, uint64_t lower, uint64_t upper) {
  return hn::Or(hn::And(bits, hn::Set(D64(), lower)),
                hn::ShiftLeft<kShift>(hn::And(bits, hn::Set(D64(), upper))));
}
template <int kShift>
HWY_INLINE V64 JoinHalves(V64 bits, uint64_t lower, uint64_t upper) {
  return hn::Or(hn::And(bits, hn::Set(D64(), lower)),
                hn::And(hn::ShiftRight<kShift>(bits), hn::Set(D64(), upper)));
}

// SpreadFives spreads 40 bits over the eight bytes of a 64-bit lane, five bits in each byte, in
// three steps: 20 bits in each half, 10 in each quarter, 5 in each byte. JoinFives does the
// reverse.
constexpr uint64_t kLower20 = 0x00000000000FFFFF, kUpper20 = kLower20 << 20;
constexpr uint64_t kLower10 = 0x000003FF000003FF, kUpper10 = kLower10 << 10;
constexpr uint64_t kLower5 = 0x001F001F001F001F, kUpper5 = kLower5 << 5;
HWY_INLINE V64 SpreadFives(V64 forty) {
  const V64 twenties = SpreadHalves<12>(forty, kLower20, kUpper20);
  const V64 tens = SpreadHalves<6>(twenties, kLower10, kUpper10);
  return SpreadHalves<3>(tens, kLower5, kUpper5);
}
HWY_INLINE V64 JoinFives(V64 fives) {
  const V64 tens = JoinHalves<3>(fives, kLower5, kUpper5);
  const V64 twenties = JoinHalves<6>(tens, kLower10, kUpper10);
  return JoinHalves<12>(twenties, kLower20, kUpper20);
}

// Converts each byte, with bits b0 to b4, to b0 + 3 b1 + 9 b2 + 27 b3 + 81 b4.
HWY_INLINE hn::Vec<D> BitsToBase3(hn::Vec<D> fives) {
  alignas(16) static constexpr uint8_t kSums[16] = {0,  1,  3,  4,  9,  10, 12, 13,
                                                    27, 28, 30, 31, 36, 37, 39, 40};
  const D d;
  const auto low_bits = hn::And(fives, hn::Set(d, 15));
  const auto has_bit4 = hn::Gt(fives, hn::Set(d, 15));
  return hn::Add(hn::TableLookupBytes(hn::LoadDup128(d, kSums), low_bits),
                 hn::IfThenElseZero(has_bit4, hn::Set(d, 81)));
}

// Converts 320 elements from two planes to trits: the mask, and the signs, with the sign of element
// i at bit i.
void TritsOfWords(const uint64_t* mask, const uint64_t* negative, uint8_t* trits) {
  const D d;
  uint64_t forties[2][kTritBytes / 8];
  const uint64_t* const planes[] = {mask, negative};
  for (size_t p = 0; p < 2; ++p) {
    uint8_t bytes[8 * kWords + 3] = {};
    std::memcpy(bytes, planes[p], 8 * kWords);
    for (size_t k = 0; k < kTritBytes / 8; ++k) std::memcpy(&forties[p][k], bytes + kWords * k, 8);
  }
  for (size_t i = 0; i < kTritBytes; i += hn::Lanes(d)) {
    const auto ones = SpreadFives(hn::LoadU(D64(), forties[0] + i / 8));
    const auto signs = SpreadFives(hn::LoadU(D64(), forties[1] + i / 8));
    hn::StoreU(hn::Add(BitsToBase3(hn::BitCast(d, ones)), BitsToBase3(hn::BitCast(d, signs))), d,
               trits + i);
  }
}

void TritsOfCode(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                 uint8_t* trits) {
  const size_t plane_bytes = PlaneBytes(n);
  SignReader reader(signs, sign_bytes, 0);
  for (size_t i = 0; i < n; i += kElements) {
    uint64_t ones[kWords] = {}, negative[kWords];
    const size_t num_bytes = plane_bytes - i / 8 < sizeof ones ? plane_bytes - i / 8 : sizeof ones;
    std::memcpy(ones, mask + i / 8, num_bytes);
    for (size_t w = 0; w < kWords; ++w) negative[w] = reader.ReadSigns(ones[w]);
    if (n - i >= kElements) {
      TritsOfWords(ones, negative, trits + i / kTritsInByte);
      continue;
    }
    uint8_t last_trits[kTritBytes];
    TritsOfWords(ones, negative, last_trits);
    std::memcpy(trits + i / kTritsInByte, last_trits, TritBytes(n - i));
  }
}

// Converts the trits of 320 elements to the two planes of TritsOfWords. Finds the digits from the
// highest power of 3 down: the digit is not 0 if the rest of the byte is at least the power, and 2
// if the rest is at least twice the power.
void WordsOfTrits(const uint8_t* trits, uint64_t* mask, uint64_t* negative) {
  const D d;
  uint64_t forties[2][kTritBytes / 8];
  for (size_t i = 0; i < kTritBytes; i += hn::Lanes(d)) {
    auto rest = hn::LoadU(d, trits + i);
    auto ones = hn::Zero(d), signs = hn::Zero(d);
    for (uint8_t digit = kTritsInByte, power = 81; digit-- > 0; power /= 3) {
      const auto bit = hn::Set(d, static_cast<uint8_t>(1 << digit));
      const auto at_least_1 = hn::Gt(rest, hn::Set(d, static_cast<uint8_t>(power - 1)));
      const auto at_least_2 = hn::Gt(rest, hn::Set(d, static_cast<uint8_t>(2 * power - 1)));
      ones = hn::Or(ones, hn::IfThenElseZero(at_least_1, bit));
      signs = hn::Or(signs, hn::IfThenElseZero(at_least_2, bit));
      rest = hn::Sub(rest, hn::IfThenElseZero(at_least_1, hn::Set(d, power)));
      rest = hn::Sub(rest, hn::IfThenElseZero(at_least_2, hn::Set(d, power)));
    }
    hn::StoreU(JoinFives(hn::BitCast(D64(), ones)), D64(), forties[0] + i / 8);
    hn::StoreU(JoinFives(hn::BitCast(D64(), signs)), D64(), forties[1] + i / 8);
  }
  uint64_t* const planes[] = {mask, negative};
  for (size_t p = 0; p < 2; ++p) {
    uint8_t bytes[8 * kWords + 3];
    for (size_t k = 0; k < kTritBytes / 8; ++k) std::memcpy(bytes + kWords * k, &forties[p][k], 8);
    std::memcpy(planes[p], bytes, 8 * kWords);
  }
}

size_t CodeOfTrits(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs) {
  const size_t plane_bytes = PlaneBytes(n);
  SignWriter writer(signs, 0);
  for (size_t i = 0; i < n; i += kElements) {
    uint64_t ones[kWords], negative[kWords];
    uint8_t last_trits[kTritBytes] = {};
    const uint8_t* source = trits + i / kTritsInByte;
    if (n - i < kElements)
      source = static_cast<uint8_t*>(std::memcpy(last_trits, source, TritBytes(n - i)));
    WordsOfTrits(source, ones, negative);
    std::memcpy(mask + i / 8, ones,
                plane_bytes - i / 8 < sizeof ones ? plane_bytes - i / 8 : sizeof ones);
    for (size_t w = 0; w < kWords; ++w) writer.WriteSigns(negative[w], ones[w]);
  }
  return writer.Finish();
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(TritsOfCode);
HWY_EXPORT(CodeOfTrits);

void TritsOfCode(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                 uint8_t* trits) {
  HWY_DYNAMIC_DISPATCH(TritsOfCode)(mask, signs, sign_bytes, n, trits);
}

size_t CodeOfTrits(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(CodeOfTrits)(trits, n, mask, signs);
}

}  // namespace tern::kernels
#endif

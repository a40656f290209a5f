// Vectorized functions of levels.h, compiled once for each instruction set by Highway.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/codes/levels.h"
#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/levels_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/codes/philox_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void EncodeLevels(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                  uint64_t first, uint8_t* planes) {
  EncodeLevelsRef(g, n, scale, key, first, planes);
}

#else

// The constants with which most levels are certain without a division, a double, or the lower 16 of
// the 32 random bits. With the x of levels.h and u = (draw32 + 1) / 2^32 the level is
// floor(x - u) + 1, and u lies in (draw16 / 2^16, (draw16 + 1) / 2^16], where draw16 is the upper
// half of draw32. magnitude * rate differs from x by at most s 2^-22, because of three roundings of
// values up to s; `error` is a bound for all roundings.
struct QuickLevels {
  explicit QuickLevels(const LevelScale& scale)
      : limit(std::min(scale.clip, scale.norm)),
        rate(static_cast<float>(LargestLevel(scale.bits)) / scale.norm),
        error(static_cast<float>(LargestLevel(scale.bits) + 1) * 0x1p-21f) {}
  float limit, rate, error;
};

// Writes the codes of a vector of elements, with the upper random halves `draw16`. Returns a bit
// for each element whose code is not certain.
HWY_INLINE uint64_t CodesOfLanes(const QuickLevels& quick, const float* g, hn::Vec<DI> draw16,
                                 int8_t* codes) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DI> d8;
  const VF v = hn::LoadU(d, g);
  const VF y = hn::Mul(hn::Min(hn::Abs(v), hn::Set(d, quick.limit)), hn::Set(d, quick.rate));
  const VF error = hn::Set(d, quick.error);
  const VF min_u = hn::Mul(hn::ConvertTo(d, draw16), hn::Set(d, 0x1p-16f));
  const VF max_u = hn::Add(min_u, hn::Set(d, 0x1p-16f));
  const VF level = hn::Add(hn::Floor(hn::Sub(hn::Sub(y, max_u), error)), hn::Set(d, 1.0f));
  const auto is_certain = hn::Lt(hn::Add(hn::Sub(y, min_u), error), level);
  const auto magnitude = hn::ConvertTo(di, level);
  const auto is_negative = hn::RebindMask(di, hn::Lt(v, hn::Zero(d)));
  const auto code = hn::IfThenElse(is_negative, hn::Neg(magnitude), magnitude);
  hn::StoreU(hn::DemoteTo(d8, code), d8, codes);
  return MaskBits(d, hn::Not(is_certain));
}

// The elements that one call of CodesOfBlocks encodes: four vectors of draws.
HWY_INLINE size_t ElementsOfStep() { return 4 * hn::Lanes(D16()); }

// Encodes ElementsOfStep() elements from `element` on, a multiple of 8.
HWY_INLINE void CodesOfBlocks(const QuickLevels& quick, const LevelScale& scale,
                              const Philox& philox, const NoiseKey& key, const float* g,
                              uint64_t element, int8_t* codes) {
  const DI di;
  const hn::Half<D16> d16h;
  V64 blocks = InBlockOrder(static_cast<uint32_t>(element / 8));
  const Draws draws = FirstDraws(philox, &blocks);
  const size_t lanes = hn::Lanes(di);
  const auto encode = [&](size_t i, V16 draw16) HWY_ATTR {
    uint64_t uncertain =
        CodesOfLanes(quick, g + i, hn::PromoteTo(di, hn::LowerHalf(d16h, draw16)), codes + i);
    uncertain |= CodesOfLanes(quick, g + i + lanes, hn::PromoteTo(di, hn::UpperHalf(d16h, draw16)),
                              codes + i + lanes)
                 << lanes;
    for (; HWY_UNLIKELY(uncertain != 0); uncertain &= uncertain - 1) {
      const size_t k = i + static_cast<size_t>(__builtin_ctzll(uncertain));
      codes[k] = static_cast<int8_t>(LevelOf(g[k], scale, key, element + k));
    }
  };
  encode(0, draws.q0);
  encode(2 * lanes, draws.q1);
  encode(4 * lanes, draws.q2);
  encode(6 * lanes, draws.q3);
}

// Writes planes [0, bits) of 64 codes: 8 bytes at `plane` and at each multiple of plane_bytes from
// there, or fewer where the row has fewer bytes left.
HWY_INLINE void WritePlanes(const int8_t* codes, int bits, size_t plane_bytes, size_t num_bytes,
                            uint8_t* plane) {
  const hn::CappedTag<int8_t, 64> d;
  for (int p = 0; p < bits; ++p, plane += plane_bytes) {
    uint64_t word = 0;
    const auto bit = hn::Set(d, static_cast<int8_t>(1 << p));
    for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
      uint8_t lane_bits[8] = {};
      hn::StoreMaskBits(d, hn::TestBit(hn::LoadU(d, codes + i), bit), lane_bits);
      uint64_t lane_word;
      std::memcpy(&lane_word, lane_bits, 8);
      word |= lane_word << i;
    }
    std::memcpy(plane, &word, num_bytes);
  }
}

void EncodeLevels(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                  uint64_t first, uint8_t* planes) {
  // The scalar code handles norms with which the rate, or a product with it, might overflow.
  if (!(scale.norm > 0x1p-100f && scale.norm < 0x1p100f))
    return EncodeLevelsRef(g, n, scale, key, first, planes);
  constexpr size_t kBlock = 1024, kMaxStep = 128;  // elements
  const QuickLevels quick(scale);
  const Philox philox(key);
  const size_t plane_bytes = PlaneBytes(n), step = ElementsOfStep();
  alignas(64) int8_t codes[kBlock + 2 * kMaxStep];
  size_t num_coded = 0;  // the elements of the block at the front of `codes`
  // The elements of the first block of random numbers, if that begins before the row.
  for (; num_coded < n && (first + num_coded) % 8 != 0; ++num_coded)
    codes[num_coded] = static_cast<int8_t>(LevelOf(g[num_coded], scale, key, first + num_coded));
  for (size_t at = 0; at < n; at += kBlock) {
    const size_t count = std::min(kBlock, n - at);
    while (num_coded < count) {
      const size_t i = at + num_coded, num_left = n - i;
      float padded[kMaxStep] = {};
      if (num_left < step) std::memcpy(padded, g + i, num_left * sizeof(float));
      CodesOfBlocks(quick, scale, philox, key, num_left < step ? padded : g + i, first + i,
                    codes + num_coded);
      num_coded += std::min(step, num_left);
    }
    std::memset(codes + num_coded, 0, at + num_coded < n ? 0 : kMaxStep);
    for (size_t i = 0; i < count; i += 64)
      WritePlanes(codes + i, scale.bits, plane_bytes, std::min<size_t>(8, PlaneBytes(count - i)),
                  planes + (at + i) / 8);
    // Codes of the next block, because a step may go beyond the block.
    num_coded -= count;
    std::memmove(codes, codes + kBlock, num_coded);
  }
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(EncodeLevels);

void EncodeLevels(const float* g, size_t n, const LevelScale& scale, const NoiseKey& key,
                  uint64_t first, uint8_t* planes) {
  HWY_DYNAMIC_DISPATCH(EncodeLevels)(g, n, scale, key, first, planes);
}

}  // namespace tern::kernels
#endif

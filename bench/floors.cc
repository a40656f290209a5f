#include "bench/floors.h"

#include "kernels/codes/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/floors.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::CappedTag<uint32_t, 16>;
using FloatTag = hn::RebindToFloat<WordTag>;
using WordVector = hn::Vec<WordTag>;

HWY_INLINE WordVector LoadBits(const float* x) {
  return hn::BitCast(WordTag(), hn::LoadU(FloatTag(), x));
}

// Returns the bitwise OR of the elements (Highway calls them lanes) of a vector.
uint32_t OrOfLanes(WordVector v) {
  alignas(64) uint32_t lanes[16] = {};
  hn::Store(v, WordTag(), lanes);
  uint32_t result = 0;
  for (const uint32_t lane : lanes) result |= lane;
  return result;
}

uint32_t ReadPass(const float* x, size_t n) {
  const size_t step = hn::Lanes(WordTag());
  WordVector a = hn::Zero(WordTag()), b = a, c = a, e = a;
  size_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = hn::Or(a, LoadBits(x + i));
    b = hn::Or(b, LoadBits(x + i + step));
    c = hn::Or(c, LoadBits(x + i + 2 * step));
    e = hn::Or(e, LoadBits(x + i + 3 * step));
  }
  return OrOfLanes(hn::Or(hn::Or(a, b), hn::Or(c, e)));
}

// The bytes of a plane as 32-bit words.
HWY_INLINE uint32_t* Words(uint8_t* plane) { return reinterpret_cast<uint32_t*>(plane); }
HWY_INLINE const uint32_t* Words(const uint8_t* plane) {
  return reinterpret_cast<const uint32_t*>(plane);
}

uint32_t ReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs) {
  const size_t step = hn::Lanes(WordTag());
  const size_t bytes = step * sizeof(uint32_t);  // The bytes of a plane for `group` elements.
  const size_t group = 8 * bytes;
  WordVector any = hn::Zero(WordTag());
  size_t groups = 0;
  for (size_t i = 0; i + group <= n; i += group, ++groups) {
    WordVector a = any, b = any;
    for (size_t j = 0; j < group; j += 2 * step) {
      a = hn::Or(a, LoadBits(x + i + j));
      b = hn::Or(b, LoadBits(x + i + j + step));
    }
    any = hn::Or(a, b);
    hn::StoreU(any, WordTag(), Words(mask + groups * bytes));
    if (groups % 3 == 0) hn::StoreU(any, WordTag(), Words(signs + groups / 3 * bytes));
  }
  return OrOfLanes(any);
}

uint32_t UpdatePass(const uint8_t* planes, size_t n, int bits, float* w, float* v) {
  const size_t step = hn::Lanes(WordTag());
  const size_t group = 8 * step * sizeof(uint32_t);
  WordVector any = hn::Zero(WordTag());
  // The compiler does not know that this value is 0. Otherwise it would omit stores of unchanged
  // values.
  uint32_t unknown_zero = 0;
  asm volatile("" : "+r"(unknown_zero));
  const WordVector zero = hn::Set(WordTag(), unknown_zero);
  const auto rewrite = [&](float* x) HWY_ATTR {
    hn::StoreU(hn::BitCast(FloatTag(), hn::Or(LoadBits(x), zero)), FloatTag(), x);
  };
  for (size_t i = 0; i + group <= n; i += group) {
    for (int p = 0; p < bits; ++p) {
      const uint8_t* plane = planes + static_cast<size_t>(p) * kernels::PlaneBytes(n);
      any = hn::Or(any, hn::LoadU(WordTag(), Words(plane + i / 8)));
    }
    for (size_t j = i; j < i + group; j += step) {
      rewrite(w + j);
      rewrite(v + j);
    }
  }
  return OrOfLanes(any);
}

void SumOfEight(const float* const* x, size_t n, float* out) {
  const FloatTag d;
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto a = hn::Add(hn::LoadU(d, x[0] + i), hn::LoadU(d, x[1] + i));
    const auto b = hn::Add(hn::LoadU(d, x[2] + i), hn::LoadU(d, x[3] + i));
    const auto c = hn::Add(hn::LoadU(d, x[4] + i), hn::LoadU(d, x[5] + i));
    const auto e = hn::Add(hn::LoadU(d, x[6] + i), hn::LoadU(d, x[7] + i));
    hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, out + i);
  }
}

void AddTo(const float* x, size_t n, float* sum) {
  const FloatTag d;
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  }
}

}  // namespace tern::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::bench {

HWY_EXPORT(ReadPass);
HWY_EXPORT(ReadAndCodePass);
HWY_EXPORT(UpdatePass);
HWY_EXPORT(SumOfEight);
HWY_EXPORT(AddTo);

uint32_t ReadPass(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(ReadPass)(x, n); }

uint32_t ReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(ReadAndCodePass)(x, n, mask, signs);
}

uint32_t UpdatePass(const uint8_t* planes, size_t n, int bits, float* w, float* v) {
  return HWY_DYNAMIC_DISPATCH(UpdatePass)(planes, n, bits, w, v);
}

void SumOfEight(const float* const* x, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(SumOfEight)(x, n, out);
}

void AddTo(const float* x, size_t n, float* sum) { HWY_DYNAMIC_DISPATCH(AddTo)(x, n, sum); }

}  // namespace tern::bench
#endif

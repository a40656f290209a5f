// The loops against which kernels are measured (floors.h). A plane is an array with one bit of each
// element.
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

// Returns the bitwise OR of all lanes (Highway's word for elements) of a vector.
uint32_t OrOfLanes(WordVector v) {
  alignas(64) uint32_t lanes[16] = {};
  hn::Store(v, WordTag(), lanes);
  uint32_t result = 0;
  for (const uint32_t lane : lanes) result |= lane;
  return result;
}

uint32_t RunReadPass(const float* x, size_t n) {
  const size_t vector_size = hn::Lanes(WordTag());
  WordVector or_0 = hn::Zero(WordTag()), or_1 = or_0, or_2 = or_0, or_3 = or_0;
  size_t i = 0;
  for (; i + 4 * vector_size <= n; i += 4 * vector_size) {
    or_0 = hn::Or(or_0, LoadBits(x + i));
    or_1 = hn::Or(or_1, LoadBits(x + i + vector_size));
    or_2 = hn::Or(or_2, LoadBits(x + i + 2 * vector_size));
    or_3 = hn::Or(or_3, LoadBits(x + i + 3 * vector_size));
  }
  return OrOfLanes(hn::Or(hn::Or(or_0, or_1), hn::Or(or_2, or_3)));
}

// Returns a pointer to a plane as 32-bit words instead of bytes.
HWY_INLINE uint32_t* AsWords(uint8_t* plane) { return reinterpret_cast<uint32_t*>(plane); }
HWY_INLINE const uint32_t* AsWords(const uint8_t* plane) {
  return reinterpret_cast<const uint32_t*>(plane);
}

uint32_t RunReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs) {
  const size_t vector_size = hn::Lanes(WordTag());
  // A group is the elements whose bits in a plane fill one vector.
  const size_t vector_bytes = vector_size * sizeof(uint32_t);
  const size_t group_size = 8 * vector_bytes;
  WordVector or_of_words = hn::Zero(WordTag());
  size_t group_index = 0;
  for (size_t i = 0; i + group_size <= n; i += group_size, ++group_index) {
    WordVector or_0 = or_of_words, or_1 = or_of_words;
    for (size_t j = 0; j < group_size; j += 2 * vector_size) {
      or_0 = hn::Or(or_0, LoadBits(x + i + j));
      or_1 = hn::Or(or_1, LoadBits(x + i + j + vector_size));
    }
    or_of_words = hn::Or(or_0, or_1);
    hn::StoreU(or_of_words, WordTag(), AsWords(mask + group_index * vector_bytes));
    if (group_index % 3 == 0)
      hn::StoreU(or_of_words, WordTag(), AsWords(signs + group_index / 3 * vector_bytes));
  }
  return OrOfLanes(or_of_words);
}

uint32_t RunUpdatePass(const uint8_t* planes, size_t n, int num_planes, float* w, float* v) {
  const size_t vector_size = hn::Lanes(WordTag());
  const size_t group_size = 8 * vector_size * sizeof(uint32_t);
  WordVector or_of_words = hn::Zero(WordTag());
  // The compiler does not know that this value is 0. Otherwise it would omit stores of unchanged
  // values.
  uint32_t unknown_zero = 0;
  asm volatile("" : "+r"(unknown_zero));
  const WordVector zeros = hn::Set(WordTag(), unknown_zero);
  const auto store_unchanged = [&](float* x) HWY_ATTR {
    hn::StoreU(hn::BitCast(FloatTag(), hn::Or(LoadBits(x), zeros)), FloatTag(), x);
  };
  for (size_t i = 0; i + group_size <= n; i += group_size) {
    for (int p = 0; p < num_planes; ++p) {
      const uint8_t* plane = planes + static_cast<size_t>(p) * kernels::PlaneBytes(n);
      or_of_words = hn::Or(or_of_words, hn::LoadU(WordTag(), AsWords(plane + i / 8)));
    }
    for (size_t j = i; j < i + group_size; j += vector_size) {
      store_unchanged(w + j);
      store_unchanged(v + j);
    }
  }
  return OrOfLanes(or_of_words);
}

void AddEightArrays(const float* const* x, size_t n, float* out) {
  const FloatTag tag;
  for (size_t i = 0; i + hn::Lanes(tag) <= n; i += hn::Lanes(tag)) {
    const auto sum_01 = hn::Add(hn::LoadU(tag, x[0] + i), hn::LoadU(tag, x[1] + i));
    const auto sum_23 = hn::Add(hn::LoadU(tag, x[2] + i), hn::LoadU(tag, x[3] + i));
    const auto sum_45 = hn::Add(hn::LoadU(tag, x[4] + i), hn::LoadU(tag, x[5] + i));
    const auto sum_67 = hn::Add(hn::LoadU(tag, x[6] + i), hn::LoadU(tag, x[7] + i));
    hn::StoreU(hn::Add(hn::Add(sum_01, sum_23), hn::Add(sum_45, sum_67)), tag, out + i);
  }
}

void AddTo(const float* x, size_t n, float* sum) {
  const FloatTag tag;
  for (size_t i = 0; i + hn::Lanes(tag) <= n; i += hn::Lanes(tag)) {
    hn::StoreU(hn::Add(hn::LoadU(tag, sum + i), hn::LoadU(tag, x + i)), tag, sum + i);
  }
}

}  // namespace tern::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::bench {

HWY_EXPORT(RunReadPass);
HWY_EXPORT(RunReadAndCodePass);
HWY_EXPORT(RunUpdatePass);
HWY_EXPORT(AddEightArrays);
HWY_EXPORT(AddTo);

uint32_t RunReadPass(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(RunReadPass)(x, n); }

uint32_t RunReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(RunReadAndCodePass)(x, n, mask, signs);
}

uint32_t RunUpdatePass(const uint8_t* planes, size_t n, int num_planes, float* w, float* v) {
  return HWY_DYNAMIC_DISPATCH(RunUpdatePass)(planes, n, num_planes, w, v);
}

void AddEightArrays(const float* const* x, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(AddEightArrays)(x, n, out);
}

void AddTo(const float* x, size_t n, float* sum) { HWY_DYNAMIC_DISPATCH(AddTo)(x, n, sum); }

}  // namespace tern::bench
#endif

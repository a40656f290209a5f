// The search for elements that are not zero (sparse.h), vectorized, compiled once for each
// instruction set by Highway.
#include <cstdint>
#include <cstring>

#include "kernels/codes/sparse.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/sparse_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // Vector code with one lane is no faster than the scalar code.

void PackNonZeros(const float* x, size_t n, uint8_t* bits) { PackNonZerosRef(x, n, bits); }

#else

void PackNonZeros(const float* x, size_t n, uint8_t* bits) {
  const hn::CappedTag<float, 16> d;
  const size_t num_whole = n - n % 64;
  for (size_t i = 0; i < num_whole; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0; k < 64; k += hn::Lanes(d)) {
      uint64_t lane_bits = 0;
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, x + i + k), hn::Zero(d)), bytes);
      std::memcpy(&lane_bits, bytes, sizeof lane_bits);
      word |= lane_bits << k;
    }
    std::memcpy(bits + i / 8, &word, sizeof word);
  }
  PackNonZerosRef(x + num_whole, n - num_whole, bits + num_whole / 8);
}

#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(PackNonZeros);
void PackNonZeros(const float* x, size_t n, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackNonZeros)(x, n, bits);
}

}  // namespace tern::kernels
#endif

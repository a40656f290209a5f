// What no kernel can beat, and what it is compared with: passes over memory on one core, by the
// widest vectors that the CPU has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::bench {

// Reads x[0, n) and returns the bits that any of it has.
uint32_t ReadPass(const float* x, size_t n);

// The same, and writes as ternarizing does: PlaneBytes(n) bytes of `mask`, and a third as many of
// `signs`.
uint32_t ReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs);

// Reads `bits` planes of PlaneBytes(n) bytes, and reads and writes w and v, which stay as they are.
// Returns the bits that any word of the planes has. Elements beyond a multiple of 512 may be left
// out here and above.
uint32_t UpdatePass(const uint8_t* planes, size_t n, int bits, float* w, float* v);

// out[i] = the sum over eight arrays of x[k][i]
void SumOfEight(const float* const* x, size_t n, float* out);

// sum[i] += x[i]
void AddTo(const float* x, size_t n, float* sum);

}  // namespace tern::bench

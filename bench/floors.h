// Lower bounds of the time of kernels: passes over memory on one core, with the widest vectors of
// the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::bench {

// Reads x[0, n). Returns the bitwise OR of all elements, so that the compiler keeps the reads.
uint32_t ReadPass(const float* x, size_t n);

// The same, and writes as many bytes as ternarizing does: PlaneBytes(n) bytes of `mask`, and a
// third as many of `signs`.
uint32_t ReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs);

// Reads `bits` planes of PlaneBytes(n) bytes, and reads and rewrites w and v without changing them.
// Returns the bitwise OR of the planes. All passes may skip the elements after the last multiple of
// 512.
uint32_t UpdatePass(const uint8_t* planes, size_t n, int bits, float* w, float* v);

// out[i] = the sum over eight arrays of x[k][i]
void SumOfEight(const float* const* x, size_t n, float* out);

// sum[i] += x[i]
void AddTo(const float* x, size_t n, float* sum);

}  // namespace tern::bench

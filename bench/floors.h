// Loops against which kernels are measured, on one core, with the widest vectors of the CPU. The
// first three give lower bounds ("floors"), because they do little more than read and write memory.
// Ternary codes are stored as planes: a plane holds one bit of each element. All these functions
// may skip the elements after the last multiple of 512.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::bench {

// Reads x[0, n). Returns the bitwise OR of all elements, so that the compiler keeps the reads.
uint32_t RunReadPass(const float* x, size_t n);

// Reads x[0, n) and writes as many bytes as the kernel that ternarizes: PlaneBytes(n) bytes (a bit
// per element) of `mask`, and a third as many of `signs`. Returns the bitwise OR of all elements.
uint32_t RunReadAndCodePass(const float* x, size_t n, uint8_t* mask, uint8_t* signs);

// Reads `num_planes` planes of PlaneBytes(n) bytes. Reads n weights w and n velocities v and writes
// the same values back. Returns the bitwise OR of the planes' words.
uint32_t RunUpdatePass(const uint8_t* planes, size_t n, int num_planes, float* w, float* v);

// Sets out[i] = x[0][i] + ... + x[7][i] for i < n.
void AddEightArrays(const float* const* x, size_t n, float* out);

// Sets sum[i] += x[i] for i < n.
void AddTo(const float* x, size_t n, float* sum);

}  // namespace tern::bench

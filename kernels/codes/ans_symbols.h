// Converts ternary codes and their sums to and from symbols of the entropy coder (ans.h), one byte
// an element: the integer k in [-N, N] is the symbol k + N, with N = 1 for codes. Rows are
// converted in parts that begin at multiples of 64 elements, so that the symbols stay in a cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

// Writes symbols[0, n), those of a part of a row whose mask is `mask`. The part's signs begin at
// bit `at` of the row's signs, which take `sign_bytes` bytes (ternary.h). Returns the bit at which
// the next part's signs begin.
size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t at, uint8_t* symbols);
size_t SymbolsOfCodeRef(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                        size_t at, uint8_t* symbols);

// The reverse, of symbols below 3: writes the part's mask, and its signs behind the row's first
// `at` signs. Unused bits become zero. REQUIRES room for 8 more bytes of signs than they take.
size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t at, uint8_t* mask, uint8_t* signs);
size_t CodeOfSymbolsRef(const uint8_t* symbols, size_t n, size_t at, uint8_t* mask, uint8_t* signs);

// Writes symbols[0, count), those of elements [first, first + count) of a row of n sums. Each sum
// is of `workers` codes, in SumBits(workers) planes (planes.h). REQUIRES workers <= 127, and valid
// sums of that many workers.
void SymbolsOfSum(const uint8_t* planes, size_t n, int workers, size_t first, size_t count,
                  uint8_t* symbols);
void SymbolsOfSumRef(const uint8_t* planes, size_t n, int workers, size_t first, size_t count,
                     uint8_t* symbols);

// mean[i] = float(double(s) * (symbols[i] - workers) / workers), as DecodeMean (planes.h) computes.
// REQUIRES symbols of at most 2 * workers, and workers <= 127.
void MeansOfSymbols(const uint8_t* symbols, size_t n, int workers, float s, float* mean);
void MeansOfSymbolsRef(const uint8_t* symbols, size_t n, int workers, float s, float* mean);

}  // namespace tern::kernels

// Ternary codes and their sums as symbols of the entropy coder (ans.h), a byte an element, and back
// again: the integer k in [-N, N] is the symbol k + N; N = 1 for codes. Rows are taken in parts,
// which begin at multiples of 64 elements, so that symbols need not leave a cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

// symbols[0, n) of a part's mask. Its signs begin at bit `at` of the row's, which has `sign_bytes`
// bytes (ternary.h). Returns where the next part's begin.
size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t at, uint8_t* symbols);
size_t SymbolsOfCodeRef(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                        size_t at, uint8_t* symbols);

// Back again, of symbols below 3: a part's mask, and its signs behind the `at` that the row has.
// Unused bits become zero. REQUIRES room for 8 bytes of signs more than they take.
size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t at, uint8_t* mask, uint8_t* signs);
size_t CodeOfSymbolsRef(const uint8_t* symbols, size_t n, size_t at, uint8_t* mask, uint8_t* signs);

// symbols[0, count) of elements [first, first + count) of n sums of `workers` codes in SumBits
// planes (planes.h). REQUIRES workers <= 127, and sums of theirs.
void SymbolsOfSum(const uint8_t* planes, size_t n, int workers, size_t first, size_t count,
                  uint8_t* symbols);
void SymbolsOfSumRef(const uint8_t* planes, size_t n, int workers, size_t first, size_t count,
                     uint8_t* symbols);

// mean[i] = float(double(s) * (symbols[i] - workers) / workers), as DecodeMean of planes.h has it.
// REQUIRES symbols of at most 2 workers, and workers <= 127.
void MeansOfSymbols(const uint8_t* symbols, size_t n, int workers, float s, float* mean);
void MeansOfSymbolsRef(const uint8_t* symbols, size_t n, int workers, float s, float* mean);

}  // namespace tern::kernels

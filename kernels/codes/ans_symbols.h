// Converts codes and sums of codes to and from symbols of the entropy coder (ans.h), one byte per
// element. The symbol of an integer k is k + zero, where `zero` is the symbol of 0: for integers in
// [-N, N] it is N, the largest code (1 for ternary ones) or the largest sum. A row of elements is
// converted range by range, so that the symbols stay in a cache; each range begins at a multiple of
// 64 elements. Functions named ...Ref give the same results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

// Writes symbols[0, n), those of a range of n elements of a row of ternary codes. In the format of
// ternary.h the mask has a bit per element, set if the code is not 0, and the signs have a bit per
// code that is not 0. `mask` is the range's mask. `signs` are the signs of the whole row,
// `sign_bytes` bytes; the signs of the range begin at bit `sign_bit`. Returns the bit at which the
// signs of the next range begin.
size_t SymbolsOfCode(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                     size_t sign_bit, uint8_t* symbols);
size_t SymbolsOfCodeRef(const uint8_t* mask, size_t n, const uint8_t* signs, size_t sign_bytes,
                        size_t sign_bit, uint8_t* symbols);

// Converts the n symbols of a range to its mask and signs. `signs` has the signs of the whole row;
// those of the range are written from bit `sign_bit` on. The other bits of the last bytes become
// zero. Returns the bit at which the signs of the next range begin. REQUIRES symbols below 3, and
// that `signs` has room for 8 bytes more than the signs take.
size_t CodeOfSymbols(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                     uint8_t* signs);
size_t CodeOfSymbolsRef(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                        uint8_t* signs);

// Writes symbols[0, count), those of elements [first, first + count) of a row of n sums, or of
// codes of several bits (levels.h). They are integers in two's complement in `bits` planes: plane p
// has bit p of every integer (planes.h). REQUIRES 2 <= bits <= 8, and symbols from 0 to
// 2^bits - 1.
void SymbolsOfPlanes(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                     size_t count, uint8_t* symbols);
void SymbolsOfPlanesRef(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                        size_t count, uint8_t* symbols);

// Converts the n symbols of a range back to `bits` planes; plane p of the range begins at byte
// p * stride of `planes`. REQUIRES 2 <= bits <= 8, and symbols below 2^bits.
void PlanesOfSymbols(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                     uint8_t* planes);
void PlanesOfSymbolsRef(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                        uint8_t* planes);

// Sets mean[i] to float(double(s) * (symbols[i] - max_sum) / max_sum), the mean that DecodeMean
// (planes.h) computes; s is the scaler (scale factor). REQUIRES symbols of at most 2 * max_sum, and
// max_sum <= 127.
void MeansOfSymbols(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean);
void MeansOfSymbolsRef(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean);

}  // namespace tern::kernels

// Ternary codes in base 3, five per byte: t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4 in element order, where
// t is 0 for 0, 1 for +1 and 2 for -1. Digits beyond the last element are 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

constexpr size_t kTritsInByte = 5;

inline size_t TritBytes(size_t n) { return (n + kTritsInByte - 1) / kTritsInByte; }

// Writes TritBytes(n) bytes from a code's mask and signs (ternary.h), which take `sign_bytes`
// bytes.
void TritsOfCode(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                 uint8_t* trits);
void TritsOfCodeRef(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                    uint8_t* trits);

// The reverse: writes PlaneBytes(n) bytes of mask and the signs, unused bits zero; returns the
// number of signs. REQUIRES bytes below 243, zeros beyond the last element, and space for 8 more
// bytes of signs than they take.
size_t CodeOfTrits(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs);
size_t CodeOfTritsRef(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs);

}  // namespace tern::kernels

// Ternary codes as digits in base 3 (trits), five per byte: t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4, in
// the order of the elements, where the code 0 has the digit 0, +1 has 1, and -1 has 2. Digits after
// the last element are 0. Functions named ...Ref give the same results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

constexpr size_t kTritsInByte = 5;

// The bytes of n trits.
inline size_t TritBytes(size_t n) { return (n + kTritsInByte - 1) / kTritsInByte; }

// Converts a code of n elements from mask and signs (ternary.h) to TritBytes(n) bytes of trits.
// `signs` has `sign_bytes` bytes.
void TritsOfCode(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                 uint8_t* trits);
void TritsOfCodeRef(const uint8_t* mask, const uint8_t* signs, size_t sign_bytes, size_t n,
                    uint8_t* trits);

// Converts the trits of n elements to mask and signs, with unused bits zero. Returns the number of
// signs. REQUIRES bytes below 243, digits 0 after the last element, and that `signs` has room for 8
// bytes more than the signs take.
size_t CodeOfTrits(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs);
size_t CodeOfTritsRef(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs);

}  // namespace tern::kernels

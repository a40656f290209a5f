// Converts arrays of n floats to and from 16-bit floats: IEEE half precision, and bfloat16, which
// is the upper half of a float. Conversions from float round to nearest even. They convert a finite
// value beyond the range to the largest finite value, because a gradient that is sent must stay
// finite, and NaN to a quiet NaN. Functions named ...Ref give the same bits with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

void FloatToHalf(const float* x, size_t n, uint16_t* half);
void FloatToHalfRef(const float* x, size_t n, uint16_t* half);
void HalfToFloat(const uint16_t* half, size_t n, float* x);
void HalfToFloatRef(const uint16_t* half, size_t n, float* x);

void FloatToBfloat(const float* x, size_t n, uint16_t* bfloat);
void FloatToBfloatRef(const float* x, size_t n, uint16_t* bfloat);
void BfloatToFloat(const uint16_t* bfloat, size_t n, float* x);
void BfloatToFloatRef(const uint16_t* bfloat, size_t n, float* x);

}  // namespace tern::kernels

// Conversions between floats and 16-bit floats: IEEE half precision, and bfloat16, the upper half
// of a float. They round to nearest even. Finite values beyond the range saturate at the largest (a
// gradient on the wire must stay finite); NaN stays NaN, quiet. Functions named ...Ref give the
// same bits by plain integer code.
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
void BfloatToFloat(const uint16_t* bfloat, size_t n, float* x);  // without rounding
void BfloatToFloatRef(const uint16_t* bfloat, size_t n, float* x);

}  // namespace tern::kernels

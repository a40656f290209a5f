// IEEE half precision, round to nearest even; finite values beyond the largest half saturate to it
// (a gradient on the wire must stay finite). `Ref` is bit-equal, in plain integer code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

void FloatToHalf(const float* x, size_t n, uint16_t* half);
void FloatToHalfRef(const float* x, size_t n, uint16_t* half);
void HalfToFloat(const uint16_t* half, size_t n, float* x);
void HalfToFloatRef(const uint16_t* half, size_t n, float* x);

}  // namespace tern::kernels

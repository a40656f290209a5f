// The conversions of half.h in scalar code.
#include "kernels/codes/half.h"
#include "kernels/codes/half_math.h"

namespace tern::kernels {
void FloatToHalfRef(const float* x, size_t n, uint16_t* half) {
  for (size_t i = 0; i < n; ++i) half[i] = ToHalf(x[i]);
}

void HalfToFloatRef(const uint16_t* half, size_t n, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] = FromHalf(half[i]);
}

void FloatToBfloatRef(const float* x, size_t n, uint16_t* bfloat) {
  for (size_t i = 0; i < n; ++i) bfloat[i] = ToBfloat(x[i]);
}

void BfloatToFloatRef(const uint16_t* bfloat, size_t n, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] = FromBfloat(bfloat[i]);
}

}  // namespace tern::kernels

// The conversions of ans_symbols.h in scalar code.
#include <algorithm>

#include "kernels/codes/ans_symbols.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/ternary.h"

namespace tern::kernels {
namespace {

unsigned GetBit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

void SetBit(uint8_t* plane, size_t i) { plane[i / 8] |= static_cast<uint8_t>(1 << (i % 8)); }

}  // namespace

size_t SymbolsOfCodeRef(const uint8_t* mask, size_t n, const uint8_t* signs, size_t,
                        size_t sign_bit, uint8_t* symbols) {
  for (size_t i = 0; i < n; ++i) {
    symbols[i] = 1;
    if (GetBit(mask, i) != 0) symbols[i] = GetBit(signs, sign_bit++) != 0 ? 0 : 2;
  }
  return sign_bit;
}

size_t CodeOfSymbolsRef(const uint8_t* symbols, size_t n, size_t sign_bit, uint8_t* mask,
                        uint8_t* signs) {
  std::fill_n(mask, PlaneBytes(n), uint8_t{0});
  for (size_t i = 0; i < n; ++i) {
    if (symbols[i] == 1) continue;
    SetBit(mask, i);
    if (sign_bit % 8 == 0) signs[sign_bit / 8] = 0;
    if (symbols[i] == 0) SetBit(signs, sign_bit);
    ++sign_bit;
  }
  return sign_bit;
}

void SymbolsOfPlanesRef(const uint8_t* planes, size_t n, int bits, int zero, size_t first,
                        size_t count, uint8_t* symbols) {
  for (size_t i = 0; i < count; ++i) {
    unsigned k = 0;  // the integer, modulo 2^bits
    for (int p = 0; p < bits; ++p) {
      k |= GetBit(planes + static_cast<size_t>(p) * PlaneBytes(n), first + i) << p;
    }
    symbols[i] = static_cast<uint8_t>((k + static_cast<unsigned>(zero)) & ((1u << bits) - 1));
  }
}

void PlanesOfSymbolsRef(const uint8_t* symbols, size_t n, int bits, int zero, size_t stride,
                        uint8_t* planes) {
  for (int p = 0; p < bits; ++p) {
    uint8_t* const plane = planes + static_cast<size_t>(p) * stride;
    std::fill_n(plane, PlaneBytes(n), uint8_t{0});
    for (size_t i = 0; i < n; ++i) {
      if (((symbols[i] - zero) >> p & 1) != 0) SetBit(plane, i);
    }
  }
}

void MeansOfSymbolsRef(const uint8_t* symbols, size_t n, int max_sum, float s, float* mean) {
  for (size_t i = 0; i < n; ++i) {
    mean[i] = static_cast<float>(static_cast<double>(s) * (symbols[i] - max_sum) / max_sum);
  }
}

}  // namespace tern::kernels

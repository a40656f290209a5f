// The conversions of trits.h in scalar code.
#include <algorithm>

#include "kernels/codes/ternary.h"
#include "kernels/codes/trits.h"

namespace tern::kernels {
namespace {

constexpr unsigned kPowersOf3[kTritsInByte] = {1, 3, 9, 27, 81};

unsigned GetBit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

void SetBit(uint8_t* plane, size_t i) { plane[i / 8] |= static_cast<uint8_t>(1 << (i % 8)); }

}  // namespace

void TritsOfCodeRef(const uint8_t* mask, const uint8_t* signs, size_t, size_t n, uint8_t* trits) {
  std::fill_n(trits, TritBytes(n), uint8_t{0});
  size_t num_signs = 0;
  for (size_t i = 0; i < n; ++i) {
    if (GetBit(mask, i) == 0) continue;
    const unsigned trit = 1 + GetBit(signs, num_signs++);
    uint8_t& byte = trits[i / kTritsInByte];
    byte = static_cast<uint8_t>(byte + trit * kPowersOf3[i % kTritsInByte]);
  }
}

size_t CodeOfTritsRef(const uint8_t* trits, size_t n, uint8_t* mask, uint8_t* signs) {
  std::fill_n(mask, PlaneBytes(n), uint8_t{0});
  size_t num_signs = 0;
  for (size_t i = 0; i < n; ++i) {
    const unsigned trit = trits[i / kTritsInByte] / kPowersOf3[i % kTritsInByte] % 3;
    if (trit == 0) continue;
    SetBit(mask, i);
    if (num_signs % 8 == 0) signs[num_signs / 8] = 0;
    if (trit == 2) SetBit(signs, num_signs);
    ++num_signs;
  }
  return num_signs;
}

}  // namespace tern::kernels

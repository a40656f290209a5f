#include "kernels/planes.h"
#include "kernels/ternary.h"

namespace tern::kernels {
namespace {

unsigned Bit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

}  // namespace

int SumBits(int workers) {
  int bits = 1;
  while ((int64_t{1} << bits) < 2 * int64_t{workers} + 1) ++bits;
  return bits;
}

void AddCodesRef(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes) {
  size_t ones = 0;
  for (size_t i = 0; i < n; ++i) {
    if (Bit(mask, i) == 0) continue;
    const unsigned negative = Bit(signs, ones++);
    unsigned carry = 0;
    for (int p = 0; p < bits; ++p) {
      const unsigned code = p == 0 ? 1 : negative;  // +1 is 0...01, -1 is 1...11
      uint8_t& byte = planes[static_cast<size_t>(p) * PlaneBytes(n) + i / 8];
      const unsigned sum = (byte >> (i % 8) & 1) + code + carry;
      carry = sum >> 1;
      byte = static_cast<uint8_t>((byte & ~(1u << (i % 8))) | (sum & 1) << (i % 8));
    }
  }
}

bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean) {
  const int bits = SumBits(workers);
  for (size_t j = 0; j < count; ++j) {
    int64_t k = 0;
    for (int p = 0; p < bits; ++p) {
      const int64_t weight = int64_t{1} << p;
      const bool one = Bit(planes + static_cast<size_t>(p) * PlaneBytes(n), first + j) != 0;
      if (one) k += p + 1 == bits ? -weight : weight;  // two's complement
    }
    if (k < -workers || k > workers) return false;
    mean[j] = static_cast<float>(static_cast<double>(s) * static_cast<double>(k) / workers);
  }
  return true;
}

}  // namespace tern::kernels

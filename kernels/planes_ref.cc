#include <algorithm>
#include <vector>

#include "kernels/planes.h"
#include "kernels/ternary.h"

namespace tern::kernels {
namespace {

unsigned Bit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

// +1 is 0...01, -1 is 1...11.
int CodeOf(const WorkerCodes& codes, size_t i, size_t* ones) {
  if (Bit(codes.mask, i) == 0) return 0;
  const size_t at = codes.placed ? i : (*ones)++;
  return Bit(codes.signs.data(), at) == 0 ? 1 : -1;
}

}  // namespace

int SumBits(int workers) {
  int bits = 1;
  while ((int64_t{1} << bits) < 2 * int64_t{workers} + 1) ++bits;
  return bits;
}

void AddCodesRef(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held,
                 int bits, uint8_t* planes) {
  const size_t stride = PlaneBytes(n);
  std::vector<size_t> ones(codes.size());
  std::vector<uint8_t> result(static_cast<size_t>(bits) * stride);
  for (size_t i = 0; i < n; ++i) {
    int k = 0;
    for (int p = 0; p < held; ++p) {
      const int bit = static_cast<int>(Bit(sum + static_cast<size_t>(p) * stride, i));
      k += p + 1 == held ? -(bit << p) : bit << p;  // two's complement
    }
    for (size_t c = 0; c < codes.size(); ++c) k += CodeOf(codes[c], i, &ones[c]);
    for (int p = 0; p < bits; ++p) {
      const int bit = k >> p & 1;
      result[static_cast<size_t>(p) * stride + i / 8] |= static_cast<uint8_t>(bit << (i % 8));
    }
  }
  std::copy(result.begin(), result.end(), planes);
}

void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes) {
  const WorkerCodes codes{mask, {signs, PlaneBytes(CountOnes(mask, n))}};
  AddCodes({&codes, 1}, n, planes, bits, bits, planes);
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

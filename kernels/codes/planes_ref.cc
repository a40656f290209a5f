// The functions of planes.h in scalar code.
#include <algorithm>

#include "kernels/codes/planes.h"

namespace tern::kernels {
namespace {

unsigned GetBit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

// The number in two's complement whose bit p is bit i of plane p; plane p begins at byte p * stride
// of `planes`.
int64_t NumberAt(const uint8_t* planes, size_t stride, int bits, size_t i) {
  int64_t number = 0;
  for (int p = 0; p < bits; ++p) {
    const int64_t bit = GetBit(planes + static_cast<size_t>(p) * stride, i);
    // The highest bit of two's complement is negative.
    number += p + 1 == bits ? -(bit << p) : bit << p;
  }
  return number;
}

// The code of element i of n.
int64_t CodeOf(const WorkerCodes& codes, int code_bits, size_t n, size_t i) {
  int64_t low = 0;
  for (int p = 0; p + 1 < code_bits; ++p)
    low |= int64_t{GetBit(codes.low + static_cast<size_t>(p) * PlaneBytes(n), i)} << p;
  if (low == 0 || GetBit(codes.signs, i) == 0) return low;
  return low - (int64_t{1} << (code_bits - 1));
}

}  // namespace

int SumBits(int max_sum) {
  int bits = 1;
  while ((int64_t{1} << bits) < 2 * int64_t{max_sum} + 1) ++bits;
  return bits;
}

void AddCodesRef(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
                 int old_bits, int new_bits, uint8_t* planes) {
  for (size_t p = static_cast<size_t>(old_bits); p < static_cast<size_t>(new_bits); ++p) {
    std::fill_n(planes + p * stride, PlaneBytes(n), uint8_t{0});
  }
  for (size_t i = 0; i < n; ++i) {
    int64_t sum = NumberAt(planes, stride, old_bits, i);
    for (const WorkerCodes& each : codes) sum += CodeOf(each, code_bits, n, i);
    for (int p = 0; p < new_bits; ++p) {
      uint8_t& byte = planes[static_cast<size_t>(p) * stride + i / 8];
      byte = static_cast<uint8_t>((byte & ~(1 << (i % 8))) | (sum >> p & 1) << (i % 8));
    }
  }
}

size_t SpreadSignsRef(const uint8_t* mask, size_t n, std::span<const uint8_t> signs,
                      uint8_t* plane) {
  std::fill_n(plane, PlaneBytes(n), uint8_t{0});
  size_t num_signs = 0;
  for (size_t i = 0; i < n; ++i) {
    if (GetBit(mask, i) == 0) continue;
    const unsigned sign = num_signs / 8 < signs.size() ? GetBit(signs.data(), num_signs) : 0;
    plane[i / 8] = static_cast<uint8_t>(plane[i / 8] | sign << (i % 8));
    ++num_signs;
  }
  return num_signs;
}

MeanTable::MeanTable(int max_sum, float scaler)
    : max_sum_(max_sum), bits_(SumBits(max_sum)), scaler_(scaler) {
  if (bits_ > kMaxBits) return;
  const size_t num_means = 2 * static_cast<size_t>(max_sum) + 1;
  for (size_t k = 0; k < num_means; ++k) means_[k] = Of(static_cast<int64_t>(k) - max_sum);
  for (size_t k = num_means; k < size_t{1} << bits_ || k < 64; ++k) means_[k] = 0;
}

bool DecodeMeanRef(const uint8_t* planes, size_t n, int max_sum, float scaler, size_t first,
                   size_t count, float* mean) {
  const int bits = SumBits(max_sum);
  for (size_t j = 0; j < count; ++j) {
    const int64_t k = NumberAt(planes, PlaneBytes(n), bits, first + j);
    if (k < -max_sum || k > max_sum) return false;
    mean[j] = static_cast<float>(static_cast<double>(scaler) * static_cast<double>(k) / max_sum);
  }
  return true;
}

}  // namespace tern::kernels

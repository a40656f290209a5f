// The functions of planes.h in scalar code.
#include <algorithm>

#include "kernels/codes/planes.h"

namespace tern::kernels {
namespace {

unsigned GetBit(const uint8_t* plane, size_t i) { return plane[i / 8] >> (i % 8) & 1; }

// The code of element i: -1, 0 or 1.
int CodeOf(const WorkerCodes& codes, size_t i) {
  if (GetBit(codes.mask, i) == 0) return 0;
  return GetBit(codes.signs, i) == 0 ? 1 : -1;
}

}  // namespace

int SumBits(int workers) {
  int bits = 1;
  while ((int64_t{1} << bits) < 2 * int64_t{workers} + 1) ++bits;
  return bits;
}

void AddCodesRef(std::span<const WorkerCodes> codes, size_t n, size_t stride, int old_bits,
                 int new_bits, uint8_t* planes) {
  for (size_t p = static_cast<size_t>(old_bits); p < static_cast<size_t>(new_bits); ++p) {
    std::fill_n(planes + p * stride, PlaneBytes(n), uint8_t{0});
  }
  for (size_t i = 0; i < n; ++i) {
    int k = 0;
    for (int p = 0; p < old_bits; ++p) {
      const int bit = static_cast<int>(GetBit(planes + static_cast<size_t>(p) * stride, i));
      k += p + 1 == old_bits ? -(bit << p)
                             : bit << p;  // The highest bit of two's complement is negative.
    }
    for (size_t c = 0; c < codes.size(); ++c) k += CodeOf(codes[c], i);
    for (int p = 0; p < new_bits; ++p) {
      uint8_t& byte = planes[static_cast<size_t>(p) * stride + i / 8];
      byte = static_cast<uint8_t>((byte & ~(1 << (i % 8))) | (k >> p & 1) << (i % 8));
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

MeanTable::MeanTable(int workers, float s)
    : workers_(workers), bits_(SumBits(workers)), scaler_(s) {
  if (bits_ > kMaxBits) return;
  const size_t num_entries = 2 * static_cast<size_t>(workers) + 1;
  for (size_t k = 0; k < num_entries; ++k) {
    const double sum = static_cast<double>(k) - workers;
    means_[k] = static_cast<float>(static_cast<double>(s) * sum / workers);
  }
  for (size_t k = num_entries; k < size_t{1} << bits_ || k < 64; ++k) means_[k] = 0;
}

bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean) {
  const int bits = SumBits(workers);
  for (size_t j = 0; j < count; ++j) {
    int64_t k = 0;
    for (int p = 0; p < bits; ++p) {
      const int64_t weight = int64_t{1} << p;
      const bool is_one = GetBit(planes + static_cast<size_t>(p) * PlaneBytes(n), first + j) != 0;
      if (is_one)
        k += p + 1 == bits ? -weight : weight;  // The highest bit of two's complement is negative.
    }
    if (k < -workers || k > workers) return false;
    mean[j] = static_cast<float>(static_cast<double>(s) * static_cast<double>(k) / workers);
  }
  return true;
}

}  // namespace tern::kernels

// Sums of the codes of several workers, as bit planes. A code of b bits is an integer in [-s, s],
// with s = 2^(b - 1) - 1; ternary codes (-1, 0, +1) have 2 bits. The sum of N codes lies in
// [-N s, N s]; N s is called max_sum here. A plane has one bit per element; bit i % 8 of byte i / 8
// belongs to element i. Sums are stored in two's complement in ceil(log2(2 max_sum + 1)) bits:
// plane p has bit p of the sum of each element. A server sends sums of n elements in this format,
// plane p from byte p * PlaneBytes(n) on.
//
// Functions named ...Ref give the same results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"

namespace tern::kernels {

// The bits of a sum: ceil(log2(2 * max_sum + 1)), which is 2 for 1, 3 for 2 and 3, 4 for 4 to 7.
int SumBits(int max_sum);
constexpr int kMaxSumBits = 24;  // the most bits of a sum in the functions below

// One worker's codes of n elements, in two's complement: the lowest bits - 1 planes from `low` on,
// plane p from byte p * PlaneBytes(n) on, and the plane of signs, the highest bits. For ternary
// codes `low` is one plane, the mask: bit i is 1 if the code of element i is not 0. A sign counts
// only if a lower bit of its element is 1, so that every combination of bits is a code.
struct WorkerCodes {
  const uint8_t* low;
  const uint8_t* signs;
};

// Converts packed signs, one per non-zero element (ternary.h), to a plane of n bits, `plane`: bit i
// is the sign of element i, or zero if bit i of `mask` is zero. Returns the number of ones in the
// mask. Signs beyond the end of `signs` count as zero; no byte beyond the end is read.
size_t SpreadSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* plane);
size_t SpreadSignsRef(const uint8_t* mask, size_t n, std::span<const uint8_t> signs,
                      uint8_t* plane);

// Adds codes of `code_bits` bits of up to kMaxCodes workers to a sum of the codes of k other
// workers. Before the call the sum has `old_bits` planes, or is 0 if old_bits is 0; after the call
// it has `new_bits` planes. Plane p begins at byte p * stride of `planes`. Planes from `old_bits`
// on need not be initialized. The sum is exact. REQUIRES 1 to kMaxCodes codes of 2 or more bits,
// old_bits >= SumBits(k s) (or old_bits = k = 0), new_bits >= old_bits, new_bits >=
// SumBits((k + codes.size()) s) and new_bits <= kMaxSumBits.
void AddCodes(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
              int old_bits, int new_bits, uint8_t* planes);
void AddCodesRef(std::span<const WorkerCodes> codes, int code_bits, size_t n, size_t stride,
                 int old_bits, int new_bits, uint8_t* planes);
constexpr size_t kMaxCodes = 4;  // the most workers per call of AddCodes

// The distance in bytes between planes of n bits for AddCodes: a multiple of 64, but not of a large
// power of 2, so that the planes do not compete for the same cache sets.
inline size_t PlaneStride(size_t n) { return (PlaneBytes(n) + 63) / 64 * 64 + 13 * 64; }

// The means of sums: Of(k) = float(double(scaler) * k / max_sum) for a sum k in [-max_sum,
// max_sum], where the scaler is the value that the largest code, s, stands for. Has a table of them
// if sums have few bits.
class MeanTable {
 public:
  static constexpr int kMaxBits = 8;  // the most bits of sums that have a table
  MeanTable(int max_sum, float scaler);
  int max_sum() const { return max_sum_; }
  float scaler() const { return scaler_; }
  int bits() const { return bits_; }
  float Of(int64_t k) const {
    return static_cast<float>(static_cast<double>(scaler_) * static_cast<double>(k) / max_sum_);
  }
  // The table: means()[k + max_sum] = Of(k). It has 2^bits() entries (at least 64), with zeros
  // after the means. REQUIRES bits() <= kMaxBits.
  const float* means() const { return means_; }

 private:
  int max_sum_, bits_;
  float scaler_;
  alignas(64) float means_[1 << kMaxBits];
};

// Decodes the planes of the sums of n elements: sets mean[j] to the mean of element first + j, for
// j in [0, count). Returns false, with `mean` unspecified, if a sum is beyond [-max_sum, max_sum].
bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean);
bool DecodeMeanRef(const uint8_t* planes, size_t n, int max_sum, float scaler, size_t first,
                   size_t count, float* mean);
inline bool DecodeMean(const uint8_t* planes, size_t n, int max_sum, float scaler, size_t first,
                       size_t count, float* mean) {
  return DecodeMean(planes, n, MeanTable(max_sum, scaler), first, count, mean);
}

}  // namespace tern::kernels

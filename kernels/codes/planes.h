// Sums of the ternary codes (-1, 0, +1) of several workers, as bit planes. A plane has one bit per
// element; bit i % 8 of byte i / 8 belongs to element i. The sum of N codes lies in [-N, N] and is
// stored in two's complement in ceil(log2(2N + 1)) bits: plane p has bit p of the sum of each
// element. A server sends sums of n elements in this format, plane p from byte p * PlaneBytes(n)
// on.
//
// Functions named ...Ref give the same results with scalar code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"

namespace tern::kernels {

// The bits of a sum: ceil(log2(2 * workers + 1)), which is 2 for 1 worker, 3 for 2 and 3 workers, 4
// for 4 to 7 workers.
int SumBits(int workers);

// One worker's codes of n elements, as two planes. Bit i of `mask` is 1 if the code of element i is
// not 0; bit i of `signs` is then 1 if the code is -1. Other bits of `signs` are ignored.
struct WorkerCodes {
  const uint8_t* mask;
  const uint8_t* signs;
};

// Converts packed signs, one per non-zero element (ternary.h), to a plane of n bits, `plane`: bit i
// is the sign of element i, or zero if bit i of `mask` is zero. Returns the number of ones in the
// mask. Signs beyond the end of `signs` count as zero; no byte beyond the end is read.
size_t SpreadSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* plane);
size_t SpreadSignsRef(const uint8_t* mask, size_t n, std::span<const uint8_t> signs,
                      uint8_t* plane);

// Adds the codes of up to kMaxCodes workers to a sum of the codes of k other workers. Before the
// call the sum has `old_bits` planes, or is 0 if old_bits is 0; after the call it has `new_bits`
// planes. Plane p begins at byte p * stride of `planes`. Planes from `old_bits` on need not be
// initialized. The sum is exact. REQUIRES 1 to kMaxCodes codes, old_bits >= SumBits(k) (or
// old_bits = k = 0), new_bits >= old_bits and new_bits >= SumBits(k + codes.size()).
void AddCodes(std::span<const WorkerCodes> codes, size_t n, size_t stride, int old_bits,
              int new_bits, uint8_t* planes);
void AddCodesRef(std::span<const WorkerCodes> codes, size_t n, size_t stride, int old_bits,
                 int new_bits, uint8_t* planes);
constexpr size_t kMaxCodes = 4;  // the most workers per call of AddCodes

// The distance in bytes between planes of n bits for AddCodes: a multiple of 64, but not of a large
// power of 2, so that the planes do not compete for the same cache sets.
inline size_t PlaneStride(size_t n) { return (PlaneBytes(n) + 63) / 64 * 64 + 13 * 64; }

// A table of the mean of each possible sum: means()[k + workers] = float(double(s) * k / workers)
// for a sum k in [-workers, workers] and the scaler s (scale factor).
class MeanTable {
 public:
  static constexpr int kMaxBits = 12;
  MeanTable(int workers, float s);
  int workers() const { return workers_; }
  float scaler() const { return scaler_; }
  int bits() const { return bits_; }
  // The table of 2^bits() entries (at least 64), with zeros after the means. Null if bits() is
  // above kMaxBits.
  const float* means() const { return bits_ > kMaxBits ? nullptr : means_; }

 private:
  int workers_, bits_;
  float scaler_;
  alignas(64) float means_[1 << kMaxBits];
};

// Decodes the planes of the sums of n elements: sets mean[j] to the mean of element first + j, for
// j in [0, count). Returns false, with `mean` unspecified, if a sum is beyond [-workers, workers].
bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean);
bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean);
inline bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                       size_t count, float* mean) {
  return DecodeMean(planes, n, MeanTable(workers, s), first, count, mean);
}

}  // namespace tern::kernels

// Sums of ternary codes as bit planes. A sum of N codes lies in [-N, N]: 2N + 1 levels in
// b = ceil(log2(2N + 1)) bits, two's complement. Plane p holds bit p of every element (element i is
// bit i % 8 of byte i / 8); plane p starts at byte p * PlaneBytes(n). The planes are also the
// format of the answer, so nothing is repacked after adding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"

namespace tern::kernels {

// ceil(log2(2 * workers + 1)); 2 for 1 worker, 3 for 2 and 3, 4 for 4 to 7
int SumBits(int workers);

// One worker's codes of n elements: two planes, mask and signs, with each sign at its element's
// bit. A sign is ignored where the mask is zero.
struct WorkerCodes {
  const uint8_t* mask;
  const uint8_t* signs;
};

// Expands packed signs of the non-zeros (ternary.h) to a plane with each sign at its element's bit,
// zero where the mask is zero. Returns the number of ones in the mask. Signs beyond the end of
// `signs` are zero, and no byte beyond it is read.
size_t PlaceSigns(const uint8_t* mask, size_t n, std::span<const uint8_t> signs, uint8_t* placed);
size_t PlaceSignsRef(const uint8_t* mask, size_t n, std::span<const uint8_t> signs,
                     uint8_t* placed);

// planes[0, bits) = planes[0, held) + the codes of up to kMaxCodes workers, in one pass: a
// carry-save adder along the planes, which are `stride` bytes apart. Exact and independent of
// order. The first `held` planes hold the sum so far, of k workers; the contents of the other
// planes are ignored, and held = 0 stands for a sum of zero. So a sum grows with its workers, from
// SumBits(k) planes to SumBits(k + codes.size()). REQUIRES 1 to kMaxCodes codes, held >= SumBits(k)
// (or held = k = 0), bits >= held and bits >= SumBits(k + codes.size()).
void AddCodes(std::span<const WorkerCodes> codes, size_t n, size_t stride, int held, int bits,
              uint8_t* planes);
void AddCodesRef(std::span<const WorkerCodes> codes, size_t n, size_t stride, int held, int bits,
                 uint8_t* planes);
constexpr size_t kMaxCodes = 4;

// The distance in bytes between planes in memory: a multiple of 64 bytes, but not of a large power
// of 2, so that the planes do not compete for the same cache sets.
inline size_t PlaneStride(size_t n) { return (PlaneBytes(n) + 63) / 64 * 64 + 13 * 64; }

// The mean of each possible sum: values()[k + workers] = float(double(s) * k / workers) for k in
// [-workers, workers].
class MeanTable {
 public:
  static constexpr int kMaxBits = 12;
  MeanTable(int workers, float s);
  int workers() const { return workers_; }
  float scaler() const { return scaler_; }
  int bits() const { return bits_; }
  // 2^bits() entries, with zeros behind the means, and at least one vector long; null for more than
  // kMaxBits.
  const float* values() const { return bits_ > kMaxBits ? nullptr : values_; }

 private:
  int workers_, bits_;
  float scaler_;
  alignas(64) float values_[1 << kMaxBits];
};

// mean[j] = the mean of element first + j, j in [0, count). Returns false, with `mean` unspecified,
// if the absolute value of a sum is above the number of workers.
bool DecodeMean(const uint8_t* planes, size_t n, const MeanTable& table, size_t first, size_t count,
                float* mean);
bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean);
inline bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                       size_t count, float* mean) {
  return DecodeMean(planes, n, MeanTable(workers, s), first, count, mean);
}

}  // namespace tern::kernels

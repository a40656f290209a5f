// Sums of ternary codes as bit planes. A sum of N codes lies in [-N, N]: 2N + 1 levels in
// b = ceil(log2(2N + 1)) bits, two's complement. Plane p holds bit p of every element (element i is
// bit i % 8 of byte i / 8); plane p starts at byte p * PlaneBytes(n). These planes are the message
// that goes down: adding leaves nothing to repack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern::kernels {

// ceil(log2(2 * workers + 1)); 2 for 1 worker, 3 for 2 and 3, 4 for 4 to 7
int SumBits(int workers);

// One worker's codes of n elements (ternary.h). Of `signs` no byte beyond the span is read.
struct WorkerCodes {
  const uint8_t* mask;
  std::span<const uint8_t> signs;
  // Whether each sign is at the place of its element, in PlaneBytes(n) bytes and zero where the
  // mask is; else the signs of the non-zeros follow each other.
  bool placed = false;
};

// planes[0, bits) = sum[0, held) + the codes of up to 4 workers, in one pass: a carry-save adder
// along the planes. Exact and independent of order. `held` 0: nothing but the codes. So a sum grows
// with its workers, from SumBits(k) planes to SumBits(k + codes.size()). `sum` may be `planes`.
// REQUIRES held <= bits, and in `sum` k workers' codes, where held >= SumBits(k) and bits >=
// SumBits(k + codes.size()).
void AddCodes(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held, int bits,
              uint8_t* planes);
void AddCodesRef(std::span<const WorkerCodes> codes, size_t n, const uint8_t* sum, int held,
                 int bits, uint8_t* planes);
constexpr size_t kMostCodes = 4;  // in one pass
constexpr int kMostPlanes = 32;

// planes[0, bits) += the codes of one worker.
void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes);

// Whether placed signs are zero where the mask is.
bool SignsHaveOnes(const uint8_t* mask, const uint8_t* signs, size_t n);

// mean[j] = table[k + workers] for the sum k of element first + j, j in [0, count), where
// table[k + workers] = float(double(s) * k / workers) has 2 * workers + 1 entries.
// Returns false, with mean unspecified, if some |k| > workers.
bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean);
bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean);

}  // namespace tern::kernels

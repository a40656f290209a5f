// Sums of ternary codes as bit planes. A sum of N codes lies in [-N, N]: 2N + 1 levels in
// b = ceil(log2(2N + 1)) bits, two's complement. Plane p holds bit p of every element (element i is
// bit i % 8 of byte i / 8); plane p starts at byte p * PlaneBytes(n). These planes are the message
// that goes down: adding leaves nothing to repack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::kernels {

int SumBits(
    int workers);  // ceil(log2(2 * workers + 1)); 2 for 1 worker, 3 for 2 and 3, 4 for 4 to 7

// planes[0, bits) += the codes of mask and signs (ternary.h). Exact and independent of order.
// Of `signs` only the PlaneBytes(CountOnes(mask, n)) bytes that hold signs are read.
// REQUIRES at most N such additions onto zero planes with bits = SumBits(N).
void AddCodes(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes);
void AddCodesRef(const uint8_t* mask, const uint8_t* signs, size_t n, int bits, uint8_t* planes);

// mean[j] = table[k + workers] for the sum k of element first + j, j in [0, count), where
// table[k + workers] = float(double(s) * k / workers) has 2 * workers + 1 entries.
// Returns false, with mean unspecified, if some |k| > workers.
bool DecodeMean(const uint8_t* planes, size_t n, int workers, float s, size_t first, size_t count,
                float* mean);
bool DecodeMeanRef(const uint8_t* planes, size_t n, int workers, float s, size_t first,
                   size_t count, float* mean);

}  // namespace tern::kernels

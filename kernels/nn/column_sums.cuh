// Column sums over rows of channels, two sums at a time, in an order that does not depend on the
// device: each of many blocks sums a share of the rows, 16 rows in float and then in double; a
// second launch adds the shares of a channel and processes the result. For *_cuda.cu only.
#pragma once

#include "kernels/nn/elements.cuh"

namespace tern::kernels {

struct Pair {
  double first = 0, second = 0;
};

constexpr uint32_t kSumThreads = 128, kRowsInFloat = 16;
constexpr uint32_t kRowsAtOnce = 4;  // rows that a thread loads before it uses the first
static_assert(kRowsInFloat % kRowsAtOnce == 0);
// More shares than these are added by one block per channel, fewer by one thread per channel.
constexpr uint32_t kFewPartials = 16;

// Threads per row of threads: a power of 2, at most 32, large enough for `packs` where possible.
inline uint32_t WideOf(uint32_t packs) {
  uint32_t wide = 1;
  while (wide < packs && wide < 32) wide *= 2;
  return wide;
}

// How many rows of threads cover the channels of one row.
TERN_HOST_DEVICE uint32_t GroupsOf(uint32_t packs, uint32_t wide) {
  return (packs + wide - 1) / wide;
}

// Adds up the sums of all threads of a block with the same channels, into the first of them.
template <uint32_t kSums>
__device__ void FoldColumns(uint32_t wide, double (*sums)[kSumThreads]) {
  for (uint32_t half = kSumThreads / 2; half >= wide; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (uint32_t k = 0; k < kSums; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
}

// Adds the rows at i, i + step, ... to both sums.
template <uint32_t kRows, typename Mine>
__device__ void AddRows(uint64_t i, uint64_t step, const Mine& mine, float* first, float* second) {
  typename Mine::Row rows[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) rows[r] = mine.LoadRow(i + r * step);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) mine.Add(rows[r], i + r * step, first, second);
}

// Sums what `of` contributes for each row: of.For(c) is the thread's view of channels
// [c, c + kCount); its LoadRow(i) loads at element i, and Add(row, i, first, second) adds that to
// both sums. An entry of `sums` has a column per thread: neighbours use different banks.
template <uint32_t kCount, typename Of>
__global__ void __launch_bounds__(kSumThreads)
    TakeSums(uint64_t rows, uint32_t channels, uint32_t wide, uint32_t partials, Of of,
             double* partial) {
  __shared__ double sums[2 * kCount][kSumThreads];
  const uint32_t groups = GroupsOf(channels / kCount, wide);
  const uint32_t b = blockIdx.x / groups, deep = kSumThreads / wide, thread = threadIdx.x;
  const uint32_t c = (blockIdx.x % groups * wide + thread % wide) * kCount;
  for (uint32_t k = 0; k < 2 * kCount; ++k) sums[k][thread] = 0;
  if (c < channels) {
    const auto mine = of.For(c);
    float first[kCount] = {}, second[kCount] = {};
    const auto keep = [&] {
      for (uint32_t k = 0; k < kCount; ++k) {
        sums[2 * k][thread] += first[k], sums[2 * k + 1][thread] += second[k];
        first[k] = second[k] = 0;
      }
    };
    const uint64_t rows_apart = uint64_t{partials} * deep, step = rows_apart * channels;
    uint64_t row = uint64_t{b} * deep + thread / wide;
    for (uint32_t taken = 0; row + (kRowsAtOnce - 1) * rows_apart < rows;
         row += kRowsAtOnce * rows_apart) {
      AddRows<kRowsAtOnce>(row * channels + c, step, mine, first, second);
      if ((taken += kRowsAtOnce) % kRowsInFloat == 0) keep();
    }
    for (; row < rows; row += rows_apart) AddRows<1>(row * channels + c, step, mine, first, second);
    keep();
  }
  FoldColumns<2 * kCount>(wide, sums);
  if (thread >= wide || c >= channels) return;
  for (uint32_t k = 0; k < 2 * kCount; ++k)
    partial[(uint64_t{2} * c + k) * partials + b] = sums[k][thread];
}

template <typename Work>
struct FoldFew {
  uint32_t partials;
  const double* partial;
  Work work;
  __device__ void operator()(uint64_t c) const {
    Pair sums;
    for (uint32_t b = 0; b < partials; ++b) {
      sums.first += partial[2 * c * partials + b];
      sums.second += partial[(2 * c + 1) * partials + b];
    }
    work(c, sums);
  }
};

template <typename Work>
__global__ void __launch_bounds__(kSumThreads)
    FoldPartials(uint32_t partials, const double* partial, Work work) {
  __shared__ double row[kSumThreads];
  const uint32_t c = blockIdx.x;
  Pair sums;
  for (uint32_t b = threadIdx.x; b < partials; b += kSumThreads) {
    sums.first += partial[uint64_t{2} * c * partials + b];
    sums.second += partial[(uint64_t{2} * c + 1) * partials + b];
  }
  sums.first = SumOfBlock<kSumThreads>(sums.first, row);
  sums.second = SumOfBlock<kSumThreads>(sums.second, row);
  if (threadIdx.x == 0) work(c, sums);
}

// work(c, sums of channel c). `partial`: room for 2 * channels * PartialsOf(rows).
template <uint32_t kCount, typename Of, typename Work>
int SumColumns(cudaStream_t stream, uint64_t rows, uint32_t channels, const Of& of, double* partial,
               const Work& work) {
  const uint32_t wide = WideOf(channels / kCount), partials = PartialsOf(rows);
  const uint32_t groups = GroupsOf(channels / kCount, wide);
  const int summed = Launch(TakeSums<kCount, Of>, groups * partials, kSumThreads, stream, rows,
                            channels, wide, partials, of, partial);
  if (summed != 0) return summed;
  if (partials <= kFewPartials)
    return ForEach(stream, channels, FoldFew<Work>{partials, partial, work});
  return Launch(FoldPartials<Work>, channels, kSumThreads, stream, partials, partial, work);
}

}  // namespace tern::kernels

// Sums over the rows of channels, two at a time and in an order that does not depend on the device:
// many blocks take a share of the rows each, 16 rows in float and those in double; another launch
// adds the shares of a channel and does what is to be done with them. For *_cuda.cu only.
#pragma once

#include "kernels/elements_inl.h"

namespace tern::kernels {

struct Pair {
  double first = 0, second = 0;
};

constexpr uint32_t kSumThreads = 128, kRowsInFloat = 16;
// More shares than these are added by a block a channel, fewer by a thread.
constexpr uint32_t kFewPartials = 16;

// A row of threads is `wide`: a power of 2, as many as there are packs of channels, at most 32.
inline uint32_t WideOf(uint32_t packs) {
  uint32_t wide = 1;
  while (wide < packs && wide < 32) wide *= 2;
  return wide;
}

// By the threads of a block that have the same channels: the first gets the sum.
template <uint32_t kCount>
__device__ void FoldColumns(uint32_t wide, double (*sums)[2 * kCount]) {
  for (uint32_t half = kSumThreads / 2; half >= wide; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (uint32_t k = 0; k < 2 * kCount; ++k) sums[threadIdx.x][k] += sums[threadIdx.x + half][k];
  }
}

// What `of` adds of each row: of.For(c) is what a thread has of channels [c, c + kCount), whose
// operator()(i, first, second) adds those at element i to both.
template <uint32_t kCount, typename Of>
__global__ void __launch_bounds__(kSumThreads)
    TakeSums(uint64_t rows, uint32_t channels, uint32_t wide, uint32_t partials, Of of,
             double* partial) {
  __shared__ double sums[kSumThreads][2 * kCount];
  const uint32_t groups = (channels / kCount + wide - 1) / wide;
  const uint32_t b = blockIdx.x / groups, deep = kSumThreads / wide;
  const uint32_t c = (blockIdx.x % groups * wide + threadIdx.x % wide) * kCount;
  double* mine = sums[threadIdx.x];
  for (uint32_t k = 0; k < 2 * kCount; ++k) mine[k] = 0;
  if (c < channels) {
    auto adds = of.For(c);
    float first[kCount] = {}, second[kCount] = {};
    uint32_t taken = 0;
    for (uint64_t row = uint64_t{b} * deep + threadIdx.x / wide; row < rows;
         row += uint64_t{partials} * deep) {
      adds(row * channels + c, first, second);
      if (++taken % kRowsInFloat != 0) continue;
      for (uint32_t k = 0; k < kCount; ++k) {
        mine[2 * k] += first[k], mine[2 * k + 1] += second[k];
        first[k] = second[k] = 0;
      }
    }
    for (uint32_t k = 0; k < kCount; ++k) mine[2 * k] += first[k], mine[2 * k + 1] += second[k];
  }
  FoldColumns<kCount>(wide, sums);
  if (threadIdx.x >= wide || c >= channels) return;
  for (uint32_t k = 0; k < 2 * kCount; ++k) partial[(uint64_t{2} * c + k) * partials + b] = mine[k];
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
  const uint32_t groups = (channels / kCount + wide - 1) / wide;
  const int summed = Launch(TakeSums<kCount, Of>, groups * partials, kSumThreads, stream, rows,
                            channels, wide, partials, of, partial);
  if (summed != 0) return summed;
  if (partials <= kFewPartials)
    return ForEach(stream, channels, FoldFew<Work>{partials, partial, work});
  return Launch(FoldPartials<Work>, channels, kSumThreads, stream, partials, partial, work);
}

}  // namespace tern::kernels

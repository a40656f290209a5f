// Column sums over rows of channels, two sums at a time, in an order that does not depend on the
// device: each of many blocks sums a share of the rows, 16 rows in float and then in double; a
// second launch adds the shares of a channel and processes the result. For .cu files only.
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

// Threads per row of threads: a power of 2, at most 32, and at least `packs` where possible. A pack
// is as many neighbouring channels as fit in 16 bytes.
inline uint32_t ThreadsAcross(uint32_t packs) {
  uint32_t threads_across = 1;
  while (threads_across < packs && threads_across < 32) threads_across *= 2;
  return threads_across;
}

// How many rows of threads it takes to cover the channels of one row of the array.
TERN_HOST_DEVICE uint32_t ColumnGroups(uint32_t packs, uint32_t threads_across) {
  return (packs + threads_across - 1) / threads_across;
}

// Adds up the sums of all threads of a block with the same channels, into the first of them.
template <uint32_t kSums>
__device__ void FoldColumns(uint32_t threads_across, double (*sums)[kSumThreads]) {
  for (uint32_t half = kSumThreads / 2; half >= threads_across; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (uint32_t k = 0; k < kSums; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
}

// Adds the rows at i, i + step, ... to both sums.
template <uint32_t kRows, typename ChannelView>
__device__ void AddRows(uint64_t i, uint64_t step, const ChannelView& view, float* first,
                        float* second) {
  typename ChannelView::RawPack rows[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) rows[r] = view.LoadRow(i + r * step);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) view.Add(rows[r], i + r * step, first, second);
}

// Sums the contributions of each row. source.ViewOf(c) is the thread's view of channels [c, c +
// kCount): its LoadRow(i) loads at element i, and Add(row, i, first, second) adds that to both
// sums. An entry of `sums` has a column per thread, so neighbours use different banks.
template <uint32_t kCount, typename Source>
__global__ void __launch_bounds__(kSumThreads)
    SumShares(uint64_t rows, uint32_t channels, uint32_t threads_across, uint32_t partials,
              Source source, double* partial) {
  __shared__ double sums[2 * kCount][kSumThreads];
  const uint32_t groups = ColumnGroups(channels / kCount, threads_across);
  const uint32_t b = blockIdx.x / groups, threads_down = kSumThreads / threads_across,
                 thread = threadIdx.x;
  const uint32_t c = (blockIdx.x % groups * threads_across + thread % threads_across) * kCount;
  for (uint32_t k = 0; k < 2 * kCount; ++k) sums[k][thread] = 0;
  if (c < channels) {
    const auto view = source.ViewOf(c);
    float first[kCount] = {}, second[kCount] = {};
    const auto keep = [&] {
      for (uint32_t k = 0; k < kCount; ++k) {
        sums[2 * k][thread] += first[k], sums[2 * k + 1][thread] += second[k];
        first[k] = second[k] = 0;
      }
    };
    const uint64_t rows_apart = uint64_t{partials} * threads_down, step = rows_apart * channels;
    uint64_t row = uint64_t{b} * threads_down + thread / threads_across;
    for (uint32_t taken = 0; row + (kRowsAtOnce - 1) * rows_apart < rows;
         row += kRowsAtOnce * rows_apart) {
      AddRows<kRowsAtOnce>(row * channels + c, step, view, first, second);
      if ((taken += kRowsAtOnce) % kRowsInFloat == 0) keep();
    }
    for (; row < rows; row += rows_apart) AddRows<1>(row * channels + c, step, view, first, second);
    keep();
  }
  FoldColumns<2 * kCount>(threads_across, sums);
  if (thread >= threads_across || c >= channels) return;
  for (uint32_t k = 0; k < 2 * kCount; ++k)
    partial[(uint64_t{2} * c + k) * partials + b] = sums[k][thread];
}

template <typename Work>
struct FoldInThread {
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
    FoldInBlock(uint32_t partials, const double* partial, Work work) {
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

// Calls work(c, sums of channel c). `partial`: workspace of 2 * channels * PartialsOf(rows).
template <uint32_t kCount, typename Source, typename Work>
int SumColumns(cudaStream_t stream, uint64_t rows, uint32_t channels, const Source& source,
               double* partial, const Work& work) {
  const uint32_t threads_across = ThreadsAcross(channels / kCount), partials = PartialsOf(rows);
  const uint32_t groups = ColumnGroups(channels / kCount, threads_across);
  const int summed = Launch(SumShares<kCount, Source>, groups * partials, kSumThreads, stream, rows,
                            channels, threads_across, partials, source, partial);
  if (summed != 0) return summed;
  if (partials <= kFewPartials)
    return ForEach(stream, channels, FoldInThread<Work>{partials, partial, work});
  return Launch(FoldInBlock<Work>, channels, kSumThreads, stream, partials, partial, work);
}

}  // namespace tern::kernels

// Computes two sums per column of an array [rows, channels], in an order that does not depend on
// the GPU. In a first launch each thread block adds a share of the rows: a thread adds up to 16
// rows in float, and then adds the result to a double. A second launch adds the shares of each
// channel and calls a function with the result. For .cu files only.
#pragma once

#include "kernels/nn/elements.cuh"

namespace tern::kernels {

// The two sums of a channel.
struct TwoSums {
  double first = 0, second = 0;
};

constexpr uint32_t kSumThreads = 128;  // threads per block
constexpr uint32_t kRowsInFloat = 16;  // the most rows that a thread adds in float
constexpr uint32_t kRowsAtOnce = 4;    // how many rows a thread loads before it adds the first
static_assert(kRowsInFloat % kRowsAtOnce == 0);
// More shares than this are added by one thread block per channel; otherwise, one thread per
// channel adds the shares.
constexpr uint32_t kFewPartials = 16;

// The threads of a block are arranged in rows: the threads of a row process neighbouring channels
// of the same row of the array, one pack each. A pack is one channel, or as many neighbouring
// channels as fit in 16 bytes. Returns the threads per row: the least power of 2 that is at least
// `num_packs`, but at most 32.
inline uint32_t ThreadsAcross(uint32_t num_packs) {
  uint32_t threads_across = 1;
  while (threads_across < num_packs && threads_across < 32) threads_across *= 2;
  return threads_across;
}

// How many rows of threads are needed for all packs of one row of the array.
TERN_HOST_DEVICE uint32_t ColumnGroups(uint32_t num_packs, uint32_t threads_across) {
  return (num_packs + threads_across - 1) / threads_across;
}

// Threads t, t + threads_across, ... of a block have the same channels. Adds their sums to the sums
// of the first of these threads.
template <uint32_t kSums>
__device__ void FoldColumns(uint32_t threads_across, double (*sums)[kSumThreads]) {
  for (uint32_t half = kSumThreads / 2; half >= threads_across; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (uint32_t k = 0; k < kSums; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
}

// Adds the elements at i, i + element_step, ... of kRows rows to both sums.
template <uint32_t kRows, typename ChannelView>
__device__ void AddRows(uint64_t i, uint64_t element_step, const ChannelView& view, float* first,
                        float* second) {
  typename ChannelView::RawPack rows[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) rows[r] = view.LoadRow(i + r * element_step);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) view.Add(rows[r], i + r * element_step, first, second);
}

// The first launch. source.ViewOf(c) is the thread's view of channels [c, c + kCount): its
// LoadRow(i) loads kCount elements from element i on, and Add(row, i, first, second) adds what they
// contribute to both sums. `sums` has one element per sum and thread, ordered so that neighbouring
// threads use different banks of shared memory.
template <uint32_t kCount, typename Source>
__global__ void __launch_bounds__(kSumThreads)
    SumShares(uint64_t rows, uint32_t channels, uint32_t threads_across, uint32_t num_partials,
              Source source, double* partial_sums) {
  __shared__ double sums[2 * kCount][kSumThreads];
  const uint32_t num_groups = ColumnGroups(channels / kCount, threads_across);
  const uint32_t share = blockIdx.x / num_groups, threads_down = kSumThreads / threads_across,
                 thread = threadIdx.x;
  const uint32_t c = (blockIdx.x % num_groups * threads_across + thread % threads_across) * kCount;
  for (uint32_t k = 0; k < 2 * kCount; ++k) sums[k][thread] = 0;
  if (c < channels) {
    const auto view = source.ViewOf(c);
    float first[kCount] = {}, second[kCount] = {};
    const auto add_to_doubles = [&] {
      for (uint32_t k = 0; k < kCount; ++k) {
        sums[2 * k][thread] += first[k], sums[2 * k + 1][thread] += second[k];
        first[k] = second[k] = 0;
      }
    };
    const uint64_t row_stride = uint64_t{num_partials} * threads_down,
                   element_step = row_stride * channels;
    uint64_t row = uint64_t{share} * threads_down + thread / threads_across;
    for (uint32_t rows_added = 0; row + (kRowsAtOnce - 1) * row_stride < rows;
         row += kRowsAtOnce * row_stride) {
      AddRows<kRowsAtOnce>(row * channels + c, element_step, view, first, second);
      if ((rows_added += kRowsAtOnce) % kRowsInFloat == 0) add_to_doubles();
    }
    for (; row < rows; row += row_stride)
      AddRows<1>(row * channels + c, element_step, view, first, second);
    add_to_doubles();
  }
  FoldColumns<2 * kCount>(threads_across, sums);
  if (thread >= threads_across || c >= channels) return;
  for (uint32_t k = 0; k < 2 * kCount; ++k)
    partial_sums[(uint64_t{2} * c + k) * num_partials + share] = sums[k][thread];
}

// The second launch, with one thread per channel.
template <typename Work>
struct FoldInThread {
  uint32_t num_partials;
  const double* partial_sums;
  Work work;
  __device__ void operator()(uint64_t c) const {
    TwoSums sums;
    for (uint32_t share = 0; share < num_partials; ++share) {
      sums.first += partial_sums[2 * c * num_partials + share];
      sums.second += partial_sums[(2 * c + 1) * num_partials + share];
    }
    work(c, sums);
  }
};

// The second launch, with one thread block per channel.
template <typename Work>
__global__ void __launch_bounds__(kSumThreads)
    FoldInBlock(uint32_t num_partials, const double* partial_sums, Work work) {
  __shared__ double row[kSumThreads];
  const uint32_t c = blockIdx.x;
  TwoSums sums;
  for (uint32_t share = threadIdx.x; share < num_partials; share += kSumThreads) {
    sums.first += partial_sums[uint64_t{2} * c * num_partials + share];
    sums.second += partial_sums[(uint64_t{2} * c + 1) * num_partials + share];
  }
  sums.first = SumOfBlock<kSumThreads>(sums.first, row);
  sums.second = SumOfBlock<kSumThreads>(sums.second, row);
  if (threadIdx.x == 0) work(c, sums);
}

// Calls work(c, sums) on the GPU with the sums of each channel c. `partial_sums` is device memory
// for 2 * channels * PartialsOf(rows) numbers.
template <uint32_t kCount, typename Source, typename Work>
int SumColumns(cudaStream_t stream, uint64_t rows, uint32_t channels, const Source& source,
               double* partial_sums, const Work& work) {
  const uint32_t threads_across = ThreadsAcross(channels / kCount), num_partials = PartialsOf(rows);
  const uint32_t num_groups = ColumnGroups(channels / kCount, threads_across);
  const int error =
      Launch(SumShares<kCount, Source>, num_groups * num_partials, kSumThreads, stream, rows,
             channels, threads_across, num_partials, source, partial_sums);
  if (error != 0) return error;
  if (num_partials <= kFewPartials)
    return ForEach(stream, channels, FoldInThread<Work>{num_partials, partial_sums, work});
  return Launch(FoldInBlock<Work>, channels, kSumThreads, stream, num_partials, partial_sums, work);
}

}  // namespace tern::kernels

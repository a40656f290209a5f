// Computes two sums per column of an array [rows, channels], in an order that does not depend on
// the GPU. Each thread block adds a share of the rows of a group of channels (column_sums.h): a
// thread adds up to 16 rows in float, and then adds the result to a double. The last block of a
// group adds the shares of each channel and calls a function with the result. For .cu files only.
#pragma once

#include "kernels/nn/column_sums.h"
#include "kernels/nn/elements.cuh"

namespace tern::kernels {

// The two sums of a channel.
struct TwoSums {
  double first = 0, second = 0;
};

// Makes a workspace from ColumnWorkspaceBytes bytes, which need not be initialized.
inline int MakeWorkspace(cudaStream_t stream, uint64_t rows, uint32_t channels, void* memory,
                         ColumnWorkspace* workspace) {
  workspace->partial_sums = static_cast<double*>(memory);
  workspace->counters =
      reinterpret_cast<uint32_t*>(workspace->partial_sums + PartialSumsOf(rows, channels));
  return cudaMemsetAsync(workspace->counters, 0, CountersOf(channels) * sizeof(uint32_t), stream);
}

constexpr uint32_t kSumThreads = 256;   // threads per block
constexpr uint32_t kSumBlocks = 2;      // blocks that run on a multiprocessor at the same time
constexpr uint32_t kRowsInFloat = 16;   // the most rows that a thread adds in float
constexpr uint32_t kSharesAtOnce = 16;  // how many shares a thread loads before it adds the first

// How many rows a thread loads before it adds the first: more if it loads from one or two arrays.
template <typename RawPack>
inline constexpr uint32_t kRowsAtOnce = sizeof(RawPack) <= 32 ? 8 : 4;

// Threads t, t + threads_across, ... of a block have the same columns. Adds their sums to the sums
// of the first of these threads.
template <uint32_t kSums>
__device__ void FoldColumns(uint32_t threads_across, double (*sums)[kSumThreads]) {
  for (uint32_t half = kSumThreads / 2; half >= threads_across; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    for (uint32_t k = 0; k < kSums; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half];
  }
}

// The threads of a block are arranged in rows: the threads of a row process neighbouring channels
// of the same row of the array, one pack each. A pack is one channel, or as many neighbouring
// channels as fit in 16 bytes.
//
// `sums` has one row per sum of a pack and one column per thread. The additional column makes
// neighbouring threads that read different rows use different banks of shared memory.
template <uint32_t kSums>
using ThreadSums = double[kSums][kSumThreads + 1];

// Adds rows `row`, row + row_step, ... to column threadIdx.x of `sums`. `c` is the thread's first
// channel.
template <uint32_t kCount, typename ChannelView>
__device__ void AddShare(uint64_t row, uint64_t row_step, uint64_t rows, uint32_t channels,
                         uint32_t c, const ChannelView& view, ThreadSums<2 * kCount>& sums) {
  using RawPack = typename ChannelView::RawPack;
  constexpr uint32_t kRows = kRowsAtOnce<RawPack>;
  static_assert(kRowsInFloat % kRows == 0);
  float first[kCount] = {}, second[kCount] = {};
  const auto add_to_doubles = [&] {
#pragma unroll
    for (uint32_t k = 0; k < kCount; ++k) {
      sums[2 * k][threadIdx.x] += first[k], sums[2 * k + 1][threadIdx.x] += second[k];
      first[k] = second[k] = 0;
    }
  };
  const uint64_t element_step = row_step * channels;
  uint64_t element = row * channels + c;
  for (uint32_t rows_added = 0; row < rows; row += kRows * row_step) {
    RawPack packs[kRows];
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
      if (row + r * row_step < rows) packs[r] = view.LoadRow(element + r * element_step);
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
      if (row + r * row_step < rows) view.Add(packs[r], element + r * element_step, first, second);
    element += kRows * element_step;
    if ((rows_added += kRows) % kRowsInFloat == 0) add_to_doubles();
  }
  add_to_doubles();
}

// Threads t, t + threads_across, ... of a block have the same channels. Returns, to thread
// a * kSums + k, the sum of row k of `sums` over the threads with the channels of thread a.
template <uint32_t kSums>
__device__ double FoldThreads(uint32_t threads_across, ThreadSums<kSums>& sums) {
  constexpr uint32_t kLanes = kSumThreads / kSums;
  const uint32_t row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  double sum = 0;
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < kSums; ++i) sum += sums[row][lane + i * kLanes];
  __syncthreads();
  sums[row][lane] = sum;
  __syncthreads();
  sum = 0;
  for (uint32_t i = threadIdx.x / kSums; i < kLanes; i += threads_across)
    sum += sums[threadIdx.x % kSums][i];
  return sum;
}

// Adds the shares of the group of channels that begins at channel `first_channel`, and calls
// work(c, sums, inputs) for each channel c of the group, in thread c - first_channel, which has the
// channel's inputs. `row` is shared memory of kSumThreads numbers.
template <typename Work>
__device__ void FoldShares(const ColumnShares& shares, uint32_t channels, uint32_t first_channel,
                           const double* partial_sums, double* row, const Work& work,
                           const typename Work::Inputs& inputs) {
  const uint32_t group_sums = 2 * shares.group_channels, num_parts = kSumThreads / group_sums;
  const uint32_t i = 2 * first_channel + threadIdx.x % group_sums;
  double sum = 0;
  for (uint32_t share = threadIdx.x / group_sums; i < 2 * channels && share < shares.num_shares;
       share += kSharesAtOnce * num_parts) {
    double loaded[kSharesAtOnce];
#pragma unroll
    for (uint32_t s = 0; s < kSharesAtOnce; ++s) {
      const uint32_t from = share + s * num_parts;
      loaded[s] = from < shares.num_shares
                      ? LoadFresh(partial_sums + uint64_t{2} * channels * from + i)
                      : 0;
    }
#pragma unroll
    for (uint32_t s = 0; s < kSharesAtOnce; ++s) sum += loaded[s];
  }
  __syncthreads();  // Waits until no thread reads an earlier content of `row`.
  row[threadIdx.x] = sum;
  __syncthreads();
  const uint32_t c = first_channel + threadIdx.x;
  if (threadIdx.x >= shares.group_channels || c >= channels) return;
  TwoSums sums;
  for (uint32_t part = 0; part < num_parts && part < shares.num_shares; ++part) {
    sums.first += row[part * group_sums + 2 * threadIdx.x];
    sums.second += row[part * group_sums + 2 * threadIdx.x + 1];
  }
  work(c, sums, inputs);
}

// source.ViewOf(c) is the thread's view of channels [c, c + kCount): its LoadRow(i) loads kCount
// elements from element i on, and Add(row, i, first, second) adds what they contribute to both
// sums.
template <uint32_t kCount, typename Source, typename Work>
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    SumShares(uint64_t rows, uint32_t channels, ColumnShares shares, Source source,
              ColumnWorkspace workspace, Work work) {
  __shared__ ThreadSums<2 * kCount> sums;
  const uint32_t group = blockIdx.x % shares.num_groups, share = blockIdx.x / shares.num_groups;
  const uint32_t threads_across = shares.group_channels / kCount,
                 threads_down = kSumThreads / threads_across;
  const uint32_t first_channel = group * shares.group_channels,
                 c = first_channel + threadIdx.x % threads_across * kCount;
#pragma unroll
  for (uint32_t k = 0; k < 2 * kCount; ++k) sums[k][threadIdx.x] = 0;
  if (c < channels) {
    AddShare<kCount>(uint64_t{share} * threads_down + threadIdx.x / threads_across,
                     uint64_t{shares.num_shares} * threads_down, rows, channels, c,
                     source.ViewOf(c), sums);
  }
  const double sum = FoldThreads<2 * kCount>(threads_across, sums);
  const uint32_t i = 2 * first_channel + threadIdx.x;
  if (threadIdx.x < 2 * shares.group_channels && i < 2 * channels)
    workspace.partial_sums[uint64_t{2} * channels * share + i] = sum;
  // Every block loads the inputs before it is known which block needs them, so that the last does
  // not wait for them.
  typename Work::Inputs inputs{};
  if (threadIdx.x < shares.group_channels && first_channel + threadIdx.x < channels)
    inputs = work.Load(first_channel + threadIdx.x);
  if (!IsLastBlockOf(workspace.counters + group, shares.num_shares)) return;
  FoldShares(shares, channels, first_channel, workspace.partial_sums, sums[0], work, inputs);
}

// Calls work(c, sums, work.Load(c)) on the GPU with the sums of each channel c.
template <uint32_t kCount, typename Source, typename Work>
int SumColumns(cudaStream_t stream, uint64_t rows, uint32_t channels, const Source& source,
               const ColumnWorkspace& workspace, const Work& work) {
  const ColumnShares shares = ColumnSharesOf(rows, channels);
  return Launch(SumShares<kCount, Source, Work>, shares.num_groups * shares.num_shares, kSumThreads,
                stream, rows, channels, shares, source, workspace, work);
}

}  // namespace tern::kernels

// Launching and synchronization that all GPU kernels share. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tern::kernels {

// Launches `blocks` blocks; does nothing for 0.
template <typename... Parameters, typename... Arguments>
int Launch(void (*kernel)(Parameters...), uint32_t blocks, uint32_t threads, cudaStream_t stream,
           Arguments&&... arguments) {
  if (blocks == 0) return 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Arguments&&>(arguments)...);
}

// Returns true to the last of `count` blocks that call it. That block then sees everything the
// others wrote before (through LoadFresh). The last call resets the counter. Called by all threads
// of a block.
__device__ inline bool IsLastOf(uint32_t* counter, uint32_t count) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // covers the whole block: the barriers around it make it cumulative
    last = atomicAdd(counter, 1u) == count - 1;
    if (last) {
      *counter = 0;
      __threadfence();
    }
  }
  __syncthreads();
  return last;
}

constexpr uint32_t kAllLanes = 0xFFFFFFFF;

// As IsLastOf, for `count` warps, in each of which the first lane did the writing. Called by all
// lanes of a warp.
__device__ inline bool IsLastWarpOf(uint32_t* counter, uint32_t count) {
  uint32_t last = 0;
  if (threadIdx.x % 32 == 0) {
    __threadfence();
    last = atomicAdd(counter, 1u) == count - 1 ? 1 : 0;
    __threadfence();  // orders the other lanes' reads too, which follow __syncwarp
    if (last != 0) *counter = 0;
  }
  last = __shfl_sync(kAllLanes, last, 0);
  __syncwarp();
  return last != 0;
}

// Loads data written by other blocks of the same launch, bypassing L1.
template <typename T>
__device__ T LoadFresh(const T* from) {
  using Word = std::conditional_t<alignof(T) % 8 == 0, uint64_t, uint32_t>;
  static_assert(sizeof(T) % sizeof(Word) == 0);
  Word words[sizeof(T) / sizeof(Word)];
  const auto* fresh = reinterpret_cast<const volatile Word*>(from);
  for (uint32_t i = 0; i < sizeof(T) / sizeof(Word); ++i) words[i] = fresh[i];
  T value;
  memcpy(&value, words, sizeof value);
  return value;
}

constexpr uint32_t kElementThreads = 256;

template <typename Work>
__global__ void EachElement(uint64_t n, Work work) {
  const uint64_t i = uint64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i < n) work(i);
}

// Runs work(i) for every i in [0, n), one thread each. REQUIRES n < 2^39.
template <typename Work>
int ForEach(cudaStream_t stream, uint64_t n, const Work& work) {
  const auto blocks = static_cast<uint32_t>((n + kElementThreads - 1) / kElementThreads);
  return Launch(EachElement<Work>, blocks, kElementThreads, stream, n, work);
}

// The sum of the threads before this one; *total: the sum of all threads. `row` has kThreads / 32
// elements. Called by all threads of a block.
template <uint32_t kThreads, typename T>
__device__ T SumBefore(T value, T* row, T* total) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum = value;
  for (uint32_t step = 1; step < 32; step *= 2) {
    const T before = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += before;
  }
  __syncthreads();  // wait for readers of the previous `row`
  if (lane == 31) row[warp] = sum;
  __syncthreads();
  T warps_before = 0;
  *total = 0;
  for (uint32_t w = 0; w < kThreads / 32; ++w) {
    if (w < warp) warps_before += row[w];
    *total += row[w];
  }
  return warps_before + sum - value;
}

// The sum over the threads of a block, in a fixed order. Called by all threads; all get it. `row`
// has kThreads elements in shared memory.
template <uint32_t kThreads>
__device__ double SumOfBlock(double value, double* row) {
  __syncthreads();  // wait for readers of the previous `row`
  row[threadIdx.x] = value;
  for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) row[threadIdx.x] += row[threadIdx.x + half];
  }
  __syncthreads();
  return row[0];
}

}  // namespace tern::kernels

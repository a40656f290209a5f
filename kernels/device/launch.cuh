// Launches of kernels, and synchronization and sums inside kernels, for all GPU code. For .cu files
// only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tern::kernels {

// Launches a kernel with `blocks` thread blocks of `threads` threads; does nothing for 0 blocks.
// Returns a cudaError_t.
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

// Adds 1 to a counter, and returns its value before. What this thread has stored, or has seen other
// threads store, is visible to a thread that reads the new value and then calls SeeOtherBlocks.
// Both cost less than __threadfence, which also gives all fences one order.
__device__ inline uint32_t CountUp(uint32_t* counter) {
#ifdef __CUDA_ARCH__
  uint32_t before;
  asm volatile("atom.release.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
#else
  return atomicAdd(counter, 1u);
#endif
}
__device__ inline void SeeOtherBlocks() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#endif
}

// Returns true in the last of `count` thread blocks that call this function with the same counter.
// This block can then load (with LoadFresh) everything that the other blocks stored before their
// calls. The counter must be zero before the first call, and is zero after the last. Called by all
// threads of a block.
__device__ inline bool IsLastBlockOf(uint32_t* counter, uint32_t count) {
  __shared__ bool is_last;
  __syncthreads();  // What the threads have stored is seen by the first, which passes it on.
  if (threadIdx.x == 0) {
    is_last = CountUp(counter) == count - 1;
    if (is_last) {
      *counter = 0;
      SeeOtherBlocks();
    }
  }
  __syncthreads();
  return is_last;
}

// Numbers the thread blocks of a launch in the order in which they begin, from 0 on. The counter
// must be zero before the launch, and is zero after it. Called once by all threads of a block.
__device__ inline uint32_t NumberOfBlock(uint32_t* counter) {
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = atomicInc(counter, gridDim.x - 1);
  __syncthreads();
  return number;
}

// Store and load a word that other thread blocks of the launch load and store meanwhile. They order
// no other memory.
__device__ inline void StoreRelaxed(uint64_t* to, uint64_t word) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
#else
  __atomic_store_n(to, word, __ATOMIC_RELAXED);
#endif
}
__device__ inline uint64_t LoadRelaxed(const uint64_t* from) {
#ifdef __CUDA_ARCH__
  uint64_t word;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
#else
  return __atomic_load_n(from, __ATOMIC_RELAXED);
#endif
}

constexpr uint32_t kAllLanes = 0xFFFFFFFF;  // the mask of all threads of a warp

// Like IsLastBlockOf, but returns true in the last of `count` warps. REQUIRES that in each warp
// only the first thread has stored data for the last warp. Called by all threads of a warp.
__device__ inline bool IsLastWarpOf(uint32_t* counter, uint32_t count) {
  uint32_t is_last = 0;
  if (threadIdx.x % 32 == 0) is_last = CountUp(counter) == count - 1 ? 1 : 0;
  is_last = __shfl_sync(kAllLanes, is_last, 0);
  if (is_last == 0) return false;
  SeeOtherBlocks();
  if (threadIdx.x % 32 == 0) *counter = 0;
  __syncwarp();
  return true;
}

// Loads data that other thread blocks of the same launch have stored. Does not use the L1 cache.
template <typename T>
__device__ T LoadFresh(const T* from) {
  using Word = std::conditional_t<alignof(T) % 8 == 0, uint64_t, uint32_t>;
  static_assert(sizeof(T) % sizeof(Word) == 0);
  Word words[sizeof(T) / sizeof(Word)];
  const auto* source_words = reinterpret_cast<const volatile Word*>(from);
  for (uint32_t i = 0; i < sizeof(T) / sizeof(Word); ++i) words[i] = source_words[i];
  T value;
  memcpy(&value, words, sizeof value);
  return value;
}

constexpr uint32_t kElementThreads = 256;  // threads per block of ForEach

template <typename Work>
__global__ void CallForEachElement(uint64_t n, Work work) {
  const uint64_t i = uint64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i < n) work(i);
}

// Launches a kernel that calls work(i) for every i in [0, n), each in a thread of its own. REQUIRES
// n < 2^39.
template <typename Work>
int ForEach(cudaStream_t stream, uint64_t n, const Work& work) {
  const auto blocks = static_cast<uint32_t>((n + kElementThreads - 1) / kElementThreads);
  return Launch(CallForEachElement<Work>, blocks, kElementThreads, stream, n, work);
}

// Returns the sum of `value` over the threads of the warp up to and including this thread. Called
// by all threads of a warp.
template <typename T>
__device__ T SumUpToThread(T value) {
  const uint32_t lane = threadIdx.x % 32;
  T sum = value;
  for (uint32_t step = 1; step < 32; step *= 2) {
    const T lower_sum = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += lower_sum;
  }
  return sum;
}

// Returns the sum of `value` over the threads of the block that precede this thread. Sets *total to
// the sum over all threads of the block. `row` is shared memory of kThreads / 32 elements. Called
// by all threads of a block.
template <uint32_t kThreads, typename T>
__device__ T SumBefore(T value, T* row, T* total) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const T sum = SumUpToThread(value);
  __syncthreads();  // Waits until no thread reads an earlier content of `row`.
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

// Returns the sum of `value` over all threads of a block, added in a fixed order, to all of them.
// `row` is shared memory of kThreads elements. Called by all threads of a block.
template <uint32_t kThreads>
__device__ double SumOfBlock(double value, double* row) {
  __syncthreads();  // Waits until no thread reads an earlier content of `row`.
  row[threadIdx.x] = value;
  for (uint32_t half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) row[threadIdx.x] += row[threadIdx.x + half];
  }
  __syncthreads();
  return row[0];
}

}  // namespace tern::kernels

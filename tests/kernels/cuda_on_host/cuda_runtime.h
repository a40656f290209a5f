// The part of CUDA that Tern's kernels use, on the CPU: a test that includes this before the
// toolkit's own folder runs the very kernels where there is no GPU. Blocks of a launch run one
// after the other; the threads of a block are threads, so that a thread sanitizer sees what a GPU
// would race on. Slow; for sizes of tests.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

struct dim3 {
  dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
  uint32_t x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace cuda_on_host {

constexpr uint32_t kWarp = 32;

// What the threads of a block meet at.
struct Block {
  explicit Block(uint32_t threads) : all(threads) {
    for (uint32_t begin = 0; begin < threads; begin += kWarp)
      warps.push_back(std::make_unique<Warp>(std::min(kWarp, threads - begin)));
  }
  struct Warp {
    explicit Warp(uint32_t threads) : meet(threads) {}
    std::barrier<> meet;
    uint32_t words[kWarp] = {};
  };
  std::barrier<> all;
  std::vector<std::unique_ptr<Warp>> warps;
};

inline thread_local Block* block;

}  // namespace cuda_on_host

inline thread_local dim3 threadIdx(0, 0, 0), blockIdx(0, 0, 0), blockDim, gridDim;

inline void __syncthreads() { cuda_on_host::block->all.arrive_and_wait(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

inline uint32_t __shfl_up_sync(uint32_t /*all*/, uint32_t value, uint32_t delta) {
  auto& warp = *cuda_on_host::block->warps[threadIdx.x / cuda_on_host::kWarp];
  const uint32_t lane = threadIdx.x % cuda_on_host::kWarp;
  warp.words[lane] = value;
  warp.meet.arrive_and_wait();
  const uint32_t got = lane >= delta ? warp.words[lane - delta] : value;
  warp.meet.arrive_and_wait();
  return got;
}

inline uint32_t atomicAdd(uint32_t* to, uint32_t value) {
  return std::atomic_ref<uint32_t>(*to).fetch_add(value);
}
inline uint32_t atomicOr(uint32_t* to, uint32_t value) {
  return std::atomic_ref<uint32_t>(*to).fetch_or(value);
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const uint32_t threads = config->blockDim.x;
  cuda_on_host::Block block(threads);
  const auto run = [&](uint32_t thread) {
    cuda_on_host::block = &block;
    threadIdx = dim3(thread, 0, 0);
    blockDim = config->blockDim;
    gridDim = config->gridDim;
    for (uint32_t b = 0; b < config->gridDim.x; ++b) {
      blockIdx = dim3(b, 0, 0);
      kernel(arguments...);
      __syncthreads();
    }
  };
  std::vector<std::thread> running;
  for (uint32_t thread = 0; thread < threads; ++thread) running.emplace_back(run, thread);
  for (std::thread& thread : running) thread.join();
  return cudaSuccess;
}

// Memory, as poorly initialized as a device's.
inline cudaError_t cudaMalloc(void** to, size_t bytes) {
  *to = std::malloc(bytes);
  if (*to == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*to, 0xA5, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

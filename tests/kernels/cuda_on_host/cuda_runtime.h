// Emulates on the CPU the part of CUDA that Tern's kernels use. A test that is compiled with this
// header instead of the toolkit's runs the same kernel sources without a GPU. The blocks of a
// launch run one after the other; fibers.h runs the threads of a block. The emulation is slow and
// meant for small tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/kernels/cuda_on_host/fibers.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __noinline__

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrL2CacheSize,
  cudaDevAttrClockRate,
  cudaDevAttrMemoryClockRate
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
};
using cudaEvent_t = CUevent_st*;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
constexpr unsigned cudaHostRegisterDefault = 0;

struct dim3 {
  dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
  uint32_t x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace cuda_on_host {

constexpr uint32_t kWarpSize = 32;

// The barriers of a block's threads.
struct Block {
  explicit Block(uint32_t num_threads) : barrier(num_threads) {
    for (uint32_t begin = 0; begin < num_threads; begin += kWarpSize)
      warps.push_back(std::make_unique<Warp>(std::min(kWarpSize, num_threads - begin)));
  }
  struct Warp {
    explicit Warp(uint32_t num_threads) : barrier(num_threads) {}
    // Publishes the word of this lane (a thread of the warp), waits for all lanes, and returns the
    // words of all lanes. Calls use two arrays alternately, so that each call needs only one
    // barrier.
    const uint64_t* Exchange(uint32_t lane, uint64_t word);
    Barrier barrier;
    uint64_t words[2][kWarpSize] = {};
    uint32_t num_exchanges[kWarpSize] = {};  // How often each lane has called Exchange.
  };
  Barrier barrier;
  std::vector<std::unique_ptr<Warp>> warps;
};

// The block of the thread that runs now.
inline thread_local Block* block;

// Tests set these to provoke errors: how many launches succeed before all later ones fail, and the
// largest allocation in bytes that succeeds.
inline uint64_t launches_left = ~uint64_t{0}, max_allocation_bytes = ~uint64_t{0};
inline thread_local cudaError_t last_error = cudaSuccess;
inline cudaError_t RecordError(cudaError_t error) { return last_error = error; }

// The priorities of the streams that this thread has created, in order.
inline thread_local std::vector<int> stream_priorities;

// Host threads may launch kernels at the same time, but kernels run one after the other.
inline std::mutex launch_mutex;

// Atomic, because all threads of a block share one ThreadIndex on the host; each thread sets it
// whenever the thread begins or continues to run.
struct ThreadIndex {
  std::atomic<uint32_t> x = 0;
};

}  // namespace cuda_on_host

inline thread_local cuda_on_host::ThreadIndex threadIdx;
inline thread_local dim3 blockIdx(0, 0, 0), blockDim, gridDim;

namespace cuda_on_host {

// Waits at the barrier for the other threads, which overwrite threadIdx meanwhile.
inline void Wait(Barrier& barrier) {
  const uint32_t thread = threadIdx.x;
  barrier.ArriveAndWait();
  threadIdx.x = thread;
}

inline const uint64_t* Block::Warp::Exchange(uint32_t lane, uint64_t word) {
  uint64_t* words_of_lanes = words[num_exchanges[lane]++ % 2];
  words_of_lanes[lane] = word;
  Wait(barrier);
  return words_of_lanes;
}

}  // namespace cuda_on_host

inline void __syncthreads() { cuda_on_host::Wait(cuda_on_host::block->barrier); }
inline void __threadfence() {}  // Does nothing, because blocks do not run at the same time.

namespace cuda_on_host {

inline uint32_t MyLane() { return threadIdx.x % kWarpSize; }

inline Block::Warp& MyWarp() { return *block->warps[threadIdx.x / kWarpSize]; }

// Returns the value that the thread `lane` of this warp passes. All threads of the warp call it at
// the same time. The lane must exist.
template <typename T>
T ReadFromLane(T value, uint32_t lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = MyWarp().Exchange(MyLane(), word)[lane];
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace cuda_on_host

template <typename T>
T __shfl_sync(uint32_t /*all*/, T value, uint32_t lane) {
  return cuda_on_host::ReadFromLane(value, lane);
}
template <typename T>
T __shfl_up_sync(uint32_t /*all*/, T value, uint32_t delta) {
  const uint32_t lane = cuda_on_host::MyLane();
  return cuda_on_host::ReadFromLane(value, lane >= delta ? lane - delta : lane);
}
template <typename T>
T __shfl_down_sync(uint32_t /*all*/, T value, uint32_t delta) {
  const uint32_t lane = cuda_on_host::MyLane();
  return cuda_on_host::ReadFromLane(value,
                                    lane + delta < cuda_on_host::kWarpSize ? lane + delta : lane);
}
template <typename T>
T __shfl_xor_sync(uint32_t /*all*/, T value, uint32_t mask) {
  return cuda_on_host::ReadFromLane(value, cuda_on_host::MyLane() ^ mask);
}
inline void __syncwarp() { cuda_on_host::Wait(cuda_on_host::MyWarp().barrier); }
inline uint32_t __ballot_sync(uint32_t /*all*/, bool predicate) {
  const uint64_t* words =
      cuda_on_host::MyWarp().Exchange(cuda_on_host::MyLane(), predicate ? 1 : 0);
  uint32_t ones = 0;
  for (uint32_t lane = 0; lane < cuda_on_host::kWarpSize; ++lane)
    ones |= static_cast<uint32_t>(words[lane]) << lane;
  return ones;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
inline int __popc(uint32_t word) { return __builtin_popcount(word); }
inline int __ffs(int word) { return __builtin_ffs(word); }

inline uint32_t atomicAdd(uint32_t* to, uint32_t value) {
  return std::atomic_ref<uint32_t>(*to).fetch_add(value);
}
inline uint32_t atomicOr(uint32_t* to, uint32_t value) {
  return std::atomic_ref<uint32_t>(*to).fetch_or(value);
}

namespace cuda_on_host {

// The work that a stream records while a graph is captured.
using CapturedWork = std::vector<std::function<cudaError_t()>>;
inline thread_local CapturedWork* captured_work = nullptr;
inline uint64_t graphs_launched = 0;

inline cudaError_t RunOrCapture(std::function<cudaError_t()> work) {
  if (captured_work == nullptr) return work();
  captured_work->push_back(std::move(work));
  return cudaSuccess;
}

}  // namespace cuda_on_host

using cudaGraph_t = cuda_on_host::CapturedWork*;
struct CUgraphExec_st {
  cuda_on_host::CapturedWork work;
};
using cudaGraphExec_t = CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  cuda_on_host::captured_work = new cuda_on_host::CapturedWork;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(cuda_on_host::captured_work, nullptr);
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned) {
  if (cuda_on_host::max_allocation_bytes == 0)
    return cuda_on_host::RecordError(cudaErrorMemoryAllocation);
  *exec = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  ++cuda_on_host::graphs_launched;
  for (const auto& work : exec->work) {
    if (const cudaError_t error = work(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelNow(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                                const Arguments&... arguments) {
  const std::lock_guard one_at_a_time(cuda_on_host::launch_mutex);
  if (cuda_on_host::launches_left == 0) return cuda_on_host::RecordError(cudaErrorLaunchFailure);
  --cuda_on_host::launches_left;
  const uint32_t num_threads = config->blockDim.x, num_blocks = config->gridDim.x;
  blockDim = config->blockDim;
  gridDim = config->gridDim;
  cuda_on_host::Block block(num_threads);
  cuda_on_host::block = &block;
  for (uint32_t b = 0; b < num_blocks; ++b) {
    blockIdx = dim3(b, 0, 0);
    cuda_on_host::Fibers::Get().Run(num_threads, [&](uint32_t thread) {
      threadIdx.x = thread;
      kernel(arguments...);
    });
  }
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return cuda_on_host::RunOrCapture([config = *config, kernel, ... copies = arguments] {
    return cudaLaunchKernelNow(&config, kernel, copies...);
  });
}

// Fills the memory with 0xA5, because device memory is not initialized either.
inline cudaError_t cudaMalloc(void** to, size_t bytes) {
  if (bytes > cuda_on_host::max_allocation_bytes)
    return cuda_on_host::RecordError(cudaErrorMemoryAllocation);
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
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  return cuda_on_host::RunOrCapture([=] { return cudaMemcpy(to, from, bytes, kind); });
}
inline cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
inline cudaError_t cudaMallocHost(void** to, size_t bytes) { return cudaMalloc(to, bytes); }
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }

// There is one device. All work is finished when its call returns, so streams and events have
// nothing to wait for.
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"a CPU in place of a GPU"};
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = cuda_on_host::max_allocation_bytes;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "launch failure" : "out of memory";
}
inline cudaError_t cudaGetLastError() {
  return std::exchange(cuda_on_host::last_error, cudaSuccess);
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  *stream = nullptr;
  cuda_on_host::stream_priorities.push_back(priority);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

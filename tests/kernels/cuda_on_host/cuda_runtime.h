// Emulates on the CPU the part of CUDA that Tern's kernels and its GPU backend use. A test that is
// compiled with this header instead of the toolkit's runs the same sources without a GPU.
//
// Where CUDA leaves something open, the emulation does what a careless program does not expect:
// streams.h (work runs as late as possible, in an order that a seed chooses), grid.h (the blocks of
// a launch run in any order), block.h (a shuffle is no fence, and masks must be right) and
// device_math.h (functions that differ from the host's in the last place). Fresh memory is full of
// NaNs. Calls that CUDA refuses while a stream captures are refused. The emulation is slow, and
// meant for small tests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/cuda_on_host/block.h"
#include "tests/kernels/cuda_on_host/device_math.h"
#include "tests/kernels/cuda_on_host/grid.h"
#include "tests/kernels/cuda_on_host/streams.h"

#define __global__
#define __device__
#define __host__
// Shared memory has no constructors. Each host thread that runs blocks (grid.h) has its own.
#ifdef __SANITIZE_THREAD__
#define __shared__ constinit static thread_local
#elif defined(__clang__)  // whose constant initialization sets every member
#define __shared__ static
#else
#define __shared__ constinit static
#endif
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __noinline__

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrL2CacheSize,
  cudaDevAttrClockRate,
  cudaDevAttrMemoryClockRate
};
struct CUstream_st {
  std::shared_ptr<cuda_on_host::Stream> stream;
};
using cudaStream_t = CUstream_st*;
struct CUevent_st {
  std::shared_ptr<cuda_on_host::Event> event;
};
using cudaEvent_t = CUevent_st*;
struct CUgraph_st {
  cuda_on_host::WorkList work;
};
using cudaGraph_t = CUgraph_st*;
struct CUgraphExec_st {
  cuda_on_host::WorkList work;
};
using cudaGraphExec_t = CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
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
inline thread_local dim3 blockIdx(0, 0, 0), blockDim, gridDim;

inline void __syncthreads() { cuda_on_host::block->barrier.ArriveAndWait(); }
template <typename T>
T __shfl_sync(uint32_t mask, T value, uint32_t lane) {
  return cuda_on_host::ReadFromLane(mask, value, lane);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, uint32_t delta) {
  const uint32_t lane = cuda_on_host::MyLane();
  return cuda_on_host::ReadFromLane(mask, value, lane >= delta ? lane - delta : lane);
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t delta) {
  const uint32_t lane = cuda_on_host::MyLane();
  return cuda_on_host::ReadFromLane(mask, value,
                                    lane + delta < cuda_on_host::kWarpSize ? lane + delta : lane);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, uint32_t lane_mask) {
  return cuda_on_host::ReadFromLane(mask, value, cuda_on_host::MyLane() ^ lane_mask);
}
inline void __syncwarp(uint32_t mask = 0xFFFFFFFF) {
  cuda_on_host::Meet<cuda_on_host::WarpCall::kSync>(mask, 0, 0);
}
inline uint32_t __ballot_sync(uint32_t mask, bool predicate) {
  return static_cast<uint32_t>(
      cuda_on_host::Meet<cuda_on_host::WarpCall::kBallot>(mask, predicate ? 1 : 0, 0));
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
inline uint32_t atomicInc(uint32_t* to, uint32_t last) {
  std::atomic_ref<uint32_t> number(*to);
  uint32_t before = number;
  while (!number.compare_exchange_weak(before, before >= last ? 0 : before + 1)) {
  }
  return before;
}
// A thread that waits in a loop for another one calls this.
inline void __nanosleep(unsigned) {
  cuda_on_host::Fibers::Current().Sleep();
  cuda_on_host::LetOthersRun();
}
// Ends the kernel with an error that the process does not recover from.
[[noreturn]] inline void __trap() {
  std::fputs("a thread of this kernel has called __trap\n", stderr);
  std::abort();
}

namespace cuda_on_host {

// Tests set these to provoke errors: how many launches succeed before all later ones fail, and the
// largest allocation in bytes that succeeds.
inline std::atomic<uint64_t> launches_left = ~uint64_t{0}, max_allocation_bytes = ~uint64_t{0};
// Whether the program has code for the device. Without it, kernels cannot be launched.
inline std::atomic<bool> has_code = true;
inline std::atomic<uint64_t> graphs_launched = 0;
// The priorities of the streams that this thread has created, in order.
inline thread_local std::vector<int> stream_priorities;

inline thread_local cudaError_t last_error = cudaSuccess;
inline cudaError_t RecordError(cudaError_t error) { return last_error = error; }

// The stream on which this thread captures a graph, or null.
inline thread_local Stream* capturing = nullptr;

// Makes the capture on the stream void because of a call that is not allowed. Returns its error.
inline cudaError_t VoidCapture(Stream& stream) {
  stream.capture->is_void = true;
  return RecordError(cudaErrorStreamCaptureUnsupported);
}

// The stream of a handle.
inline Stream& StreamOf(cudaStream_t stream) {
  return stream == nullptr ? Device::Get().legacy() : *stream->stream;
}

// Whether a call on the stream that is no work is refused, because the stream captures, or because
// the stream is the legacy one and this thread captures. If so, makes the capture void.
inline bool IsRefused(Stream& stream) {
  if (stream.capture == nullptr && (capturing == nullptr || &stream != &Device::Get().legacy()))
    return false;
  VoidCapture(stream.capture != nullptr ? stream : *capturing);
  return true;
}
// Whether a call is refused that CUDA does not allow a thread that captures.
inline bool IsRefused() {
  if (capturing != nullptr) VoidCapture(*capturing);
  return capturing != nullptr;
}

inline bool TakeLaunches(uint64_t count) {
  uint64_t left = launches_left;
  while (left >= count && !launches_left.compare_exchange_weak(left, left - count)) {
  }
  if (left < count) launches_left = 0;
  return left >= count;
}

// Gives work to a stream, which records it if it captures.
inline cudaError_t Give(cudaStream_t handle, const WorkList& list) {
  Stream& stream = StreamOf(handle);
  if (stream.capture != nullptr) {
    if (stream.capture->is_void) return RecordError(cudaErrorStreamCaptureInvalidated);
    stream.capture->work.insert(stream.capture->work.end(), list.begin(), list.end());
    return cudaSuccess;
  }
  if (IsRefused(stream)) return cudaErrorStreamCaptureUnsupported;
  uint64_t num_kernels = 0;
  for (const auto& work : list) num_kernels += work->is_kernel;
  if (!TakeLaunches(num_kernels)) return RecordError(cudaErrorLaunchFailure);
  Device::Get().Give(stream, list);
  return cudaSuccess;
}
inline cudaError_t Give(cudaStream_t handle, Work work) {
  return Give(handle, {std::make_shared<const Work>(std::move(work))});
}

// A copy as work. Memory of the host is read when the copy runs, also if it is not page-locked,
// because some GPUs read such memory themselves.
inline Work CopyOf(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  Work copy{[=] { std::memcpy(to, from, bytes); }};
  if (kind == cudaMemcpyHostToDevice) copy.source = {source, bytes};
  if (kind == cudaMemcpyDeviceToHost) copy.target = {target, bytes};
  return copy;
}

}  // namespace cuda_on_host

// Launches.

namespace cuda_on_host {

// Whether CUDA allows the launch. Only grids of one dimension without dynamic shared memory are
// emulated.
inline bool IsAllowed(const cudaLaunchConfig_t& config) {
  const dim3 &grid = config.gridDim, &threads = config.blockDim;
  return grid.x >= 1 && grid.x <= kMaxBlocks && threads.x >= 1 && threads.x <= kMaxThreads &&
         grid.y * grid.z * threads.y * threads.z == 1 && config.dynamicSmemBytes == 0;
}

}  // namespace cuda_on_host

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using namespace cuda_on_host;
  static_assert(ParameterBytes<Parameters...>() <= kMaxParameterBytes);
  if (!has_code) return RecordError(cudaErrorNoKernelImageForDevice);
  if (!IsAllowed(*config)) return RecordError(cudaErrorInvalidConfiguration);
  std::tuple<std::decay_t<Parameters>...> copies(static_cast<Arguments&&>(arguments)...);
  const auto thread = [kernel, copies = std::move(copies)] { std::apply(kernel, copies); };
  return Give(config->stream, Work{[blocks = config->gridDim.x, threads = config->blockDim.x,
                                    thread] { RunGrid(blocks, threads, thread); },
                                   /*is_kernel=*/true});
}

struct cudaFuncAttributes {};
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)(Parameters...)) {
  if (cuda_on_host::has_code) return cudaSuccess;
  return cuda_on_host::RecordError(cudaErrorNoKernelImageForDevice);
}

// Memory.

inline cudaError_t cudaMalloc(void** to, size_t bytes) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  if (bytes > cuda_on_host::max_allocation_bytes)
    return cuda_on_host::RecordError(cudaErrorMemoryAllocation);
  *to = std::malloc(bytes);
  if (*to == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*to, 0xFF, bytes);  // NaNs of all types
  return cudaSuccess;
}
// As on a GPU, waits for all streams.
inline cudaError_t cudaFree(void* memory) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  if (memory != nullptr) cuda_on_host::Device::Get().FinishAll();
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** to, size_t bytes) {
  const cudaError_t error = cudaMalloc(to, bytes);
  if (error == cudaSuccess) cuda_on_host::Device::Get().Lock(*to, bytes);
  return error;
}
// CUDA does not promise that this waits, and it does not wait here.
inline cudaError_t cudaFreeHost(void* memory) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  if (memory != nullptr) cuda_on_host::Device::Get().Unlock(memory);
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  if (cuda_on_host::Device::Get().Lock(memory, bytes)) return cudaSuccess;
  return cuda_on_host::RecordError(cudaErrorHostMemoryAlreadyRegistered);
}
inline cudaError_t cudaHostUnregister(void* memory) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  cuda_on_host::Device::Get().Unlock(memory);
  return cudaSuccess;
}

// Copies. None but cudaMemcpy waits, also not those to memory of the host that is not page-locked.

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return cuda_on_host::Give(stream, cuda_on_host::CopyOf(to, from, bytes, kind));
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return cuda_on_host::Give(stream, cuda_on_host::Work{[=] { std::memset(memory, value, bytes); }});
}
inline cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
// On the legacy stream. May return before a copy on the device, or from memory of the host that is
// not page-locked, which it has read by then.
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  cuda_on_host::Device& device = cuda_on_host::Device::Get();
  if (kind == cudaMemcpyHostToDevice && !device.IsLocked(from, bytes)) {
    const auto* source = static_cast<const std::byte*>(from);
    return cuda_on_host::Give(
        nullptr, cuda_on_host::Work{[to, staged = std::vector(source, source + bytes)] {
          std::memcpy(to, staged.data(), staged.size());
        }});
  }
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  if (error == cudaSuccess && kind != cudaMemcpyDeviceToDevice) device.Finish(device.legacy());
  return error;
}

// Streams and events.

inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
// Only streams that do not wait for the legacy stream are emulated.
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                int priority) {
  if (flags != cudaStreamNonBlocking) return cuda_on_host::RecordError(cudaErrorInvalidValue);
  *stream = new CUstream_st{cuda_on_host::Device::Get().NewStream()};
  cuda_on_host::stream_priorities.push_back(priority);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (cuda_on_host::IsRefused() || cuda_on_host::IsRefused(cuda_on_host::StreamOf(stream)))
    return cudaErrorStreamCaptureUnsupported;
  cuda_on_host::Device::Get().Finish(cuda_on_host::StreamOf(stream));
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{std::make_shared<cuda_on_host::Event>()};
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
// Graphs over several streams are not emulated: events may not be used on a stream that captures.
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cuda_on_host::Stream& recorded = cuda_on_host::StreamOf(stream);
  if (cuda_on_host::IsRefused(recorded)) return cudaErrorStreamCaptureUnsupported;
  cuda_on_host::Device::Get().Mark(recorded, event->event);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  cuda_on_host::Stream& waiting = cuda_on_host::StreamOf(stream);
  if (cuda_on_host::IsRefused(waiting)) return cudaErrorStreamCaptureUnsupported;
  cuda_on_host::Device::Get().WaitFor(waiting, event->event);
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  cuda_on_host::Device::Get().Finish(*event->event);
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (cuda_on_host::IsRefused()) return cudaErrorStreamCaptureUnsupported;
  if (cuda_on_host::Device::Get().IsReached(*event->event)) return cudaSuccess;
  return cuda_on_host::RecordError(cudaErrorNotReady);
}
// REQUIRES that both events are reached.
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->event->reached_at - begin->event->reached_at)
          .count();
  return cudaSuccess;
}

// Graphs.

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->stream->capture != nullptr)
    return cuda_on_host::RecordError(cudaErrorStreamCaptureUnsupported);
  stream->stream->capture = new cuda_on_host::Capture;
  cuda_on_host::capturing = stream->stream.get();
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (cuda_on_host::capturing == nullptr || cuda_on_host::capturing != stream->stream.get())
    return cuda_on_host::RecordError(cudaErrorInvalidValue);
  const std::unique_ptr<cuda_on_host::Capture> capture(
      std::exchange(cuda_on_host::capturing->capture, nullptr));
  cuda_on_host::capturing = nullptr;
  if (capture->is_void) return cuda_on_host::RecordError(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{std::move(capture->work)};
  return cudaSuccess;
}
// Counts the nodes; does not list them.
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, std::nullptr_t, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned) {
  if (cuda_on_host::max_allocation_bytes == 0)
    return cuda_on_host::RecordError(cudaErrorMemoryAllocation);
  *exec = new CUgraphExec_st{graph->work};
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
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++cuda_on_host::graphs_launched;
  return cuda_on_host::Give(stream, exec->work);
}

// The device and its errors.

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
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorLaunchFailure:
      return "launch failure";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "another error";
  }
}
inline cudaError_t cudaGetLastError() {
  return std::exchange(cuda_on_host::last_error, cudaSuccess);
}

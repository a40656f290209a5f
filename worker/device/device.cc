#include "worker/device/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/text.h"
#include "kernels/update/arrays.h"

namespace tern::device {

namespace {

// The lowest compute capability that Tern supports: 7.5, the Turing GPUs.
constexpr int kMinMajor = 7, kMinMinor = 5;

Status BadJobError(const std::string& what) {
  return Status(Code::kBadJob, Cat("workers.device is cuda, but ", what, "; set it to cpu"));
}

}  // namespace

Status CheckCuda(int error, const std::string& call) {
  if (error == cudaSuccess) return Ok();
  cudaGetLastError();
  return Status(Code::kPeerLost,
                Cat(call, ": ", cudaGetErrorString(static_cast<cudaError_t>(error))));
}

std::string CudaVersion() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "CUDA";
  return Cat("CUDA ", version / 1000, ".", version % 1000 / 10);
}

Status CheckDevice() {
  int device_count = 0;
  const Status count_status = CheckCuda(cudaGetDeviceCount(&device_count), "CUDA says");
  if (!count_status.ok()) return BadJobError(count_status.message());
  if (device_count == 0) return BadJobError("there is no GPU here");
  int major = 0, minor = 0;
  TERN_RETURN_IF_ERROR(
      CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
                "cudaDeviceGetAttribute"));
  TERN_RETURN_IF_ERROR(
      CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0),
                "cudaDeviceGetAttribute"));
  const std::string capability = Cat("the GPU has compute capability ", major, ".", minor);
  if (major < kMinMajor || (major == kMinMajor && minor < kMinMinor))
    return BadJobError(Cat(capability, ", expected at least ", kMinMajor, ".", kMinMinor));
  const int code_error = kernels::FindCodeForDevice();
  const Status code_status = CheckCuda(code_error, "cudaFuncGetAttributes");
  // The second is CUDA's word for functions that it could not load.
  if (code_error == cudaErrorNoKernelImageForDevice || code_error == cudaErrorInvalidDeviceFunction)
    return BadJobError(Cat(capability,
                           ", for which this program has no code (cmake --preset cuda "
                           "builds it for all kinds of GPUs)"));
  return code_status;
}

void FreeDevice::operator()(void* memory) const { cudaFree(memory); }

Result<DeviceMemory> AllocateDeviceUninitialized(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
  const Status malloc_status = CheckCuda(error, "cudaMalloc");
  if (error == cudaErrorMemoryAllocation) {
    return Status(Code::kBadJob, Cat("the GPU has less than ", HumanBytes(bytes),
                                     " of free memory (", malloc_status.message(),
                                     "); take a smaller batch per worker or a smaller net, or "
                                     "lower evaluation.batch"));
  }
  if (!malloc_status.ok()) return malloc_status;
  return DeviceMemory(memory);
}

Status ZeroDevice(void* memory, size_t bytes) {
  TERN_RETURN_IF_ERROR(CheckCuda(cudaMemset(memory, 0, bytes), "cudaMemset"));
  // cudaMemset may return before the memory is set, and other streams do not wait for it.
  return CheckCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

Result<DeviceMemory> AllocateDevice(size_t bytes) {
  auto memory = AllocateDeviceUninitialized(bytes);
  if (memory.ok()) TERN_RETURN_IF_ERROR(ZeroDevice(memory->get(), bytes));
  return memory;
}

Result<DeviceMemory> AllocateDevice(const void* host, size_t bytes) {
  auto memory = AllocateDeviceUninitialized(bytes);
  if (!memory.ok() || bytes == 0) return memory;
  TERN_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpy(memory->get(), host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy"));
  // cudaMemcpy may return before the bytes have arrived, and other streams do not wait for them.
  TERN_RETURN_IF_ERROR(CheckCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"));
  return memory;
}

PinnedRange::PinnedRange(const void* begin, size_t bytes) {
  void* address = const_cast<void*>(begin);
  if (bytes == 0) return;
  if (CheckCuda(cudaHostRegister(address, bytes, cudaHostRegisterDefault), "cudaHostRegister").ok())
    begin_ = address;
}

PinnedRange::~PinnedRange() {
  if (begin_ != nullptr) cudaHostUnregister(begin_);
}

Result<PinnedMemory> AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  const Status malloc_status = CheckCuda(error, "cudaMallocHost");
  if (error == cudaErrorMemoryAllocation) {
    return Status(Code::kBadJob,
                  Cat("this machine cannot page-lock ", HumanBytes(bytes),
                      " of memory for copies from the GPU (", malloc_status.message(),
                      "); give the worker more memory, or train a smaller net"));
  }
  if (!malloc_status.ok()) return malloc_status;
  return PinnedMemory(static_cast<uint8_t*>(memory), [](uint8_t* m) { cudaFreeHost(m); });
}

Result<PinnedPool::Slab> PinnedPool::Acquire() {
  {
    const MutexLock lock(mutex_);
    if (!free_slabs_.empty()) {
      Slab slab = std::move(free_slabs_.back());
      free_slabs_.pop_back();
      return slab;
    }
  }
  return AllocatePinned(slab_bytes_);
}

void PinnedPool::Release(Slab slab) {
  const MutexLock lock(mutex_);
  free_slabs_.push_back(std::move(slab));
}

Result<std::unique_ptr<Stream>> Stream::Make(Priority priority) {
  std::unique_ptr<Stream> stream(new Stream);
  // The range of priorities. Smaller numbers mean higher priority; 0 is the normal priority.
  int lowest_priority = 0, highest_priority = 0;
  TERN_RETURN_IF_ERROR(
      CheckCuda(cudaDeviceGetStreamPriorityRange(&lowest_priority, &highest_priority),
                "cudaDeviceGetStreamPriorityRange"));
  TERN_RETURN_IF_ERROR(
      CheckCuda(cudaStreamCreateWithPriority(&stream->stream_, cudaStreamNonBlocking,
                                             priority == Priority::kHigh ? highest_priority : 0),
                "cudaStreamCreateWithPriority"));
  return stream;
}

Stream::~Stream() {
  if (next_slot_ > 0) (void)Wait();  // Copies may still read the slots.
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status Stream::CopyIn(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return Ok();
  return CheckCuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
                   "cudaMemcpyAsync to the device");
}

Status Stream::CopyInNow(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return Ok();
  Slot& slot = slots_[next_slot_++ % kSlots];
  if (slot.copied == nullptr) {
    auto event = Event::Make();
    if (!event.ok()) return event.status();
    slot.copied = std::move(*event);
  }
  TERN_RETURN_IF_ERROR(slot.copied->Wait());
  if (slot.bytes < bytes) {
    const size_t slot_bytes = std::bit_ceil(std::max(bytes, size_t{4096}));
    auto memory = AllocatePinned(slot_bytes);
    if (!memory.ok()) {  // The system page-locks no more. The copy waits then, and is slower.
      TERN_RETURN_IF_ERROR(CopyIn(device, host, bytes));
      return Wait();
    }
    slot.memory = std::move(*memory);
    slot.bytes = slot_bytes;
  }
  std::memcpy(slot.memory.get(), host, bytes);
  TERN_RETURN_IF_ERROR(CopyIn(device, slot.memory.get(), bytes));
  return slot.copied->Record(*this);
}

Status Stream::CopyOut(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return Ok();
  return CheckCuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_),
                   "cudaMemcpyAsync from the device");
}

Status Stream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return Ok();
  return CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
                   "cudaMemcpyAsync on the device");
}

Status Stream::Zero(void* device, size_t bytes) {
  return CheckCuda(cudaMemsetAsync(device, 0, bytes, stream_), "cudaMemsetAsync");
}

Status Stream::Wait() { return CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

Status Stream::WaitFor(const Event& event) const {
  return CheckCuda(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

Result<std::unique_ptr<Event>> Event::Make() {
  std::unique_ptr<Event> event(new Event);
  TERN_RETURN_IF_ERROR(CheckCuda(cudaEventCreateWithFlags(&event->event_, cudaEventDisableTiming),
                                 "cudaEventCreateWithFlags"));
  return event;
}

Result<bool> Event::IsDone() {
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // CUDA keeps it as an error.
    return false;
  }
  TERN_RETURN_IF_ERROR(CheckCuda(error, "cudaEventQuery"));
  return true;
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status Event::Record(const Stream& stream) {
  return CheckCuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

Result<std::unique_ptr<Graph>> Graph::Capture(kernels::DeviceStream stream,
                                              const std::function<Status()>& launch) {
  TERN_RETURN_IF_ERROR(CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                 "cudaStreamBeginCapture"));
  const Status launch_status = launch();
  cudaGraph_t captured_graph = nullptr;
  const Status end_status =
      CheckCuda(cudaStreamEndCapture(stream, &captured_graph), "cudaStreamEndCapture");
  if (!launch_status.ok() || !end_status.ok()) {
    if (captured_graph != nullptr) cudaGraphDestroy(captured_graph);
    cudaGetLastError();  // A call may have left an error during the capture.
    return launch_status.ok() ? end_status : launch_status;
  }
  std::unique_ptr<Graph> graph(new Graph);
  Status instantiate_status = CheckCuda(
      cudaGraphGetNodes(captured_graph, nullptr, &graph->num_nodes_), "cudaGraphGetNodes");
  if (instantiate_status.ok())
    instantiate_status =
        CheckCuda(cudaGraphInstantiate(&graph->graph_, captured_graph, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(captured_graph);
  if (!instantiate_status.ok()) return instantiate_status;
  return graph;
}

Graph::~Graph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

Status Graph::Launch(kernels::DeviceStream stream) {
  return CheckCuda(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
}

Status Event::Wait() { return CheckCuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

}  // namespace tern::device

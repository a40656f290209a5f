// Wrappers of the CUDA runtime: memory, streams, events, graphs. A CUDA error becomes a Status with
// the name of the call. Included only by files that are compiled with CUDA, and by the files that
// replace these in a build without CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"

struct CUevent_st;
struct CUgraphExec_st;

namespace tern::device {

// Returns Ok if `error`, a cudaError_t, is 0; else kPeerLost with the name `call` and CUDA's
// message. In case of an error, also clears CUDA's last error, so that a library that reads the
// last error later does not report this one.
Status CheckCuda(int error, const std::string& call);
// Checks that this process has a GPU that Tern supports. kBadJob if it has none, too old a one, or
// one that this program was not built for.
Status CheckDevice();
// "CUDA 13.0": the version of the runtime library.
std::string CudaVersion();

// Frees device memory.
struct FreeDevice {
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
// Allocates device memory with unspecified contents. kBadJob if there is not enough.
Result<DeviceMemory> AllocateDeviceUninitialized(size_t bytes);
// Sets device memory to zero, and waits until that is done.
Status ZeroDevice(void* memory, size_t bytes);
// Allocates zeroed device memory.
Result<DeviceMemory> AllocateDevice(size_t bytes);
// Allocates device memory, and copies `bytes` bytes of host memory to it.
Result<DeviceMemory> AllocateDevice(const void* host, size_t bytes);

// Page-locks the caller's memory while this object lives, so that CUDA copies it to and from a
// device directly. If the system does not allow that, copies are slower but correct.
class PinnedRange {
 public:
  PinnedRange(const void* begin, size_t bytes);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  void* begin_ = nullptr;
};

// Page-locked host memory.
using PinnedMemory = std::shared_ptr<uint8_t>;
// kBadJob if the system does not page-lock so much, because another try, for which kPeerLost would
// ask, would end in the same way.
Result<PinnedMemory> AllocatePinned(size_t bytes);

// A pool of page-locked host buffers for copies from the device. Any thread may use it.
class PinnedPool {
 public:
  // A buffer of the size that was passed to the constructor.
  using Slab = PinnedMemory;
  explicit PinnedPool(size_t bytes) : slab_bytes_(bytes) {}
  // Takes a buffer from the pool, or allocates one if the pool is empty.
  Result<Slab> Acquire();
  // Returns a buffer to the pool.
  void Release(Slab slab);

 private:
  const size_t slab_bytes_;  // The size of each buffer.
  Mutex mutex_;
  std::vector<Slab> free_slabs_ TERN_GUARDED_BY(mutex_);
};

class Event;

// A CUDA stream. The functions that copy or set memory may return before the operation is done.
// CopyIn copies from the host to the device, CopyOut from the device to the host.
class Stream {
 public:
  // Waiting thread blocks of a kHigh stream are scheduled before those of a kNormal one.
  enum class Priority { kNormal, kHigh };
  static Result<std::unique_ptr<Stream>> Make(Priority priority = Priority::kNormal);
  ~Stream();
  kernels::DeviceStream get() const { return stream_; }
  // `host` must not change until the copy is done.
  Status CopyIn(void* device, const void* host, size_t bytes);
  // The same, but `host` may change or be freed as soon as this returns. Copies it to page-locked
  // memory first; waits if kSlots such copies are not done yet, or, if the system page-locks no
  // memory, for the copy itself. One thread at a time may call it.
  Status CopyInNow(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  // Copies from device memory to device memory.
  Status CopyOnDevice(void* to, const void* from, size_t bytes);
  Status Zero(void* device, size_t bytes);
  Status Wait();  // Waits until all operations launched on this stream are done.
  // Makes operations that are launched later on this stream wait until the operations that the
  // event's last Record marked are done.
  Status WaitFor(const Event& event) const;

 private:
  static constexpr size_t kSlots = 32;
  // Page-locked memory for one copy at a time.
  struct Slot {
    PinnedMemory memory;
    size_t bytes = 0;
    std::unique_ptr<Event> copied;
  };
  Stream() = default;
  kernels::DeviceStream stream_ = nullptr;
  std::array<Slot, kSlots> slots_;  // Used in turn.
  size_t next_slot_ = 0;
};

// A CUDA event: marks a point in a stream.
class Event {
 public:
  static Result<std::unique_ptr<Event>> Make();
  ~Event();
  // Marks the current end of the stream: all operations launched on it so far.
  Status Record(const Stream& stream);
  Status Wait();          // Waits until the operations that the last Record marked are done.
  Result<bool> IsDone();  // Whether these operations are done, or have failed.
  CUevent_st* get() const { return event_; }

 private:
  Event() = default;
  CUevent_st* event_ = nullptr;
};

// A CUDA graph: a captured sequence of launches that one call replays, with the same kernels and
// the same addresses.
class Graph {
 public:
  // Captures the launches that `launch` makes on the stream, without running them. Returns the
  // error of `launch`, or CUDA's.
  static Result<std::unique_ptr<Graph>> Capture(kernels::DeviceStream stream,
                                                const std::function<Status()>& launch);
  ~Graph();
  Status Launch(kernels::DeviceStream stream);     // Replays the captured launches on the stream.
  size_t num_nodes() const { return num_nodes_; }  // How many launches, copies and the like it has.

 private:
  Graph() = default;
  CUgraphExec_st* graph_ = nullptr;
  size_t num_nodes_ = 0;
};

}  // namespace tern::device

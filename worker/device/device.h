// A GPU: memory, streams, events, graphs. Every CUDA error becomes a Status with the call's name.
// For files that need CUDA only.
#pragma once

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

// kPeerLost, "CALL: CUDA's message", unless `error` is 0. Also clears CUDA's last error, because a
// library that reads it later would blame an innocent call.
Status Check(int error, const std::string& call);
// Checks that this process has a GPU that Tern is built for; kBadJob otherwise.
Status FindDevice();

struct FreeDevice {
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
// Zeroed memory. kBadJob if there is not enough.
Result<DeviceMemory> AllocateDevice(size_t bytes);

// Page-locks the caller's memory while this object lives, so that copies to and from a device need
// no staging. If the system does not allow it, copies are only slower.
class PinnedRange {
 public:
  PinnedRange(const void* begin, size_t bytes);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  void* begin_ = nullptr;
};

// A pool of page-locked buffers for copies from the device. Any thread.
class PinnedPool {
 public:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  using Slab = std::shared_ptr<uint8_t>;
  explicit PinnedPool(size_t bytes) : bytes_(bytes) {}
  Result<Slab> Acquire();
  void Release(Slab slab);

 private:
  const size_t bytes_;  // bytes per slab
  Mutex mutex_;
  std::vector<Slab> free_ TERN_GUARDED_BY(mutex_);
};

class Event;

class Stream {
 public:
  // Waiting thread blocks of a kHigh stream are scheduled before those of a kNormal one.
  enum class Priority { kNormal, kHigh };
  static Result<std::unique_ptr<Stream>> Make(Priority priority = Priority::kNormal);
  ~Stream();
  kernels::DeviceStream get() const { return stream_; }
  Status CopyIn(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  Status CopyOver(void* to, const void* from, size_t bytes);  // both on the device
  Status Zero(void* device, size_t bytes);
  Status Wait();  // until all work launched on it is done
  // Makes later work of this stream wait until the work before the event's Record is done.
  Status WaitFor(const Event& event) const;

 private:
  Stream() = default;
  kernels::DeviceStream stream_ = nullptr;
};

class Event {
 public:
  static Result<std::unique_ptr<Event>> Make();
  ~Event();
  Status Record(const Stream& stream);  // marks the work launched on the stream so far
  Status Wait();
  CUevent_st* get() const { return event_; }

 private:
  Event() = default;
  CUevent_st* event_ = nullptr;
};

// A captured sequence of launches that is replayed as one: the same kernels on the same addresses.
class Graph {
 public:
  // Captures the launches that `launch` makes on the stream, without running them. Returns the
  // error of `launch`, or CUDA's.
  static Result<std::unique_ptr<Graph>> Capture(const Stream& stream,
                                                const std::function<Status()>& launch);
  ~Graph();
  Status Launch(const Stream& stream);

 private:
  Graph() = default;
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace tern::device

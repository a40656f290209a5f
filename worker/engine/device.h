// A GPU as the engine sees it: memory, a stream, events. Every status of CUDA is checked and
// becomes a Status with the call's name. Internal to the engine's *_cuda.cc files.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/device.h"

struct CUevent_st;
struct CUgraphExec_st;

namespace tern::engine::cuda {

// kPeerLost, "CALL: what CUDA says", unless `error` is 0; CUDA's own note of it is taken away, as a
// library that reads it later would blame an innocent call.
Status Check(int error, const std::string& call);
// The GPU of this process is there and of a kind that Tern is built for; kBadJob otherwise.
Status FindDevice();

struct FreeDevice {
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
// Zeros. kBadJob where there is not so much.
Result<DeviceMemory> AllocateDevice(size_t bytes);

// Memory of the caller's that copies go from and to without a stop on the way, while this lives.
// Where the system does not allow it, copies are slower and that is all.
class PinnedRange {
 public:
  PinnedRange(const void* begin, size_t bytes);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  void* begin_ = nullptr;
};

// Pieces of memory that copies from the device go to at full speed, given out again and again.
// Any thread.
class PinnedPool {
 public:
  struct Free {
    void operator()(uint8_t* memory) const;
  };
  using Slab = std::shared_ptr<uint8_t>;
  explicit PinnedPool(size_t bytes) : bytes_(bytes) {}
  Result<Slab> Take();
  void Put(Slab slab);

 private:
  const size_t bytes_;  // of a slab
  std::mutex mutex_;
  std::vector<Slab> free_;
};

class Event;

class Stream {
 public:
  // Blocks of kernels of a first stream are the next to run where some end, before those that wait
  // on a usual one.
  enum class Priority { kUsual, kFirst };
  static Result<std::unique_ptr<Stream>> Make(Priority priority = Priority::kUsual);
  ~Stream();
  kernels::DeviceStream get() const { return stream_; }
  Status CopyIn(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  Status CopyOver(void* to, const void* from, size_t bytes);  // both on the device
  Status Zero(void* device, size_t bytes);
  Status Wait();  // until all that was given to it is done
  // What it is given from now on comes after what the event was recorded after.
  Status WaitFor(const Event& event) const;

 private:
  Stream() = default;
  kernels::DeviceStream stream_ = nullptr;
};

class Event {
 public:
  static Result<std::unique_ptr<Event>> Make();
  ~Event();
  Status Record(const Stream& stream);  // after what was given to the stream so far
  Status Wait();
  CUevent_st* get() const { return event_; }

 private:
  Event() = default;
  CUevent_st* event_ = nullptr;
};

// Launches that were given to a stream once and go to it together from then on: the same kernels on
// the same places.
class Graph {
 public:
  // What `launch` gives to the stream is taken down, and does not run. Its error, or CUDA's.
  static Result<std::unique_ptr<Graph>> Capture(const Stream& stream,
                                                const std::function<Status()>& launch);
  ~Graph();
  Status Launch(const Stream& stream);

 private:
  Graph() = default;
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace tern::engine::cuda

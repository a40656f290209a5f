// The streams of the simulated GPU. Nothing runs when it is given to a stream: a host thread that
// waits for a stream, an event or the device runs the streams' work, until what it waits for is
// done. Among the streams whose next work may run, a seed chooses, so that a program that leaves
// out a wait gets other results, or ends with a message. The environment variable
// TERN_CUDA_ON_HOST_SEED sets the seed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace cuda_on_host {

// Ends the process with a message about an error of the tested program.
[[noreturn]] void Fail(const std::string& fault);

// Something that a stream does at once.
struct Work {
  std::function<void()> run = nullptr;
  bool is_kernel = false;
  // Host memory that it reads when it runs, and that must neither change nor be freed before.
  std::span<const std::byte> source = {};
  // Host memory that it writes when it runs, and that must not be freed before.
  std::span<std::byte> target = {};
};
using WorkList = std::vector<std::shared_ptr<const Work>>;

// What a stream records while a graph is captured.
struct Capture {
  WorkList work;
  bool is_void = false;  // Whether a call that is not allowed has ended it.
};

// A point in a stream, which can be marked again and again. The event's n-th mark is reached when
// num_reached is at least n.
struct Event {
  uint64_t num_marked = 0, num_reached = 0;
  std::chrono::steady_clock::time_point reached_at;  // when a mark was reached last
};

class Stream {
 public:
  Capture* capture = nullptr;  // Null if the stream does not capture.

 private:
  friend class Device;
  // Work, or a mark of an event, or a wait for a mark.
  struct Task {
    std::shared_ptr<const Work> work = nullptr;  // Null for a mark and a wait.
    uint64_t source_sum = 0;  // The checksum of work->source when the work was given.
    std::shared_ptr<Event> event = nullptr;
    uint64_t mark = 0;
    bool waits = false;
  };
  bool IsReady() const {
    return !tasks_.empty() &&
           (!tasks_.front().waits || tasks_.front().event->num_reached >= tasks_.front().mark);
  }
  std::deque<Task> tasks_;
  uint64_t num_given_ = 0, num_done_ = 0;
};

// All streams of the process. Any thread may use it.
class Device {
 public:
  static Device& Get();

  // Begins the sequence of choices of a seed.
  void SetSeed(uint64_t seed);
  uint64_t seed() const { return seed_; }
  // The random numbers of the work that runs.
  std::mt19937_64& random() { return random_; }

  // A stream may be dropped before its work is done.
  std::shared_ptr<Stream> NewStream();
  // The stream that CUDA calls the legacy stream. Others do not wait for it.
  Stream& legacy() { return *legacy_; }

  // Give appends work. Mark and WaitFor append a mark of an event, and a wait for its last mark.
  void Give(Stream& stream, const WorkList& work);
  void Mark(Stream& stream, const std::shared_ptr<Event>& event);
  void WaitFor(Stream& stream, const std::shared_ptr<Event>& event);

  // Run work until all that the stream was given is done, the last mark of the event is reached, or
  // nothing is left.
  void Finish(Stream& stream);
  void Finish(Event& event);
  void FinishAll();
  // Whether the last mark of the event is reached. Runs nothing.
  bool IsReached(const Event& event);

  // Page-locked host memory. Lock returns false if some of the memory is page-locked. Unlock fails
  // if work that has not run would use the memory.
  bool Lock(const void* begin, size_t bytes);
  void Unlock(const void* begin);
  bool IsLocked(const void* begin, size_t bytes);

 private:
  Device();
  void RunUntil(const std::function<bool()>& is_done);
  // Runs the next task of a stream. False if no stream has one that may run.
  bool RunNext();
  static void Run(const Stream::Task& task);
  void Append(Stream& stream, Stream::Task task);
  // Whether a stream has work that has not run and for which the condition holds.
  bool AnyWork(const std::function<bool(const Work&)>& condition) const;
  void FillTarget(std::span<std::byte> target);

  std::mutex mutex_;
  uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::shared_ptr<Stream> legacy_, favorite_;
  std::map<const std::byte*, size_t> locked_;  // The sizes of page-locked ranges.
};

}  // namespace cuda_on_host

// Records what the threads of this process do and when, as a file in Chrome's trace-event format
// (JSON), which ui.perfetto.dev and chrome://tracing show (docs/WATCHING.md has the names).
// Recording is off unless ArmTrace was called; a span then costs a load and a branch. Times are
// those of Now(), which Linux reads from one clock for all processes of a machine.
//
// Only threads with a TraceThread are recorded, each into a buffer of fixed size of its own; events
// beyond that are counted and dropped. Any thread may call the functions below, except where they
// say otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern {

// So many steps pass before the first step that is recorded, if the job has enough steps.
inline constexpr uint64_t kTraceWarmUpSteps = 10;

// The most steps that can be recorded.
inline constexpr uint32_t kMaxTraceSteps = 1000;

// What an event is about. 0 and -1 stand for nothing. A round is an exchange with the servers.
struct TraceArgs {
  uint64_t step = 0, round = 0;
  int32_t bucket = -1, chunk = -1, rank = -1;
};

struct TraceOptions {
  uint64_t steps = 0;   // how many steps to record; 0: nothing is recorded
  std::string path;     // the file to write
  std::string process;  // the name of the process in the trace: "worker 1"
  uint32_t id = 0;      // the number of the process in the trace, different for each of a job
  // How many events of a thread are kept.
  size_t max_events = size_t{1} << 17;
};
// Prepares this process for recording, and forgets what was recorded before. REQUIRES that no
// thread has a TraceThread.
void ArmTrace(TraceOptions options);
// TraceOptions::steps; 0 without ArmTrace.
uint64_t TraceSteps();
// Begins or stops recording in all threads. Does nothing without ArmTrace. What has begun while
// recording was on is recorded when it ends, even if recording is off then.
void SetTracing(bool is_on);
// Writes the file, if ArmTrace was called. kCannotWrite if that fails. REQUIRES that all threads
// with a TraceThread have ended.
Status WriteTrace();

namespace trace_internal {
class Track;
inline std::atomic<bool> is_on{false};
// Of the thread that reads them. track: null if it is not recorded.
inline constinit thread_local Track* track = nullptr;
inline constinit thread_local bool is_paused = false;

inline Track* RecordingTrack() {
  if (!is_on.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  return is_paused ? nullptr : track;
}
enum class Shape : uint8_t { kSpan, kFlight };
void Record(Track* track, Shape shape, const char* name, Time begin, const TraceArgs& args);
}  // namespace trace_internal

// While it exists, the thread that made it is recorded under `name`, if the process is.
class TraceThread {
 public:
  explicit TraceThread(const std::string& name);
  ~TraceThread();
  TraceThread(const TraceThread&) = delete;
  TraceThread& operator=(const TraceThread&) = delete;
};

// Switches recording of the calling thread off and on again, besides SetTracing.
inline void PauseTraceOfThread(bool is_paused) { trace_internal::is_paused = is_paused; }

// A scope guard: records what the thread does from its construction to its destruction. `name` is a
// string literal, here and below.
class TraceSpan {
 public:
  explicit TraceSpan(const char* name, const TraceArgs& args = {})
      : track_(trace_internal::RecordingTrack()) {
    if (track_ == nullptr) [[likely]]
      return;
    name_ = name;
    args_ = args;
    begin_ = Now();
  }
  ~TraceSpan() {
    if (track_ != nullptr) [[unlikely]]
      trace_internal::Record(track_, trace_internal::Shape::kSpan, name_, begin_, args_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  trace_internal::Track* const track_;
  const char* name_;
  TraceArgs args_;
  Time begin_;
};

// For spans whose name, or whether they count, is known at their end only. TraceBegin returns the
// time, or 0 while the process is not recorded; RecordSpan records what lasted from then to now,
// unless `begin` is 0 or the thread is paused.
inline Time TraceBegin() {
  return trace_internal::is_on.load(std::memory_order_relaxed) ? Now() : Time{};
}
inline void RecordSpan(const char* name, Time begin, const TraceArgs& args) {
  trace_internal::Track* const track =
      trace_internal::is_paused || begin == Time{} ? nullptr : trace_internal::track;
  if (track != nullptr)
    trace_internal::Record(track, trace_internal::Shape::kSpan, name, begin, args);
}
// Records what lasted from `begin` (from TraceBegin) to now beside what the thread did: a message
// and its answer, for instance. Many may overlap.
inline void RecordFlight(const char* name, Time begin, const TraceArgs& args) {
  if (trace_internal::track != nullptr && begin != Time{})
    trace_internal::Record(trace_internal::track, trace_internal::Shape::kFlight, name, begin,
                           args);
}
}  // namespace tern

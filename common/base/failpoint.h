// Failpoints: named places of a daemon at which it can be made to fail on purpose, for tests and
// drills. docs/FAULTS.md describes the flag --fail that switches them on (failpoint_flag.h). They
// are always compiled in; a place where none is on costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace tern {

enum class FailPlace : uint32_t {
  kDiskWrite,      // Storage::Write of the system's disk
  kDiskRename,     // Storage::Rename of the system's disk
  kNetSend,        // a message on its way to a socket
  kNetReceive,     // the frames of a message that a socket has received, before they are checked
  kThreadPlan,     // a worker's compute thread, before it plans its network
  kThreadCompute,  // a worker's compute thread, before a step
  kThreadWait,     // a worker's compute thread, with an event in hand for which it has waited
  kThreadCoder,    // a worker's coder thread, with work in hand
  kThreadNet,      // a worker's net thread, once a turn
  kThreadLane,     // a server's lane threads, once a turn
  kThreadControl,  // a server's control thread, once a turn
  kClock,          // LoopClock::Now
};

enum class FailAction : uint32_t {
  kFull,   // fails as if the disk were full
  kTorn,   // writes half of the bytes and reports success
  kDrop,   // loses a message
  kFlip,   // flips one bit of a message
  kCut,    // closes all TCP connections of the process
  kStep,   // moves the clock by amount_ns
  kDelay,  // sleeps for amount_ns
  kHang,   // sleeps for amount_ns, or for ever if that is 0
  kDie,    // kills the process with SIGKILL
  kAbort,  // ends the process with SIGABRT
};

// What the caller of HitFailpoint has to do.
struct FiredFailpoint {
  FailAction action;
  int64_t amount_ns;
  uint64_t random;  // a function of the failpoint and the number of the hit
};

namespace failpoint_internal {
// Bit p is set if a failpoint is on at the place with number p.
inline std::atomic<uint32_t> armed_places{0};
inline std::atomic<uint64_t> job_step{0};
std::optional<FiredFailpoint> Fire(FailPlace place);
}  // namespace failpoint_internal

// Call at a place. Carries out kDelay, kHang, kDie and kAbort itself, and returns any other action
// that is due. Any thread may call it.
inline std::optional<FiredFailpoint> HitFailpoint(FailPlace place) {
  const uint32_t armed_places = failpoint_internal::armed_places.load(std::memory_order_relaxed);
  if ((armed_places >> static_cast<uint32_t>(place) & 1) == 0) [[likely]]
    return std::nullopt;
  return failpoint_internal::Fire(place);
}

// A worker says at which step of the job it is, for failpoints that wait for a step.
inline void SetFailpointStep(uint64_t job_step) {
  failpoint_internal::job_step.store(job_step, std::memory_order_relaxed);
}

}  // namespace tern

// Monotonic time: it never jumps when the date is changed. Values of two processes are not
// comparable.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/failpoint.h"

namespace tern {

using Time = std::chrono::nanoseconds;

// The time since a fixed moment in the past.
inline Time Now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

// The clock of an event loop that detects silent peers. It hardly advances while the loop itself is
// held up (SIGSTOP, a suspended machine, no free core), because messages that arrived in that time
// are still unread. Belongs to one thread.
class LoopClock {
 public:
  // `max_advance`: the longest time between two calls of Now() while the loop is not held up. One
  // call of Now() advances this clock by at most that much.
  explicit LoopClock(Time max_advance) : max_advance_(max_advance), last_call_(tern::Now()) {}

  Time Now() {
    if (const auto failpoint = HitFailpoint(FailPlace::kClock)) step_ += Time(failpoint->amount_ns);
    const Time now = tern::Now() + step_;
    now_ += std::clamp(now - last_call_, Time{}, max_advance_);
    last_call_ = now;
    return now_;
  }

 private:
  const Time max_advance_;
  Time last_call_;         // The system's monotonic time plus step_ at the last call of Now().
  Time now_ = last_call_;  // The time that this clock shows.
  Time step_{};            // By how much failpoints have moved the system's time.
};

inline double Seconds(Time t) { return std::chrono::duration<double>(t).count(); }

}  // namespace tern

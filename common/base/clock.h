// Monotonic time. It never jumps and means nothing outside this process.
#pragma once

#include <algorithm>
#include <chrono>

namespace tern {

using Time = std::chrono::nanoseconds;

// Time since some fixed moment before this process asked first.
inline Time Now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

// The clock of a loop that judges others by their silence: it stands still while the loop itself
// was stopped (SIGSTOP, a machine that slept or had no core to spare), because what others said
// then still waits to be read. One thread.
class LoopClock {
 public:
  // The loop asks at least so often, unless it is held up.
  explicit LoopClock(Time longest) : longest_(longest), asked_at_(tern::Now()) {}

  Time Now() {
    const Time now = tern::Now();
    now_ += std::min(now - asked_at_, longest_);
    asked_at_ = now;
    return now_;
  }

 private:
  const Time longest_;
  Time asked_at_;
  Time now_ = asked_at_;
};

inline double Seconds(Time t) { return std::chrono::duration<double>(t).count(); }

}  // namespace tern

// Monotonic time. It never jumps; its values have no meaning outside this process.
#pragma once

#include <algorithm>
#include <chrono>

namespace tern {

using Time = std::chrono::nanoseconds;

// Time since a fixed moment before the process's first call.
inline Time Now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

// The clock of a loop that judges its peers by their silence. It stands still while the loop itself
// was stopped (SIGSTOP, a machine that slept or had no free core), because messages that arrived
// then are still unread. One thread.
class LoopClock {
 public:
  // `longest`: the longest time between two calls of Now() while the loop is not held up.
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

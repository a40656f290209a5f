// Monotonic time. It never jumps. Its values are not comparable between processes.
#pragma once

#include <algorithm>
#include <chrono>

namespace tern {

using Time = std::chrono::nanoseconds;

// The time since a fixed moment in the past.
inline Time Now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

// The clock of an event loop that detects silent peers. It does not advance while the loop itself
// is held up (SIGSTOP, a suspended machine, no free core), because messages that arrived in that
// time are still unread. Belongs to one thread.
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

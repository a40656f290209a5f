// Monotonic time. It never jumps and means nothing outside this process.
#pragma once

#include <chrono>

namespace tern {

using Time = std::chrono::nanoseconds;

// Time since some fixed moment before this process asked first.
inline Time Now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

inline double Seconds(Time t) { return std::chrono::duration<double>(t).count(); }

}  // namespace tern

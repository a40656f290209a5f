// Notices that a thread hangs, from a counter that the thread increments whenever it advances.
// Another thread, which must not hang with it, watches the counter. Belongs to that other thread.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace tern {

class HangWatch {
 public:
  // Call regularly with the counter's present value. `is_waiting`: the watched thread waits for
  // somebody else, which is no hang. Returns how long the thread has stood still without waiting.
  Time Observe(uint64_t progress, bool is_waiting, Time now) {
    if (progress != progress_ || is_waiting || !has_observed_) {
      has_observed_ = true;
      progress_ = progress;
      advanced_at_ = now;
      logged_after_ = Time{};
    }
    return now - advanced_at_;
  }
  // Whether it is time to log that the thread stands still: once it has for `timeout`, and again
  // each time that this has doubled. Call after Observe().
  bool MustLog(Time timeout, Time now) {
    const Time stands_still = now - advanced_at_;
    if (stands_still <= timeout || stands_still < 2 * logged_after_) return false;
    logged_after_ = stands_still;
    return true;
  }

 private:
  bool has_observed_ = false;
  uint64_t progress_ = 0;
  Time advanced_at_{};
  Time logged_after_{};  // how long the thread had stood still when that was last logged
};

}  // namespace tern

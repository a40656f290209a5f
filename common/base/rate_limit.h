// Limits how often something is done for whoever asks for it: log lines about strangers, answers to
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace tern {

// Allows `burst` events at once, and in the long run one per `interval`. Belongs to one thread.
class RateLimiter {
 public:
  // REQUIRES burst >= 1, interval > 0.
  constexpr RateLimiter(int burst, Time interval)
      : burst_allowance_((burst - 1) * interval), interval_(interval) {}

  // Whether an event may happen now. If not, it is counted as held back. `now` does not decrease
  // from call to call; it may be of any clock.
  bool Allow(Time now) {
    if (now < next_ - burst_allowance_) {
      ++num_held_back_;
      return false;
    }
    next_ = std::max(next_, now) + interval_;
    return true;
  }

  // Whether `burst` events may happen at once from now on, as if there had been none so far.
  bool IsUnused(Time now) const { return next_ <= now; }

  // How many events were held back since the last call of TakeHeldBack.
  uint64_t TakeHeldBack() {
    const uint64_t num_held_back = num_held_back_;
    num_held_back_ = 0;
    return num_held_back;
  }

  // The same as the end of a log line: " (and 12 more before)", or nothing if none was held back.
  std::string TakeAndMore() {
    const uint64_t num_held_back = TakeHeldBack();
    return num_held_back == 0 ? "" : " (and " + std::to_string(num_held_back) + " more before)";
  }

 private:
  const Time burst_allowance_;
  const Time interval_;
  Time next_{};  // When the next event is due if events come at intervals.
  uint64_t num_held_back_ = 0;
};

}  // namespace tern

// Limits how often lines of one kind go to a log, so that a peer that sends nonsense cannot fill
// the disk.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace tern {

// Lets one line pass each `interval`. Not thread-safe.
class LogLimit {
 public:
  explicit LogLimit(Time interval = std::chrono::seconds(1)) : interval_(interval) {}

  // Returns the line to log: `text`, with the number of lines that were left out before it. Returns
  // an empty string if this line is left out, too.
  std::string Line(std::string text, Time now);

 private:
  const Time interval_;
  bool has_logged_ = false;
  Time logged_at_{};
  uint64_t num_left_out_ = 0;  // since the last line
};

}  // namespace tern

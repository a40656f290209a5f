// A histogram of the time from round to round, for a server's metrics.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/counters.h"

namespace tern::server {

// Belongs to one thread, that of a data lane.
class RoundTimes {
 public:
  // `registry` outlives this object. The histogram appears with the second round.
  explicit RoundTimes(Registry& registry) : registry_(registry) {}

  // Call after each batch of messages. `floor`: the newest round that every worker has applied. If
  // several rounds passed since the last call, each counts with their mean time. If the floor falls
  // or jumps, because the job went back or this server was restarted, the next round counts.
  void Update(uint64_t floor, Time now);

 private:
  Registry& registry_;
  Histogram* histogram_ = nullptr;
  uint64_t floor_ = 0;  // at the last call that changed it; 0: no round yet
  Time at_{};           // when it changed
};

}  // namespace tern::server

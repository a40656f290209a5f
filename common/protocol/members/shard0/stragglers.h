// Finds workers whose steps take longer than the others', from the counters in their heartbeats.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::protocol {

class Stragglers {
 public:
  explicit Stragglers(uint32_t workers) : workers_(workers) {}

  // Returns what has changed, as a continuation of the worker's name: " is slow: 31 ms a step, the
  // others 10 ms", or nothing. A step is measured over the worker's last five steps or more. A
  // worker becomes slow above 1.5 times the median of the others, and stops being slow below 1.3
  // times.
  std::string OnCounters(uint32_t rank, const pb::Counters& counters);
  // Another process has taken this rank.
  void Forget(uint32_t rank) { workers_[rank] = Worker{}; }

 private:
  struct Sample {
    uint64_t steps = 0;
    double compute_s = 0;
  };
  struct Worker {
    std::deque<Sample> samples;  // the newest, and back to five steps or more before it
    double step_s = 0;           // 0: not known yet
    double told_s = 0;           // at the last report that it is slow; 0: it is not slow
  };
  double MedianOfOthers(uint32_t rank) const;

  std::vector<Worker> workers_;
};

}  // namespace tern::protocol

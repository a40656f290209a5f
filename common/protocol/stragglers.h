// Finds workers whose steps take longer than the others' from the counters of their heartbeats.
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

  // What has changed, to be said after the worker's name: " is slow: 31 ms a step, the others 10
  // ms", or nothing. A step is measured over the worker's last five or more; slow is one that takes
  // more than 1.5 times the median of the others, until it takes less than 1.3 times.
  std::string OnCounters(uint32_t rank, const pb::Counters& counters);
  // Another process has this rank.
  void Forget(uint32_t rank) { workers_[rank] = Worker{}; }

 private:
  struct Sample {
    uint64_t steps = 0;
    double compute_s = 0;
  };
  struct Worker {
    std::deque<Sample> samples;  // the newest, and back to five steps or more before it
    double step_s = 0;           // 0: not known yet
    double told_s = 0;           // when it was last called slow; 0: it is not
  };
  double MedianOfOthers(uint32_t rank) const;

  std::vector<Worker> workers_;
};

}  // namespace tern::protocol

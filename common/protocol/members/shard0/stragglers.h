// Finds workers whose steps take longer than the other workers', from the counters in their
// heartbeats.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

class Stragglers {
 public:
  explicit Stragglers(uint32_t workers) : workers_(workers) {}

  // Takes the counters of a worker's heartbeat. If the worker has become slow, is not slow any
  // more, or is slow and its step time has changed much, returns what to log after the worker's
  // name, for example " is slow: 31 ms a step, the others 10 ms"; else returns an empty string. The
  // time of a step is the mean over the worker's last five or more steps, of at least two seconds;
  // the first three seconds after a process is first heard are left out, because caches fill and
  // other processes start. A worker becomes slow
  // above 1.5 times the median of the others, and stops being slow below 1.3 times that median. A
  // process is logged at most once a minute, with what is true then.
  std::string OnCounters(uint32_t rank, const pb::Counters& counters, Time now);
  // Call when another process has taken this rank: forgets the times of the previous process.
  void Forget(uint32_t rank) { workers_[rank] = Worker{}; }

 private:
  struct Sample {
    uint64_t steps = 0;    // how many steps the process has made so far
    double compute_s = 0;  // the seconds that it has computed in those steps
    Time at{};             // when it was heard
  };
  struct Worker {
    std::optional<Time> first_heard_at;  // when the process first reported a step
    // Oldest first; they span the last five or more steps and two or more seconds.
    std::deque<Sample> samples;
    double step_s = 0;         // mean seconds of a step; 0: not known yet
    double logged_step_s = 0;  // step_s when the worker was last logged as slow; 0: it is not slow
    std::optional<Time> logged_at;  // when the worker was last logged
  };
  double MedianOfOthers(uint32_t rank) const;

  std::vector<Worker> workers_;
};

}  // namespace tern::protocol

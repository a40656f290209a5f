// Ends a process whose main loop hangs. Each daemon has a thread whose loop watches all its other
// threads (hang_watch.h); this watches that thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/hang_watch.h"
#include "common/base/mutex.h"
#include "common/base/threads.h"

namespace tern {

// Has a thread of its own. If the watched thread makes no turn for `timeout`, logs its stack. If it
// makes none for another `timeout`, ends the process with kPeerLost, so that another process can
// take its place. If the log hangs, too, SIGALRM ends the process. Time during which the whole
// process stands still (SIGSTOP, a suspended machine) does not count.
class LoopWatchdog {
 public:
  // Watches the calling thread, until the destructor. `name`: of the thread, for the log.
  LoopWatchdog(std::string name, Time timeout);
  ~LoopWatchdog();
  LoopWatchdog(const LoopWatchdog&) = delete;
  LoopWatchdog& operator=(const LoopWatchdog&) = delete;

  // Call once a turn of the loop.
  void OnTurn() { num_turns_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void Run();
  // Returns false when the destructor has begun.
  bool SleepFor(Time interval);
  void Check();

  const std::string name_;
  const Time timeout_;
  const Time interval_;  // between two checks
  const pthread_t watched_thread_ = pthread_self();
  std::atomic<uint64_t> num_turns_{0};
  // Used on the watchdog's thread only.
  HangWatch watch_;
  Time now_{};  // its clock: the sum of the intervals between its checks
  Mutex mutex_;
  Condition stopped_;
  bool must_stop_ TERN_GUARDED_BY(mutex_) = false;
  Thread thread_;  // The last member, because the thread uses all others.
};

}  // namespace tern

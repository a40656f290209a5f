// SIGTERM and SIGINT as an event to poll for.
#pragma once

#include <signal.h>

#include <atomic>

#include "common/base/event_fd.h"
#include "common/base/status.h"
#include "common/base/threads.h"

namespace tern {

// Construct first in main, at most one at a time: it blocks both signals in the calling thread, and
// threads started later inherit that. A thread of its own takes the signals, so the second signal
// works even while everything else hangs.
class StopSignals {
 public:
  enum class Second {
    kExit,    // the second signal ends the process at once, with 128 + its number
    kReport,  // further signals are reported by Take, too
  };
  explicit StopSignals(Second second = Second::kExit);
  ~StopSignals();  // restores the calling thread's signal mask
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable while Take() has a signal; poll it, never read it. -1: out of file descriptors.
  int fd() const { return event_.fd(); }
  // The next signal not taken yet; 0 if there is none.
  int Take();
  // The first signal ever, 0 before it.
  int signal() const { return first_; }
  // The status of an orderly end after signal(): kTerminated or kInterrupted; ok before it.
  Status status() const;

  // Unblocks both signals: for a child between fork and exec, which inherits the mask.
  // Async-signal-safe.
  static void Unblock();

 private:
  void Run();

  const Second second_;
  EventFd event_;
  sigset_t old_mask_;
  std::atomic<bool> quit_{false};
  std::atomic<int> first_{0};
  std::atomic<int> pending_term_{0}, pending_int_{0};
  Thread thread_;
};

}  // namespace tern

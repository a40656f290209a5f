// SIGTERM, SIGINT and SIGHUP as an event to poll for.
#pragma once

#include <signal.h>

#include <atomic>

#include "common/base/event_fd.h"
#include "common/base/status.h"
#include "common/base/threads.h"

namespace tern {

// Construct first in main, at most one at a time: it blocks the signals in the calling thread, and
// threads started later inherit that. A thread of its own takes the signals, so the second signal
// works even while everything else hangs. SIGHUP counts as SIGTERM; a process that was started to
// ignore it (nohup) keeps ignoring it.
class StopSignals {
 public:
  enum class Second {
    kExit,    // a second signal ends the process at once, with 128 + its number. One of the parent
              // process and one of somebody else are the same request: who stops all processes of
              // a job stops its supervisor, too, which passes it on
    kReport,  // further signals are reported by Take, too
  };
  explicit StopSignals(Second second = Second::kExit);
  ~StopSignals();  // restores the calling thread's signal mask
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable while Take() has a signal; poll it, never read it. -1: out of file descriptors.
  int fd() const { return event_.fd(); }
  // The next signal not taken yet, SIGTERM or SIGINT; 0 if there is none.
  int Take();
  // The first signal ever, SIGTERM or SIGINT; 0 before it.
  int signal() const { return first_; }
  // The status of an orderly end after signal(): kTerminated or kInterrupted; ok before it.
  Status status() const;

  // Unblocks the signals: for a child between fork and exec, which inherits the mask.
  // Async-signal-safe.
  static void Unblock();

 private:
  void Run();

  const Second second_;
  const bool takes_hangup_;
  EventFd event_;
  sigset_t old_mask_;
  std::atomic<bool> quit_{false};
  std::atomic<int> first_{0};
  std::atomic<bool> hung_up_{false};  // the first one was SIGHUP
  bool from_parent_ = false, from_others_ = false;
  std::atomic<int> pending_term_{0}, pending_int_{0};
  Thread thread_;
};

}  // namespace tern

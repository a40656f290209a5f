// Delivers SIGTERM, SIGINT and SIGHUP as an event for poll().
#pragma once

#include <signal.h>

#include <atomic>

#include "common/base/event_fd.h"
#include "common/base/status.h"
#include "common/base/threads.h"

namespace tern {

// Construct it first in main, at most one at a time: it blocks the signals in the calling thread,
// and threads started later inherit that. Its own thread receives the signals, so the second signal
// works even if all other threads hang. SIGHUP counts as SIGTERM; a process that was started with
// SIGHUP ignored (nohup) keeps ignoring it.
class StopSignals {
 public:
  enum class SecondSignal {
    // A second signal ends the process at once with exit code 128 + signal. A signal from the
    // parent process and one from another process count as one: stopping all processes of a job
    // also stops the supervisor, which passes the signal on.
    kExit,
    kReport,  // Take() reports further signals as well
  };
  explicit StopSignals(SecondSignal second = SecondSignal::kExit);
  ~StopSignals();  // restores the calling thread's signal mask
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable while Take() has a signal; poll it, never read it. -1: out of file descriptors.
  int fd() const { return event_.fd(); }
  // The next signal that was not taken yet, SIGTERM or SIGINT; 0: none.
  int Take();
  // The first signal received, SIGTERM or SIGINT; 0: none yet.
  int signal() const { return first_; }
  // The status of an orderly end after signal(): kTerminated or kInterrupted; ok before it.
  Status status() const;

  // Unblocks the signals, for a child process between fork and exec, which inherits the mask.
  // Async-signal-safe.
  static void Unblock();

 private:
  void Run();

  const SecondSignal second_;
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

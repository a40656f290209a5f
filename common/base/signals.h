// Delivers SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 as an event for poll().
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
    // parent process and a signal from another process count as one signal: whoever stops all
    // processes of a job also stops the parent, which passes the signal on to this process.
    kExit,
    kReport,  // TakeSignal() also returns the signals after the first.
  };
  explicit StopSignals(SecondSignal on_second_signal = SecondSignal::kExit);
  // For a library in a foreign process: blocks and takes no signals; any number at a time.
  struct TakesNone {};
  explicit StopSignals(TakesNone);
  ~StopSignals();  // Restores the calling thread's signal mask.
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // A descriptor that is readable while TakeSignal() has a signal to return, and after SIGUSR1 and
  // SIGUSR2 until the next call of TakeSignal(). Poll it, never read it. -1 if the process is out
  // of file descriptors.
  int fd() const { return event_.fd(); }
  // Returns the next received signal that TakeSignal() has not returned yet: SIGTERM or SIGINT, 0
  // if none.
  int TakeSignal();
  // Whether SIGUSR2 was received since the last call: the program is to read again the files that
  // may change while it runs. Raises fd(), too.
  bool TakeReread() { return must_reread_.exchange(false); }
  // Whether SIGUSR1 was received since the last call: the job is to write a checkpoint and go on.
  // Raises fd(), too.
  bool TakeCheckpoint() { return must_write_checkpoint_.exchange(false); }
  // The first signal that was received: SIGTERM or SIGINT, 0 if none yet.
  int signal() const { return first_signal_; }
  // The status with which a program ends in an orderly way after the first signal: kTerminated or
  // kInterrupted. Ok if there was no signal.
  Status status() const;

  // Unblocks the signals. Call this in a child process between fork and exec, because the child
  // inherits the signal mask. Async-signal-safe.
  static void Unblock();
  // Blocks SIGUSR1 and SIGUSR2, which would end the process, until a StopSignals takes them. Call
  // it first in the main of a program that takes them, or after Unblock in its parent's child.
  // Async-signal-safe.
  static void KeepUserSignals();

 private:
  void Run();  // receives the signals, on thread_

  const SecondSignal on_second_signal_;
  const bool handles_sighup_;
  EventFd event_;
  sigset_t old_mask_{};
  std::atomic<bool> must_quit_{false};
  std::atomic<int> first_signal_{0};
  std::atomic<bool> first_was_sighup_{false};
  std::atomic<bool> must_reread_{false}, must_write_checkpoint_{false};
  bool parent_has_signaled_ = false, others_have_signaled_ = false;
  std::atomic<int> num_pending_sigterms_{0}, num_pending_sigints_{0};
  Thread thread_;
};

}  // namespace tern

#include "common/base/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tern {
namespace {

sigset_t SignalSet(bool with_sighup) {
  sigset_t signal_set;
  sigemptyset(&signal_set);
  sigaddset(&signal_set, SIGTERM);
  sigaddset(&signal_set, SIGINT);
  sigaddset(&signal_set, SIGUSR1);
  sigaddset(&signal_set, SIGUSR2);
  if (with_sighup) sigaddset(&signal_set, SIGHUP);
  return signal_set;
}

// Whether the process ignores the signal. sigwaitinfo would receive even an ignored signal while
// the signal is blocked, so ignored signals are not waited for.
bool IsIgnored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(SecondSignal on_second_signal)
    : on_second_signal_(on_second_signal), handles_sighup_(!IsIgnored(SIGHUP)) {
  const sigset_t signals = SignalSet(handles_sighup_);
  pthread_sigmask(SIG_BLOCK, &signals, &old_mask_);
  thread_ = Thread("signals", [this] { Run(); });
}

StopSignals::StopSignals(TakesNone)
    : on_second_signal_(SecondSignal::kReport), handles_sighup_(false) {}

StopSignals::~StopSignals() {
  if (!thread_.running()) return;
  must_quit_ = true;
  pthread_kill(thread_.handle(), SIGTERM);  // Wakes Run(), which returns because must_quit_ is set.
  thread_.Join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StopSignals::Run() {
  const sigset_t signals = SignalSet(handles_sighup_);
  while (true) {
    siginfo_t info{};
    const int received_signal = sigwaitinfo(&signals, &info);
    if (must_quit_) return;
    if (received_signal == SIGUSR1 || received_signal == SIGUSR2) {
      (received_signal == SIGUSR1 ? must_write_checkpoint_ : must_reread_) = true;
      event_.Raise();
    }
    // sigwaitinfo fails with EINTR if another signal interrupts it.
    if (received_signal != SIGTERM && received_signal != SIGINT && received_signal != SIGHUP)
      continue;
    const int signal = received_signal == SIGHUP ? SIGTERM : received_signal;
    bool& sender_has_signaled =
        info.si_pid != 0 && info.si_pid == getppid() ? parent_has_signaled_ : others_have_signaled_;
    const bool is_second = std::exchange(sender_has_signaled, true);
    if (on_second_signal_ == SecondSignal::kExit && is_second) _exit(128 + signal);
    // The parent passes signals on, so the first signal of another sender is not a second signal.
    if (on_second_signal_ == SecondSignal::kExit && first_signal_ != 0) continue;
    if (first_signal_ == 0) {
      first_was_sighup_ = received_signal == SIGHUP;
      first_signal_ = signal;
    }
    ++(signal == SIGTERM ? num_pending_sigterms_ : num_pending_sigints_);
    event_.Raise();
  }
}

int StopSignals::TakeSignal() {
  event_.Lower();
  int taken_signal = 0;
  if (num_pending_sigterms_ > 0) {
    --num_pending_sigterms_;
    taken_signal = SIGTERM;
  } else if (num_pending_sigints_ > 0) {
    --num_pending_sigints_;
    taken_signal = SIGINT;
  }
  if (num_pending_sigterms_ > 0 || num_pending_sigints_ > 0) event_.Raise();
  return taken_signal;
}

Status StopSignals::status() const {
  switch (first_signal_) {
    case 0:
      return Ok();
    case SIGTERM:
      return Status(Code::kTerminated, first_was_sighup_ ? "stopped in order by SIGHUP"
                                                         : "stopped in order by SIGTERM");
    default:
      return Status(Code::kInterrupted, "stopped in order by SIGINT");
  }
}

void StopSignals::Unblock() {
  const sigset_t signals = SignalSet(true);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void StopSignals::KeepUserSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace tern

#include "common/base/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tern {
namespace {

sigset_t SignalSet(bool with_hangup) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (with_hangup) sigaddset(&set, SIGHUP);
  return set;
}

// Whether the process ignores the signal. sigwaitinfo would still receive it while it is blocked,
// so ignored signals are not waited for.
bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(SecondSignal second) : second_(second), takes_hangup_(!IsIgnored(SIGHUP)) {
  const sigset_t signals = SignalSet(takes_hangup_);
  pthread_sigmask(SIG_BLOCK, &signals, &old_mask_);
  thread_ = Thread("signals", [this] { Run(); });
}

StopSignals::~StopSignals() {
  quit_ = true;
  pthread_kill(thread_.handle(), SIGTERM);  // wakes Run; no other thread can receive it
  thread_.Join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StopSignals::Run() {
  const sigset_t signals = SignalSet(takes_hangup_);
  while (true) {
    siginfo_t info{};
    const int taken = sigwaitinfo(&signals, &info);
    if (quit_) return;
    if (taken != SIGTERM && taken != SIGINT && taken != SIGHUP) continue;  // EINTR
    const int signal = taken == SIGHUP ? SIGTERM : taken;
    bool& from = info.si_pid != 0 && info.si_pid == getppid() ? from_parent_ : from_others_;
    const bool again = std::exchange(from, true);
    if (second_ == SecondSignal::kExit && again) _exit(128 + signal);
    if (second_ == SecondSignal::kExit && first_ != 0) continue;  // the first signal, passed on
    if (first_ == 0) {
      hung_up_ = taken == SIGHUP;
      first_ = signal;
    }
    ++(signal == SIGTERM ? pending_term_ : pending_int_);
    event_.Raise();
  }
}

int StopSignals::Take() {
  event_.Lower();
  int taken = 0;
  if (pending_term_ > 0) {
    --pending_term_;
    taken = SIGTERM;
  } else if (pending_int_ > 0) {
    --pending_int_;
    taken = SIGINT;
  }
  if (pending_term_ > 0 || pending_int_ > 0) event_.Raise();
  return taken;
}

Status StopSignals::status() const {
  switch (first_) {
    case 0:
      return Ok();
    case SIGTERM:
      return Status(Code::kTerminated,
                    hung_up_ ? "stopped in order by SIGHUP" : "stopped in order by SIGTERM");
    default:
      return Status(Code::kInterrupted, "stopped in order by SIGINT");
  }
}

void StopSignals::Unblock() {
  const sigset_t signals = SignalSet(true);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace tern

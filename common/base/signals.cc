#include "common/base/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

namespace tern {
namespace {

sigset_t BothSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals(Second second) : second_(second) {
  const sigset_t both = BothSignals();
  pthread_sigmask(SIG_BLOCK, &both, &old_mask_);
  thread_ = Thread("signals", [this] { Run(); });
}

StopSignals::~StopSignals() {
  quit_ = true;
  pthread_kill(thread_.handle(), SIGTERM);  // wakes Run, which alone can see this one
  thread_.Join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StopSignals::Run() {
  const sigset_t both = BothSignals();
  while (true) {
    const int signal = sigwaitinfo(&both, nullptr);
    if (quit_) return;
    if (signal != SIGTERM && signal != SIGINT) continue;  // EINTR
    if (first_ != 0 && second_ == Second::kExit) _exit(128 + signal);
    if (first_ == 0) first_ = signal;
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
      return Status(Code::kTerminated, "stopped in order by SIGTERM");
    default:
      return Status(Code::kInterrupted, "stopped in order by SIGINT");
  }
}

void StopSignals::Unblock() {
  const sigset_t both = BothSignals();
  sigprocmask(SIG_UNBLOCK, &both, nullptr);
}

}  // namespace tern

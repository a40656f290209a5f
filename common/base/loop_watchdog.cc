#include "common/base/loop_watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/logging.h"
#include "common/base/stack_trace.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace tern {
namespace {

using std::chrono::milliseconds;

// The watched thread may hang in the log (its file is on a disk that does not answer), and then the
// watchdog would hang there, too. SIGALRM ends the process if it does not come back in this time.
constexpr unsigned kLogSeconds = 10;

void LogOrDie(const std::string& text) {
  alarm(kLogSeconds);
  LOG(ERROR) << text;
  alarm(0);
}

}  // namespace

LoopWatchdog::LoopWatchdog(std::string name, Time timeout)
    : name_(std::move(name)),
      timeout_(timeout),
      interval_(std::clamp<Time>(timeout / 16, milliseconds(10), milliseconds(500))),
      thread_("watchdog", [this] { Run(); }) {}

LoopWatchdog::~LoopWatchdog() {
  {
    const MutexLock lock(mutex_);
    must_stop_ = true;
  }
  stopped_.NotifyOne();
  thread_.Join();
}

void LoopWatchdog::Run() {
  while (SleepFor(interval_)) Check();
}

bool LoopWatchdog::SleepFor(Time interval) {
  const auto until = std::chrono::steady_clock::now() + interval;
  const MutexLock lock(mutex_);
  while (!must_stop_) {
    if (!stopped_.WaitUntil(mutex_, until)) return !must_stop_;
  }
  return false;
}

void LoopWatchdog::Check() {
  now_ += interval_;
  const Time stands_still = watch_.Observe(num_turns_, false, now_);
  const std::string sentence = Cat("the ", name_, " has not moved for ",
                                   std::chrono::duration<double>(stands_still).count(), " s");
  if (stands_still > 2 * timeout_) {
    LogOrDie(sentence + ", so this process ends without it");
    _exit(static_cast<int>(Code::kPeerLost));
  }
  if (watch_.MustLog(timeout_, now_)) LogOrDie(Cat(sentence, ": ", StackOfThread(watched_thread_)));
}

}  // namespace tern

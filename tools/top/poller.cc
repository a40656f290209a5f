#include "tools/top/poller.h"

#include <utility>

namespace tern::tools {

StatusPoller::StatusPoller(std::string url)
    : url_(std::move(url)), thread_("poller", [this] { Poll(); }) {}

StatusPoller::~StatusPoller() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  stopping_.NotifyAll();
  http_.Cancel();
  thread_.Join();
}

StatusPoller::Answers StatusPoller::answers() const {
  const MutexLock lock(mutex_);
  return answers_;
}

void StatusPoller::Poll() {
  while (true) {
    const auto next = std::chrono::steady_clock::now() + kInterval;
    Result<std::string> answer = http_.Read(url_);
    const MutexLock lock(mutex_);
    ++answers_.number;
    answers_.error = answer.ok() ? Ok() : answer.status();
    if (answer.ok()) {
      answers_.newest = std::move(*answer);
      answers_.at = Now();
    }
    while (!is_stopping_ && std::chrono::steady_clock::now() < next)
      stopping_.WaitUntil(mutex_, next);
    if (is_stopping_) return;
  }
}

}  // namespace tern::tools

// Asks for the status of a job once a second, on a thread of its own, so that a terminal reacts to
// keys while an answer is awaited.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "tools/top/http_get.h"

namespace tern::tools {

class StatusPoller {
 public:
  static constexpr Time kInterval = std::chrono::seconds(1);

  explicit StatusPoller(std::string url);
  ~StatusPoller();  // Ends a request in progress.

  struct Answers {
    std::string newest;   // the newest answer; empty: none so far
    Time at{};            // when it came, by Now()
    Status error;         // of the last request
    uint64_t number = 0;  // how many requests have ended
  };
  Answers answers() const;

 private:
  void Poll();

  const std::string url_;
  HttpGet http_;
  mutable Mutex mutex_;
  Condition stopping_;
  bool is_stopping_ TERN_GUARDED_BY(mutex_) = false;
  Answers answers_ TERN_GUARDED_BY(mutex_);
  Thread thread_;  // The last member, because the thread uses all others.
};

}  // namespace tern::tools

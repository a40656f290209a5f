// The damaged images of a set: each is logged once and counted, up to a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tern::data {

// Receives warnings for the user; if empty, they go to the log.
using Warn = std::function<void(const std::string& sentence)>;
void ReportWarning(const Warn& warn, const std::string& sentence);

class DamagedImages {
 public:
  // `max`: data.max_corrupt. Add calls `warn`, on its caller's thread, one call at a time.
  explicit DamagedImages(uint64_t max, Warn warn = nullptr)
      : max_damaged_(max), warn_(std::move(warn)) {}

  // Reports that image `name` is damaged, and `why`. Ok up to the limit; beyond it kBadData for
  // this image and every later one. Any thread.
  Status Add(const std::string& name, const Status& why);
  uint64_t count() const;

 private:
  const uint64_t max_damaged_;
  const Warn warn_;
  mutable Mutex mutex_;
  std::set<std::string> names_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::data

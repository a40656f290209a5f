// The damaged images of a set: each is named once in the log and counted, up to a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace tern::data {

// Where a warning goes that somebody should see; nothing: to the log.
using Warn = std::function<void(const std::string& sentence)>;
void SayWarning(const Warn& warn, const std::string& sentence);

class Corrupt {
 public:
  // `max` as data.max_corrupt. `warn` is called by whoever calls Add, one at a time.
  explicit Corrupt(uint64_t max, Warn warn = nullptr) : max_(max), warn_(std::move(warn)) {}

  // Damage of image `name`, told by `why`. Ok while no more than the limit are known, else kBadData
  // of this one, and from then on of every one. Any thread.
  Status Add(const std::string& name, const Status& why);
  uint64_t count() const;

 private:
  const uint64_t max_;
  const Warn warn_;
  mutable std::mutex mutex_;  // guards the names
  std::set<std::string> names_;
};

}  // namespace tern::data

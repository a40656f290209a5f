// Collects the damaged images of a data set. Each one is reported once. More than a given number of
// them are an error.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tern::data {

// A function that receives warnings for the user.
using WarningFunction = std::function<void(const std::string& sentence)>;
// Calls warn(sentence), or logs the sentence if `warn` is empty.
void ReportWarning(const WarningFunction& warn, const std::string& sentence);

class DamagedImages {
 public:
  // `max_damaged`: how many damaged images are allowed (the job's data.max_corrupt). Add reports
  // each of them to `warn` once, on the thread that calls Add; two calls of `warn` never overlap.
  explicit DamagedImages(uint64_t max_damaged, WarningFunction warn = nullptr)
      : max_damaged_(max_damaged), warn_(std::move(warn)) {}

  // Counts and reports the damaged image `name`; `why` says what is wrong with it. An image that
  // was added before is not counted again. kBadData if more images are damaged than are allowed.
  // Any thread may call it.
  Status Add(const std::string& name, const Status& why);
  uint64_t count() const;  // The number of damaged images so far.

 private:
  const uint64_t max_damaged_;
  const WarningFunction warn_;
  mutable Mutex mutex_;
  std::set<std::string> damaged_names_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::data

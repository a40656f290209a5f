// Collects the damaged images of a data set. Up to a given number of them are allowed and reported,
// each once; more are an error.
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
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  // `max_damaged`: how many damaged images are allowed; `max_damaged_name`: how the user sets that,
  // for an error message. Add reports each allowed one to `warn` once, on the thread that calls
  // Add; two calls of `warn` never overlap.
  explicit DamagedImages(uint64_t max_damaged, WarningFunction warn = nullptr,
                         const char* max_damaged_name = "data.max_corrupt")
      : max_damaged_(max_damaged), warn_(std::move(warn)), max_damaged_name_(max_damaged_name) {}

  // Counts the damaged image `name`; `why` says what is wrong with it. Reports the image or, if
  // more images are damaged than are allowed, returns kBadData. An image that was added before is
  // not counted or reported again. Any thread may call Add.
  Status Add(const std::string& name, const Status& why);
  uint64_t count() const;  // The number of damaged images so far.

 private:
  const uint64_t max_damaged_;
  const WarningFunction warn_;
  const char* const max_damaged_name_;
  mutable Mutex mutex_;
  std::set<std::string> damaged_names_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::data

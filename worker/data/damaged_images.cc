#include "worker/data/damaged_images.h"

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::data {

void ReportWarning(const WarningFunction& warn, const std::string& sentence) {
  if (warn) {
    warn(sentence);
  } else {
    LOG(WARNING) << sentence;
  }
}

Status DamagedImages::Add(const std::string& name, const Status& why) {
  const MutexLock lock(mutex_);
  const bool is_new = damaged_names_.insert(name).second;
  if (damaged_names_.size() <= max_damaged_) {
    if (is_new) {
      const std::string limit = max_damaged_ == kNoLimit ? "" : Cat(" of at most ", max_damaged_);
      ReportWarning(warn_, Cat("left out, damaged image ", damaged_names_.size(), limit, ": ",
                               why.message()));
    }
    return Ok();
  }
  return Status(Code::kBadData,
                Cat(why.message(), "; damaged images so far: ", damaged_names_.size(),
                    ", allowed: ", max_damaged_, "; replace them, or raise ", max_damaged_name_));
}

uint64_t DamagedImages::count() const {
  const MutexLock lock(mutex_);
  return damaged_names_.size();
}

}  // namespace tern::data

// What `tern run` leaves in a job's folder at its end: summary.json, which tells of the weights
// that lie beside it.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::tools {

class RunResult {
 public:
  // Looks at what `folder` holds before the run writes into it: the result of a run that was
  // finished, or stopped in order, is worth keeping.
  explicit RunResult(std::string folder);

  struct Written {
    std::string path;
    bool kept_older = false;  // summary.json is still the older run's, and so are the weights
    Status status;            // kBadData: what the system says
  };
  // Writes the summary of a run that ended with `code` into summary.json; into summary.failed.json
  // where it failed, left the weights alone, and there is a result to keep. Whole or not at all.
  // What a failed run said before goes once a summary.json is written.
  Written Write(const std::string& summary, int code) const;

 private:
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  std::optional<struct stat> weights_;  // before the run
  bool worth_keeping_ = false;
};

}  // namespace tern::tools

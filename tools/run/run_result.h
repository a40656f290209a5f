// The result of `tern run` in the job's folder: summary.json, which describes the weights in the
// same folder.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::tools {

class RunResult {
 public:
  // Reads the result of an earlier run in `folder`, before this run writes there. The result of a
  // run that finished, or was stopped in order, is worth keeping.
  explicit RunResult(std::string folder);

  struct Written {
    std::string path;
    bool kept_older = false;  // summary.json and the weights are still those of the earlier run
    Status status;            // kCannotWrite, with the system's message
  };
  // Writes the summary of a run that ended with `code`, atomically. The file is summary.json; it is
  // summary.failed.json if the run failed, did not write weights, and an earlier result is worth
  // keeping. Writing summary.json removes an old summary.failed.json.
  Written Write(const std::string& summary, int code) const;

 private:
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  std::optional<struct stat> weights_;  // of the earlier run
  bool worth_keeping_ = false;
};

}  // namespace tern::tools

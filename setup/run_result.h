// The result of a run in the job's folder: the summary of `tern run` (summary.json) or of a shard
// (server.0.json), which describes the weights in the same folder.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::setup {

class RunResult {
 public:
  // Reads the result of an earlier run in `folder`; must be called before this run writes there.
  // `name`: of the summary, "summary" or "server.0".
  // The earlier result is worth keeping if that run succeeded, or was stopped by a signal and left
  // weights.
  explicit RunResult(std::string folder, std::string name = "summary");

  struct WrittenSummary {
    std::string path;  // The path of the summary.
    // Whether NAME.json and the weights are still those of the earlier run.
    bool kept_earlier_result = false;
    Status status;  // kCannotWrite if the summary could not be written.
  };
  // Writes the summary of a run that ended with the exit code `code`, atomically. The file is
  // NAME.failed.json if `code` is not 0, this run wrote no weights, and an earlier result is worth
  // keeping. Otherwise it is NAME.json, and an old NAME.failed.json is removed.
  WrittenSummary WriteSummary(const std::string& summary, int code) const;

 private:
  std::string summary_path() const { return folder_ + "/" + name_ + ".json"; }
  std::string failed_path() const { return folder_ + "/" + name_ + ".failed.json"; }
  std::string weights_path() const { return folder_ + "/weights.safetensors"; }

  const std::string folder_, name_;
  std::optional<struct stat> earlier_weights_;  // The weights file of the earlier run.
  bool is_worth_keeping_ = false;               // Whether the earlier result is worth keeping.
};

}  // namespace tern::setup

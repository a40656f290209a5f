// Plans that were chosen by timing, kept in a file from run to run, by device, driver, library and
// shape. Keeps unknown keys of the file. Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::engine {

class PlanStore {
 public:
  // Reads the file; empty if it does not exist or has another format.
  explicit PlanStore(std::string path);
  // $XDG_CACHE_HOME/tern/plans.json, or the same in ~/.cache; "" if there is no home folder: then
  // nothing is stored.
  static std::string DefaultPath();

  std::optional<std::string> Find(const std::string& key) const;
  void Put(const std::string& key, const std::string& plan);
  // Writes the plans, merged with those that other processes have written since.
  Status Save();

 private:
  const std::string path_;
  std::map<std::string, std::string> plans_, fresh_;
};

}  // namespace tern::engine

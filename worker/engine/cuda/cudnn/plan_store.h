// Plans that were chosen by timing, kept in a file from run to run: by device, driver, library and
// shape. Unknown keys stay in the file. Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::engine {

class PlanStore {
 public:
  // Reads the file; empty if there is none or it is not one of ours.
  explicit PlanStore(std::string path);
  // $XDG_CACHE_HOME/tern/plans.json, or the same in ~/.cache; "", which stores nothing, without a
  // home.
  static std::string DefaultPath();

  std::optional<std::string> Find(const std::string& key) const;
  void Put(const std::string& key, const std::string& plan);
  // Writes what was put, merged with what others have written since.
  Status Save();

 private:
  const std::string path_;
  std::map<std::string, std::string> plans_, fresh_;
};

}  // namespace tern::engine

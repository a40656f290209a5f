// Plans that were chosen by timing, kept in a file from run to run: by device, driver, library and
// shape. What no key of today's asks for stays in the file, unread.
// Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::engine {

class PlanStore {
 public:
  // What the file holds; empty where there is none or it is none of ours.
  explicit PlanStore(std::string path);
  // $XDG_CACHE_HOME/tern/plans.json, or ~/.cache's; "", which keeps nothing, where there is no
  // home.
  static std::string DefaultPath();

  std::optional<std::string> Find(const std::string& key) const;
  void Put(const std::string& key, const std::string& plan);
  // Writes what was put, beside what others have written meanwhile.
  Status Save();

 private:
  const std::string path_;
  std::map<std::string, std::string> plans_, fresh_;
};

}  // namespace tern::engine

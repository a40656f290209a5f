// A file with the cuDNN plans that were chosen by measuring their time, for later runs of the
// program. The key of a plan is a text that contains the device, the driver, cuDNN's version, the
// pass and the shape of the convolution. Entries that other runs wrote stay in the file. Internal
// to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::engine {

class PlanStore {
 public:
  // Reads the file. The store is empty if the file does not exist or is not in this format.
  explicit PlanStore(std::string path);
  // Returns $XDG_CACHE_HOME/tern/plans.json or, if that variable is not an absolute path,
  // ~/.cache/tern/plans.json. Returns "" if there is no home folder either; a store with the path
  // "" is never written.
  static std::string DefaultPath();

  // Returns the plan with this key, if there is one.
  std::optional<std::string> Find(const std::string& key) const;
  // Sets the plan of a key. The next Save writes it to the file.
  void PutPlan(const std::string& key, const std::string& plan);
  // Adds the new plans to the file. kCannotWrite if the file cannot be written.
  Status Save();

 private:
  const std::string path_;
  std::map<std::string, std::string> plans_, unsaved_plans_;
};

}  // namespace tern::engine

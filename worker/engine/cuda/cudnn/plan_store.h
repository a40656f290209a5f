// A file with the cuDNN plans that were chosen by measuring their time, for later runs of the
// program. The key of a plan is a text that contains the device, the driver, cuDNN's version, the
// pass and the shape of the convolution.
//
// A store locks the file from its construction until it is closed, so that processes that plan at
// the same time use the same plans, and do not disturb each other's measurements. Plans with the
// same key may add in different orders, and then give different last bits. Plans that cannot be
// written are kept in memory, so that all nets of a process use the same. A process reads the file
// again only if it has changed. Internal to the engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/folder_lock.h"
#include "common/base/status.h"

namespace tern::engine {

class PlanStore {
 public:
  using Plans = std::map<std::string, std::string>;  // By key.
  // How long a store waits for the lock.
  static constexpr Time kMaxWait = std::chrono::minutes(2);
  // PutPlan writes the file if the last time is longer ago, so that a process that is killed while
  // it plans has not measured in vain.
  static constexpr Time kSaveInterval = std::chrono::seconds(5);

  // Locks and reads the file. The store is empty if the file does not exist or is not in this
  // format. If another store does not release the lock within `max_wait`, or the folder cannot be
  // locked, goes on without the lock.
  explicit PlanStore(std::string path, Time max_wait = kMaxWait,
                     Time save_interval = kSaveInterval);
  // Returns $XDG_CACHE_HOME/tern/plans.json or, if that variable is not an absolute path,
  // ~/.cache/tern/plans.json. Returns "" if there is no home folder either; a store with the path
  // "" is never written to a file.
  static std::string DefaultPath();

  // Returns the plan with this key, if there is one.
  std::optional<std::string> Find(const std::string& key) const;
  // Sets the plan of a key. Close writes it to the file, if nothing has done so before.
  void PutPlan(const std::string& key, const std::string& plan);
  // Sets the plan of a key for this process: later stores find it, if the file has none.
  void KeepPlan(const std::string& key, const std::string& plan);
  // Adds the new plans to the file or, if it cannot be written, to those that later stores of this
  // process find, too; unlocks the file. kCannotWrite if it cannot be written.
  // REQUIRES that PutPlan is not called afterwards.
  Status Close();

 private:
  // Adds the new plans to the file.
  Status Save();

  const std::string path_;
  const Time save_interval_;
  Time last_save_ = Now();
  std::optional<FolderLock> lock_;
  // The plans of the file when it was last read, those that are in no file or that were put here,
  // and which of the latter the file gets.
  std::shared_ptr<const Plans> file_plans_;
  Plans plans_, unsaved_plans_;
};

}  // namespace tern::engine

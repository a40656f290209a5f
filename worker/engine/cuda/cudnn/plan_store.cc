#include "worker/engine/cuda/cudnn/plan_store.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/json_depth.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace tern::engine {
namespace {

using Plans = std::map<std::string, std::string>;

// The plans of this process that are in no file, by the path of the file.
class UnwrittenPlans {
 public:
  static UnwrittenPlans& Get() {
    static UnwrittenPlans plans;
    return plans;
  }
  void Add(const std::string& path, const Plans& plans) {
    const MutexLock lock(mutex_);
    for (const auto& [key, plan] : plans) by_path_[path][key] = plan;
  }
  Plans Of(const std::string& path) {
    const MutexLock lock(mutex_);
    return by_path_[path];
  }

 private:
  Mutex mutex_;
  std::map<std::string, Plans> by_path_ TERN_GUARDED_BY(mutex_);
};

Plans ReadPlans(const std::string& path) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  Plans plans;
  const Result<std::string> text = ReadWholeFile(path, kMaxBytes);
  if (!text.ok() || !JsonNestsAtMost(*text, 1)) return plans;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return plans;
  for (const auto& [key, plan] : json.items()) {
    if (plan.is_string()) plans[key] = plan.get<std::string>();
  }
  return plans;
}

std::optional<FolderLock> LockFolderOf(const std::string& path, Time max_wait) {
  if (path.empty()) return std::nullopt;
  constexpr Time kPause = std::chrono::milliseconds(50);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  for (const Time begin = Now();; std::this_thread::sleep_for(kPause)) {
    auto lock = FolderLock::TryLock(folder, "plans.lock", "plans of convolutions");
    if (lock.ok()) return std::move(*lock);
    if (Now() - begin < max_wait) continue;
    LOG(WARNING) << lock.status().message() << "; its plans are used as they are now";
    return std::nullopt;
  }
}

}  // namespace

PlanStore::PlanStore(std::string path, Time max_wait, Time save_interval)
    : path_(std::move(path)),
      save_interval_(save_interval),
      lock_(LockFolderOf(path_, max_wait)),
      plans_(ReadPlans(path_)) {
  plans_.merge(UnwrittenPlans::Get().Of(path_));
}

std::string PlanStore::DefaultPath() {
  const char* cache_folder = std::getenv("XDG_CACHE_HOME");
  if (cache_folder != nullptr && *cache_folder == '/')
    return std::string(cache_folder) + "/tern/plans.json";
  const char* home_folder = std::getenv("HOME");
  if (home_folder != nullptr && *home_folder == '/')
    return std::string(home_folder) + "/.cache/tern/plans.json";
  return "";
}

std::optional<std::string> PlanStore::Find(const std::string& key) const {
  const auto entry = plans_.find(key);
  if (entry == plans_.end()) return std::nullopt;
  return entry->second;
}

void PlanStore::PutPlan(const std::string& key, const std::string& plan) {
  plans_[key] = unsaved_plans_[key] = plan;
  // If it cannot be written, Close says so.
  if (Now() - last_save_ >= save_interval_) (void)Save();
}

Status PlanStore::Close() {
  const std::optional<FolderLock> lock = std::move(lock_);  // Unlocks at the end.
  lock_.reset();
  Status save_status = Save();
  UnwrittenPlans::Get().Add(path_, unsaved_plans_);
  return save_status;
}

Status PlanStore::Save() {
  last_save_ = Now();
  if (unsaved_plans_.empty() || path_.empty()) return Ok();
  // Reads the file again, because a store without a lock may have written it.
  Plans all_plans = ReadPlans(path_);
  all_plans.insert(unsaved_plans_.begin(), unsaved_plans_.end());
  // If the folder cannot be created, the write below fails, too.
  (void)Disk().CreateFolders(std::filesystem::path(path_).parent_path().string());
  if (WriteFileAtomically(path_, nlohmann::json(all_plans).dump(1) + '\n').ok()) {
    unsaved_plans_.clear();
    return Ok();
  }
  return Status(Code::kCannotWrite,
                Cat("cannot write ", path_, ": plans will be chosen again in the next run"));
}

}  // namespace tern::engine

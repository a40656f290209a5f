#include "worker/engine/cuda/cudnn/plan_store.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
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

using Plans = PlanStore::Plans;

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

// The files that this process has read or written, by their paths.
class KnownFiles {
 public:
  static KnownFiles& Get() {
    static KnownFiles files;
    return files;
  }
  std::shared_ptr<const Plans> Read(const std::string& path) {
    const MutexLock lock(mutex_);
    File& file = by_path_[path];
    // Looked at before the file is read: a change in between is seen the next time.
    const std::optional<Version> version = VersionOf(path);
    if (!version.has_value() || version != file.version)
      file = {version, std::make_shared<const Plans>(ReadPlans(path))};
    return file.plans;
  }
  // Called when the file has just got these plans.
  void Set(const std::string& path, Plans plans) {
    const MutexLock lock(mutex_);
    by_path_[path] = {VersionOf(path), std::make_shared<const Plans>(std::move(plans))};
  }

 private:
  // What changes with the contents of a file.
  struct Version {
    int64_t seconds, nanoseconds, bytes;
    uint64_t inode;
    bool operator==(const Version&) const = default;
  };
  struct File {
    std::optional<Version> version;
    std::shared_ptr<const Plans> plans;
  };
  // Nothing if there is no such file.
  static std::optional<Version> VersionOf(const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return std::nullopt;
    return Version{info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size, info.st_ino};
  }

  Mutex mutex_;
  std::map<std::string, File> by_path_ TERN_GUARDED_BY(mutex_);
};

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
      file_plans_(KnownFiles::Get().Read(path_)),
      plans_(UnwrittenPlans::Get().Of(path_)) {
  std::erase_if(plans_, [this](const auto& plan) { return file_plans_->contains(plan.first); });
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
  for (const Plans* plans : {&plans_, file_plans_.get()}) {
    const auto entry = plans->find(key);
    if (entry != plans->end()) return entry->second;
  }
  return std::nullopt;
}

void PlanStore::KeepPlan(const std::string& key, const std::string& plan) {
  plans_[key] = plan;
  UnwrittenPlans::Get().Add(path_, {{key, plan}});
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
  // The file as it is now, because a store without a lock may have written it.
  Plans all_plans = *KnownFiles::Get().Read(path_);
  all_plans.insert(unsaved_plans_.begin(), unsaved_plans_.end());
  // If the folder cannot be created, the write below fails, too.
  (void)Disk().CreateFolders(std::filesystem::path(path_).parent_path().string());
  if (WriteFileAtomically(path_, nlohmann::json(all_plans).dump(1) + '\n').ok()) {
    KnownFiles::Get().Set(path_, std::move(all_plans));
    unsaved_plans_.clear();
    return Ok();
  }
  return Status(Code::kCannotWrite,
                Cat("cannot write ", path_, ": plans will be chosen again in the next run"));
}

}  // namespace tern::engine

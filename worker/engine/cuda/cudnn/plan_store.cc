#include "worker/engine/cuda/cudnn/plan_store.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/text.h"

namespace tern::engine {
namespace {

std::map<std::string, std::string> ReadPlans(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::map<std::string, std::string> plans;
  if (!json.is_object()) return plans;
  for (const auto& [key, plan] : json.items()) {
    if (plan.is_string()) plans[key] = plan.get<std::string>();
  }
  return plans;
}

}  // namespace

PlanStore::PlanStore(std::string path) : path_(std::move(path)), plans_(ReadPlans(path_)) {}

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
}

// Writes a temporary file, with this process's number in its name, and renames it, so that
// concurrent readers see either the old or the new file.
Status PlanStore::Save() {
  if (unsaved_plans_.empty() || path_.empty()) return Ok();
  std::map<std::string, std::string> all_plans = ReadPlans(path_);
  for (const auto& [key, plan] : unsaved_plans_) all_plans[key] = plan;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary_path = Cat(path_, ".", getpid());
  std::ofstream file(temporary_path);
  file << nlohmann::json(all_plans).dump(1) << '\n';
  file.close();
  if (file) std::filesystem::rename(temporary_path, path_, error);
  if (!file || error) {
    std::filesystem::remove(temporary_path, error);
    return Status(Code::kCannotWrite,
                  Cat("cannot write ", path_, ": plans will be chosen again in the next run"));
  }
  unsaved_plans_.clear();
  return Ok();
}

}  // namespace tern::engine

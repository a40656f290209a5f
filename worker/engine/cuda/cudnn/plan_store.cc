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

std::map<std::string, std::string> Read(const std::string& path) {
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

PlanStore::PlanStore(std::string path) : path_(std::move(path)), plans_(Read(path_)) {}

std::string PlanStore::DefaultPath() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/tern/plans.json";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/tern/plans.json";
  return "";
}

std::optional<std::string> PlanStore::Find(const std::string& key) const {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return std::nullopt;
  return found->second;
}

void PlanStore::Put(const std::string& key, const std::string& plan) {
  plans_[key] = fresh_[key] = plan;
}

// Writes a file of this process's own name and renames it, so that concurrent readers see either
// the old or the new one.
Status PlanStore::Save() {
  if (fresh_.empty() || path_.empty()) return Ok();
  std::map<std::string, std::string> all = Read(path_);
  for (const auto& [key, plan] : fresh_) all[key] = plan;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary = Cat(path_, ".", getpid());
  std::ofstream file(temporary);
  file << nlohmann::json(all).dump(1) << '\n';
  file.close();
  if (file) std::filesystem::rename(temporary, path_, error);
  if (!file || error) {
    std::filesystem::remove(temporary, error);
    return Status(Code::kCannotWrite,
                  Cat("cannot write ", path_, ": plans will be chosen again in the next run"));
  }
  fresh_.clear();
  return Ok();
}

}  // namespace tern::engine

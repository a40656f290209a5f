// The names of the files of a store (store.h), and of the folders to which it moves files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/storage.h"

namespace tern::checkpoint {

inline constexpr std::string_view kNamePrefix = "step.";
inline constexpr const char* kStateSuffix = ".safetensors";
inline constexpr const char* kManifestSuffix = ".json";
inline constexpr std::string_view kRecordName = "run.json";

// The step in the name step.STEP with that suffix; nullopt for other names.
std::optional<uint64_t> StepOf(std::string_view name, std::string_view suffix);
// Whether a store writes files with that name.
bool IsNameOfStore(std::string_view name);
// Returns FOLDER.DATE or, if that exists, the first of FOLDER.DATE.2, FOLDER.DATE.3, ... that does
// not exist. The date is in UTC: 2026-11-22T22-26-01.
std::string UnusedFolderName(const std::string& folder, std::chrono::system_clock::time_point now,
                             const Storage& storage);

}  // namespace tern::checkpoint

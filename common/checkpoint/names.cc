#include "common/checkpoint/names.h"

#include <charconv>
#include <ctime>

#include "common/base/text.h"

namespace tern::checkpoint {

namespace {

// Formats a time in UTC: "2026-11-22T22-26-01".
std::string FormatDate(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32] = {};
  (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%S", &utc);
  return text;
}

}  // namespace

std::optional<uint64_t> StepOf(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kNamePrefix) || !name.ends_with(suffix) ||
      name.size() <= kNamePrefix.size() + suffix.size())
    return std::nullopt;
  name.remove_prefix(kNamePrefix.size());
  name.remove_suffix(suffix.size());
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

bool IsNameOfStore(std::string_view name) {
  return name == kRecordName || StepOf(name, kManifestSuffix).has_value() ||
         StepOf(name, kStateSuffix).has_value();
}

std::string UnusedFolderName(const std::string& folder, std::chrono::system_clock::time_point now,
                             const Storage& storage) {
  const std::string dated_name = Cat(folder, ".", FormatDate(now));
  std::string name = dated_name;
  for (int i = 2; storage.Exists(name); ++i) name = Cat(dated_name, ".", i);
  return name;
}

}  // namespace tern::checkpoint

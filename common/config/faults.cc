#include "common/config/faults.h"

#include <algorithm>
#include <cstdio>

#include "common/config/utf8.h"

namespace tern::config {
namespace {

constexpr size_t kMaxLines = 200;        // The most faults that a message lists.
constexpr size_t kMaxExcerptBytes = 60;  // The most bytes of a value that a message shows.

}  // namespace

std::string Excerpt(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= kMaxExcerptBytes) return shown + "...";
    const size_t character_bytes = PrintableSize(text);
    if (character_bytes > 0) {
      shown += text.substr(0, character_bytes);
    } else if (text[0] == '\n') {
      shown += "\\n";
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(text[0]));
      shown += escaped;
    }
    text.remove_prefix(std::max<size_t>(character_bytes, 1));
  }
  return shown;
}

std::string Faults::PlaceText(const Position& position) const {
  if (position.override_index >= 0)
    return override_names_[static_cast<size_t>(position.override_index)];
  return file_name_ + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
}

void Faults::Add(const Position& position, const std::string& key, const std::string& saw,
                 const std::string& allowed, const std::string& suggestion) {
  std::string fault_text =
      PlaceText(position) + ": " + (key.empty() ? "" : Excerpt(key) + ": ") + "saw " + saw;
  fault_text += suggestion.empty() ? "; allowed: " : "; did you mean " + suggestion + "? Allowed: ";
  fault_text += allowed;
  faults_.push_back({position, std::move(fault_text)});
  Mute(key);
}

bool Faults::HasFault(std::string_view key) const {
  while (true) {
    if (muted_keys_.find(key) != muted_keys_.end()) return true;
    const size_t separator_at = key.find_last_of(".[");
    if (separator_at == std::string_view::npos) return false;
    key = key.substr(0, separator_at);
  }
}

Status Faults::ToStatus() const {
  if (faults_.empty()) return Ok();
  std::vector<Fault> sorted_faults = faults_;
  std::stable_sort(sorted_faults.begin(), sorted_faults.end(), [](const Fault& a, const Fault& b) {
    if (a.position.override_index != b.position.override_index)
      return a.position.override_index < b.position.override_index;
    if (a.position.line != b.position.line) return a.position.line < b.position.line;
    return a.position.column < b.position.column;
  });
  std::string message;
  for (size_t i = 0; i < std::min(sorted_faults.size(), kMaxLines); ++i) {
    message += (i == 0 ? "" : "\n") + sorted_faults[i].text;
  }
  if (sorted_faults.size() > kMaxLines) {
    message += "\n" + file_name_ + ": and " + std::to_string(sorted_faults.size() - kMaxLines) +
               " more faults";
  }
  return Status(Code::kBadJob, message);
}

}  // namespace tern::config

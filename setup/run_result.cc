#include "setup/run_result.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/json_depth.h"

namespace tern::setup {
namespace {

constexpr uint64_t kMaxSummaryBytes = 16 << 20;
constexpr size_t kMaxSummaryDepth = 16;

std::optional<struct stat> StatFile(const std::string& path) {
  struct stat file_info = {};
  if (stat(path.c_str(), &file_info) != 0) return std::nullopt;
  return file_info;
}

// Returns whether two weights files are the same file, unchanged. A run that writes weights creates
// a new file and renames it.
bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Returns the exit code in a summary file; empty if the file is not a summary.
std::optional<int> ReadExitCode(const std::string& path) {
  const Result<std::string> text = ReadWholeFile(path, kMaxSummaryBytes);
  if (!text.ok() || !JsonNestsAtMost(*text, kMaxSummaryDepth)) return std::nullopt;
  const nlohmann::json summary = nlohmann::json::parse(*text, nullptr, false);
  if (!summary.is_object() || !summary.contains("code")) return std::nullopt;
  const nlohmann::json& code = summary["code"];
  return code.is_number_integer() ? std::optional<int>(code.get<int>()) : std::nullopt;
}

}  // namespace

RunResult::RunResult(std::string folder, std::string name)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      earlier_weights_(StatFile(weights_path())) {
  const std::optional<int> code = ReadExitCode(summary_path());
  const bool was_stopped =
      code == static_cast<int>(Code::kInterrupted) || code == static_cast<int>(Code::kTerminated);
  // Daemons that were started by hand leave weights and no summary here.
  const bool may_have_weights = was_stopped || !code.has_value();
  const bool has_weights = earlier_weights_.has_value() && S_ISREG(earlier_weights_->st_mode);
  is_worth_keeping_ = code == 0 || (may_have_weights && has_weights);
}

RunResult::WrittenSummary RunResult::WriteSummary(const std::string& summary, int code) const {
  const std::optional<struct stat> new_weights = StatFile(weights_path());
  const bool wrote_weights =
      new_weights.has_value() &&
      (!earlier_weights_.has_value() || !IsSameFile(*new_weights, *earlier_weights_));
  WrittenSummary written_summary;
  written_summary.kept_earlier_result = code != 0 && is_worth_keeping_ && !wrote_weights;
  written_summary.path = written_summary.kept_earlier_result ? failed_path() : summary_path();
  written_summary.status = WriteFileAtomically(written_summary.path, summary + "\n");
  if (written_summary.status.ok() && !written_summary.kept_earlier_result)
    unlink(failed_path().c_str());
  return written_summary;
}

}  // namespace tern::setup

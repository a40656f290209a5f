#include "tools/forecast/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "common/algorithm/algorithms.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "tools/command_table.h"

namespace tern::tools {

namespace {

constexpr double kMaxMbit = 1e7;
constexpr double kMaxWorkers = 1024;  // The limit of the job's key workers.count.

std::vector<std::string> SplitAtCommas(const std::string& list) {
  std::vector<std::string> entries;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    entries.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return entries;
}

struct Range {
  double min, max;
  bool excludes_min = false;  // `min` itself is not allowed.
  bool is_whole = false;      // Only whole numbers are allowed.
};

Result<double> ParseNumber(const std::string& flag, const std::string& text, const Range& range) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  const bool is_large_enough = range.excludes_min ? value > range.min : value >= range.min;
  if (is_number && is_large_enough && value <= range.max &&
      (!range.is_whole || value == std::floor(value)))
    return value;
  return Status(Code::kUsage,
                Cat("--", flag, ": saw '", Printable(text),
                    "'; allowed: ", range.is_whole ? "a whole number" : "a number",
                    range.excludes_min ? " above " : " from ", range.min, " to ", range.max));
}

// Stores the values of numeric flags in variables. Keeps the first error in status().
class NumberFlags {
 public:
  explicit NumberFlags(const setup::Arguments& arguments) : arguments_(arguments) {}

  // Stores the value of the flag, multiplied by `factor`, if the flag is present.
  void StoreNumber(const std::string& flag, const Range& range, double factor, double* target) {
    if (arguments_.LastValue(flag).empty() && !arguments_.HasFlag(flag)) return;
    if (const auto value = ParseNumber(flag, arguments_.LastValue(flag), range); value.ok()) {
      *target = *value * factor;
    } else if (status_.ok()) {
      status_ = value.status();
    }
  }
  template <typename T>
  void StoreList(const std::string& flag, const Range& range, std::vector<T>* target) {
    target->clear();
    for (const std::string& text : SplitAtCommas(arguments_.LastValue(flag))) {
      if (const auto value = ParseNumber(flag, text, range); value.ok()) {
        target->push_back(static_cast<T>(*value));
      } else if (status_.ok()) {
        status_ = value.status();
      }
    }
  }
  const Status& status() const { return status_; }

 private:
  const setup::Arguments& arguments_;
  Status status_;
};

Result<std::vector<std::string>> ParseNames(const setup::Arguments& arguments,
                                            const std::string& flag,
                                            const std::vector<std::string>& known_names) {
  if (!arguments.HasFlag(flag)) return std::vector<std::string>();
  std::vector<std::string> names = SplitAtCommas(arguments.LastValue(flag));
  for (const std::string& name : names) {
    if (std::find(known_names.begin(), known_names.end(), name) == known_names.end()) {
      return Status(Code::kUsage,
                    Cat("--", flag, ": saw '", Printable(name), "'; allowed: ", Join(known_names)));
    }
  }
  return names;
}

Status CheckFlags(const setup::Arguments& arguments, const ForecastOptions& options) {
  const auto usage_error = [](const std::string& sentence) {
    return setup::UsageError(CommandCalled("tern forecast").def, sentence);
  };
  const size_t num_jobs = arguments.positional().size() + arguments.AllValues("job").size();
  if (!options.wants_paper_model && num_jobs != 1)
    return usage_error(Cat("saw ", num_jobs, " job files, expected one"));
  if (!options.wants_paper_model) return Ok();
  // The performance model of the paper uses only its own constants.
  for (const char* flag : {"set", "link_mbit", "worker_link_mbit", "latency_us", "burst_kib",
                           "queue_ms", "cores_shared", "workers", "workers_a_host", "codecs",
                           "algorithms", "profile", "save_profile"}) {
    if (arguments.HasFlag(flag)) return usage_error(Cat("--paper takes no --", flag));
  }
  return num_jobs == 0 ? Ok() : usage_error("--paper takes no job");
}

}  // namespace

Result<ForecastOptions> ParseForecastOptions(const setup::Arguments& arguments) {
  ForecastOptions options;
  options.wants_paper_model = arguments.HasFlag("paper");
  TERN_RETURN_IF_ERROR(CheckFlags(arguments, options));
  if (!arguments.positional().empty()) options.job = arguments.positional().front();
  if (arguments.HasFlag("job")) options.job = arguments.LastValue("job");
  options.overrides = arguments.AllValues("set");
  options.profile_path = arguments.LastValue("profile");
  options.save_profile_path = arguments.LastValue("save_profile");
  options.csv_path = arguments.LastValue("csv");
  auto codecs = ParseNames(arguments, "codecs", codec::CodecNames());
  if (!codecs.ok()) return codecs.status();
  options.codecs = std::move(*codecs);
  auto algorithms = ParseNames(arguments, "algorithms", algorithm::AlgorithmNames());
  if (!algorithms.ok()) return algorithms.status();
  options.algorithms = std::move(*algorithms);
  NumberFlags number_flags(arguments);
  double shared_cores = 0, workers_a_host = 1;
  const Range rate_range{0, kMaxMbit, true}, delay_range{0, 1e6};
  number_flags.StoreList("link_mbit", rate_range, &options.link_mbit);
  number_flags.StoreNumber("worker_link_mbit", {0, kMaxMbit}, 1, &options.network.worker_mbit);
  number_flags.StoreNumber("latency_us", delay_range, 1e-6, &options.network.latency_s);
  number_flags.StoreNumber("compute_ms", {0, 1e7}, 1e-3, &options.compute_s);
  number_flags.StoreNumber("burst_kib", {0, 1e6}, 1024, &options.network.burst_bytes);
  number_flags.StoreNumber("queue_ms", delay_range, 1e-3, &options.network.queue_s);
  number_flags.StoreNumber("cores_shared", {0, 4096, false, true}, 1, &shared_cores);
  number_flags.StoreNumber("workers_a_host", {1, kMaxWorkers, false, true}, 1, &workers_a_host);
  number_flags.StoreList("workers", {1, kMaxWorkers, false, true}, &options.workers);
  options.network.cores_shared = static_cast<uint32_t>(shared_cores);
  options.network.workers_a_host = static_cast<uint32_t>(workers_a_host);
  if (!number_flags.status().ok()) return number_flags.status();
  return options;
}

}  // namespace tern::tools

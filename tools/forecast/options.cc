#include "tools/forecast/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "common/algorithm/algorithms.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "tools/arguments.h"

namespace tern::tools {

const char* const kPredictUsage =
    "tern predict JOB [--set KEY=VALUE]... [--link_mbit X,...] [--worker_link_mbit X] "
    "[--latency_us X] [--burst_kib X] [--queue_ms X] [--cores_shared N] [--workers N,...] "
    "[--codecs NAME,...] [--algorithms NAME,...] [--profile FILE] [--save_profile FILE] [--csv "
    "FILE]; tern predict --paper [--csv FILE]";

namespace {

constexpr double kMaxMbit = 1e7;
constexpr double kMaxWorkers = 127;  // The limit of the job's key workers.count.

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

struct Range {
  double min, max;
  bool above_min = false;  // `min` itself is not allowed.
  bool whole = false;      // Only whole numbers are allowed.
};

Result<double> NumberOf(const std::string& flag, const std::string& text, const Range& range) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  const bool is_large_enough = range.above_min ? value > range.min : value >= range.min;
  if (is_number && is_large_enough && value <= range.max &&
      (!range.whole || value == std::floor(value)))
    return value;
  return Status(Code::kUsage,
                Cat("--", flag, ": saw '", Printable(text),
                    "'; allowed: ", range.whole ? "a whole number" : "a number",
                    range.above_min ? " above " : " from ", range.min, " to ", range.max));
}

// Stores the numbers that flags give in variables. Keeps the first error in status().
class NumberFlags {
 public:
  explicit NumberFlags(const Arguments& arguments) : arguments_(arguments) {}

  // Stores the value of the flag, multiplied by `factor`, if the flag is present.
  void Number(const std::string& flag, const Range& range, double factor, double* into) {
    if (!arguments_.Has(flag)) return;
    if (const auto value = NumberOf(flag, arguments_.Last(flag, ""), range); value.ok()) {
      *into = *value * factor;
    } else if (status_.ok()) {
      status_ = value.status();
    }
  }
  template <typename T>
  void List(const std::string& flag, const Range& range, std::vector<T>* into) {
    if (!arguments_.Has(flag)) return;
    into->clear();
    for (const std::string& text : Split(arguments_.Last(flag, ""))) {
      if (const auto value = NumberOf(flag, text, range); value.ok()) {
        into->push_back(static_cast<T>(*value));
      } else if (status_.ok()) {
        status_ = value.status();
      }
    }
  }
  const Status& status() const { return status_; }

 private:
  const Arguments& arguments_;
  Status status_;
};

Result<std::vector<std::string>> NamesOf(const Arguments& arguments, const std::string& flag,
                                         const std::vector<std::string>& known) {
  if (!arguments.Has(flag)) return std::vector<std::string>();
  std::vector<std::string> names = Split(arguments.Last(flag, ""));
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Status(Code::kUsage,
                    Cat("--", flag, ": saw '", Printable(name), "'; allowed: ", Join(known)));
    }
  }
  return names;
}

Status CheckFlags(const Arguments& arguments, const PredictOptions& options) {
  const auto usage_error = [](const std::string& sentence) {
    return Status(Code::kUsage, sentence + "\nusage: " + kPredictUsage);
  };
  const size_t files = arguments.positional().size() + arguments.All("job").size();
  if (!options.paper && files != 1)
    return usage_error(Cat("saw ", files, " job files, expected one"));
  if (!options.paper) return Ok();
  // The paper's model uses only its own constants.
  for (const char* flag :
       {"set", "link_mbit", "worker_link_mbit", "latency_us", "burst_kib", "queue_ms",
        "cores_shared", "workers", "codecs", "algorithms", "profile", "save_profile"}) {
    if (arguments.Has(flag)) return usage_error(Cat("--paper takes no --", flag));
  }
  return files == 0 ? Ok() : usage_error("--paper takes no job");
}

}  // namespace

Result<PredictOptions> ParsePredictOptions(const std::vector<std::string>& args) {
  const auto arguments = Arguments::Parse(args,
                                          {{"job"},
                                           {"set"},
                                           {"link_mbit"},
                                           {"worker_link_mbit"},
                                           {"latency_us"},
                                           {"burst_kib"},
                                           {"queue_ms"},
                                           {"cores_shared"},
                                           {"workers"},
                                           {"codecs"},
                                           {"algorithms"},
                                           {"profile"},
                                           {"save_profile"},
                                           {"csv"},
                                           {"paper", false}},
                                          kPredictUsage);
  if (!arguments.ok()) return arguments.status();
  PredictOptions options;
  options.paper = arguments->Has("paper");
  TERN_RETURN_IF_ERROR(CheckFlags(*arguments, options));
  if (!arguments->positional().empty()) options.job = arguments->positional().front();
  options.job = arguments->Last("job", options.job);
  options.overrides = arguments->All("set");
  options.profile = arguments->Last("profile", "");
  options.save_profile = arguments->Last("save_profile", "");
  options.csv = arguments->Last("csv", "");
  auto codecs = NamesOf(*arguments, "codecs", codec::CodecNames());
  if (!codecs.ok()) return codecs.status();
  options.codecs = std::move(*codecs);
  auto algorithms = NamesOf(*arguments, "algorithms", algorithm::AlgorithmNames());
  if (!algorithms.ok()) return algorithms.status();
  options.algorithms = std::move(*algorithms);
  NumberFlags number_flags(*arguments);
  double cores = 0;
  const Range rate{0, kMaxMbit, true}, wait{0, 1e6};
  number_flags.List("link_mbit", rate, &options.link_mbit);
  number_flags.Number("worker_link_mbit", {0, kMaxMbit}, 1, &options.network.worker_mbit);
  number_flags.Number("latency_us", wait, 1e-6, &options.network.latency_s);
  number_flags.Number("burst_kib", {0, 1e6}, 1024, &options.network.burst_bytes);
  number_flags.Number("queue_ms", wait, 1e-3, &options.network.queue_s);
  number_flags.Number("cores_shared", {0, 4096, false, true}, 1, &cores);
  number_flags.List("workers", {1, kMaxWorkers, false, true}, &options.workers);
  options.network.cores_shared = static_cast<uint32_t>(cores);
  if (!number_flags.status().ok()) return number_flags.status();
  return options;
}

}  // namespace tern::tools

#include "tools/run/job_trace.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/json_depth.h"
#include "common/base/text.h"
#include "setup/command_line.h"

namespace tern::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxPartBytes = uint64_t{1} << 30;
constexpr size_t kMaxPartDepth = 8;

// A time, or an interval of times, in microseconds on the clock of this machine.
struct Interval {
  double begin = 0, end = 0;
};

bool IsEvent(const json& event) {
  if (!event.is_object() || !event.contains("name") || !event["name"].is_string()) return false;
  return std::all_of(event.items().begin(), event.items().end(), [](const auto& member) {
    return (member.key() != "ts" && member.key() != "dur") || member.value().is_number();
  });
}

// When the event happened; nullopt for names of processes and threads.
std::optional<Interval> TimeOf(const json& event) {
  if (!event.contains("ts")) return std::nullopt;
  const double begin = event["ts"];
  return Interval{begin, begin + event.value("dur", 0.0)};
}

// A span comes before those that it contains.
bool IsBefore(const Interval& a, const Interval& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
}

// Reads the file of a daemon. An empty object if there is none, or it is damaged.
json ReadPart(const std::string& path) {
  const Result<std::string> text = ReadWholeFile(path, kMaxPartBytes);
  if (!text.ok() || !JsonNestsAtMost(*text, kMaxPartDepth)) return json::object();
  json part = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool is_whole =
      part.is_object() && part.contains("traceEvents") && part["traceEvents"].is_array() &&
      std::all_of(part["traceEvents"].begin(), part["traceEvents"].end(), IsEvent) &&
      part.contains("droppedEvents") && part["droppedEvents"].is_number_unsigned();
  return is_whole ? part : json::object();
}

// Collects the events of all daemons; those of workers must come first.
class Merger {
 public:
  void Add(const json& events, bool is_worker) {
    for (const json& event : events) {
      const std::optional<Interval> time = TimeOf(event);
      if (!time.has_value()) {
        names_.push_back(event.dump());
        continue;
      }
      if (is_worker && event["name"] == "step") AddStep(*time);
      const bool is_outside = time->end < steps_.begin || time->begin > steps_.end;
      if (!is_worker && num_steps_ != 0 && is_outside) continue;
      events_.emplace_back(*time, event);
    }
  }
  size_t num_steps() const { return num_steps_; }

  // The events in the order of their beginnings, the first at 0.
  std::string Text() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto& a, const auto& b) { return IsBefore(a.first, b.first); });
    std::vector<std::string> lines = names_;
    for (auto& [time, event] : events_) {
      // The format's unit is a microsecond; the clock's resolution is a nanosecond.
      event["ts"] = std::round((time.begin - events_.front().first.begin) * 1000) / 1000;
      lines.push_back(event.dump());
    }
    return Cat("{\"traceEvents\":[\n", Join(lines, ",\n"), "\n]}\n");
  }

 private:
  void AddStep(const Interval& step) {
    ++num_steps_;
    steps_ = {std::min(steps_.begin, step.begin), std::max(steps_.end, step.end)};
  }

  Interval steps_ = {std::numeric_limits<double>::max(), 0};  // from the first to the last step
  size_t num_steps_ = 0;
  std::vector<std::string> names_;
  std::vector<std::pair<Interval, json>> events_;
};

}  // namespace

JobTrace::JobTrace(std::string output_dir, uint32_t servers, uint32_t workers)
    : output_dir_(std::move(output_dir)) {
  for (uint32_t rank = 0; rank < workers; ++rank)
    parts_.push_back({Cat("worker ", rank), setup::TracePath(output_dir_, "worker", rank), true});
  for (uint32_t shard = 0; shard < servers; ++shard)
    parts_.push_back(
        {Cat("server ", shard), setup::TracePath(output_dir_, "server", shard), false});
}

void JobTrace::RemoveOldFiles() const {
  unlink(MergedPath().c_str());
  for (const Part& part : parts_) unlink(part.path.c_str());
}

JobTrace::Written JobTrace::Merge() const {
  Merger merger;
  std::vector<std::string> missing_daemons;
  uint64_t num_dropped = 0;
  for (const Part& part : parts_) {
    const json content = ReadPart(part.path);
    if (content.empty()) {
      missing_daemons.push_back(part.daemon);
      continue;
    }
    num_dropped += content["droppedEvents"].get<uint64_t>();
    merger.Add(content["traceEvents"], part.is_worker);
  }
  Written written;
  written.status = WriteFileAtomically(MergedPath(), merger.Text());
  if (!written.status.ok()) return written;
  for (const Part& part : parts_) unlink(part.path.c_str());
  written.sentence = Cat("the trace is in ", MergedPath(), "; open it in ui.perfetto.dev");
  if (merger.num_steps() == 0) written.sentence += "; no worker has recorded a step";
  if (!missing_daemons.empty())
    written.sentence += Cat("; it lacks what had no orderly end: ", Join(missing_daemons));
  if (num_dropped != 0)
    written.sentence +=
        Cat("; ", Thousands(num_dropped), " events had no room: record fewer steps");
  return written;
}

}  // namespace tern::tools

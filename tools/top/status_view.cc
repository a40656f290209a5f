#include "tools/top/status_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/json_depth.h"
#include "common/base/text.h"

namespace tern::tools {

namespace {

using nlohmann::json;

constexpr size_t kMaxEvents = 5, kMaxCellBytes = 200, kMaxDepth = 8;

// Reading members of a JSON object that may lack them or have others in their place.
const json& Member(const json& object, const char* key) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}
std::optional<double> Number(const json& object, const char* key) {
  const json& member = Member(object, key);
  if (!member.is_number() || !std::isfinite(member.get<double>())) return std::nullopt;
  return member.get<double>();
}
const json& Elements(const json& object, const char* key) {
  static const json kNone = json::array();
  const json& member = Member(object, key);
  return member.is_array() ? member : kNone;
}
std::string Text(const json& object, const char* key) {
  const json& member = Member(object, key);
  return member.is_string() ? PrintableSentence(member.get<std::string>(), kMaxCellBytes) : "";
}

constexpr const char* kUnknown = "-";
std::string CountText(std::optional<double> n) { return n ? FormatWith("%.0f", *n) : kUnknown; }
std::string PercentText(std::optional<double> n) {
  return n ? FormatWith("%.0f%%", 100 * *n) : kUnknown;
}
std::string LossText(std::optional<double> n) { return n ? FormatWith("%.4g", *n) : kUnknown; }
std::string SecondsText(std::optional<double> s) {
  if (!s || *s < 0 || *s > 1e9) return kUnknown;
  return HumanTime(Time(static_cast<int64_t>(*s * 1e9)));
}
// At most six characters.
std::string SilenceText(std::optional<double> s) {
  return s && *s >= 0 && *s < 59.95 ? FormatWith("%.1f s", *s) : SecondsText(s);
}
std::string SpeedText(std::optional<double> n) {
  return n ? FormatWith(*n < 99.5 ? "%.3g" : "%.0f", *n) : kUnknown;
}
std::string BytesText(std::optional<double> n) {
  if (!n || *n < 0 || *n > 1e18) return kUnknown;
  return HumanBytes(static_cast<uint64_t>(*n));
}

bool IsBad(const std::string& state) {
  static const std::array kGood = {"training", "done", "waiting", "joining", "planning"};
  return std::find(kGood.begin(), kGood.end(), state) == kGood.end();
}

struct Column {
  const char* heading;
  int width;  // negative: the text is on the left
  std::string (*text)(const json& worker);
};

// The columns, the first ones for 80 characters; wider terminals have room for more of them.
const std::vector<Column> kColumns = {
    {"rank", 4, [](const json& w) { return CountText(Number(w, "rank")); }},
    {"host", -9, [](const json& w) { return Text(w, "host"); }},
    {"state", -8, [](const json& w) { return Text(w, "state"); }},
    {"silent", 6, [](const json& w) { return SilenceText(Number(w, "silent_s")); }},
    {"step", 7, [](const json& w) { return CountText(Number(w, "step")); }},
    {"sampl/s", 7, [](const json& w) { return SpeedText(Number(w, "samples_per_s")); }},
    {"comp", 4, [](const json& w) { return PercentText(Number(w, "computing")); }},
    {"code", 4, [](const json& w) { return PercentText(Number(w, "coding")); }},
    {"wait", 4, [](const json& w) { return PercentText(Number(w, "waiting")); }},
    {"up/step", 8, [](const json& w) { return BytesText(Number(w, "up_bytes_per_step")); }},
    {"down", 8, [](const json& w) { return BytesText(Number(w, "down_bytes_per_step")); }},
    {"trip", 8, [](const json& w) { return SecondsText(Number(w, "round_trip_s")); }},
    {"behind", 7, [](const json& w) { return CountText(Number(w, "lag_steps")); }},
    {"loss", 8, [](const json& w) { return LossText(Number(w, "loss")); }},
};

std::string Cell(const std::string& text, int width) {
  const auto size = static_cast<size_t>(std::abs(width));
  const std::string cut = text.substr(0, size);
  const std::string padding(size - cut.size(), ' ');
  return width < 0 ? cut + padding : padding + cut;
}

// The columns that fit. What is left of the width goes to the host.
std::vector<Column> ColumnsFor(size_t columns) {
  std::vector<Column> fitting;
  size_t used = 0;
  for (const Column& column : kColumns) {
    const size_t size = static_cast<size_t>(std::abs(column.width)) + (fitting.empty() ? 0 : 1);
    if (used + size > columns) break;
    used += size;
    fitting.push_back(column);
  }
  const size_t extra = std::min<size_t>(columns - std::min(columns, used), 24);
  if (fitting.size() > 1) fitting[1].width -= static_cast<int>(extra);
  return fitting;
}

template <typename TextOf>
std::string RowText(const std::vector<Column>& columns, const TextOf& text_of) {
  std::string row;
  for (const Column& column : columns)
    row += (row.empty() ? "" : " ") + Cell(text_of(column), column.width);
  return row;
}

std::vector<const json*> SortedWorkers(const json& workers, SortKey key) {
  std::vector<const json*> sorted;
  for (const json& worker : workers) sorted.push_back(&worker);
  const auto place = [key](const json& worker) {
    switch (key) {
      case SortKey::kRank:
        return 0.0;
      case SortKey::kState:
        return IsBad(Text(worker, "state")) ? 0.0 : 1.0;
      case SortKey::kSpeed:
        return Number(worker, "samples_per_s").value_or(0);
      case SortKey::kSilence:
        return -Number(worker, "silent_s").value_or(1e9);
    }
    return 0.0;
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const json* a, const json* b) { return place(*a) < place(*b); });
  return sorted;
}

std::string TitleOf(const json& status) {
  const json& job = Member(status, "job");
  const std::optional<double> step = Number(status, "step"), steps = Number(status, "steps");
  std::string title =
      Cat(Text(job, "name"), "  ", Text(status, "state"), "  step ", CountText(step));
  if (steps && *steps > 0 && step)
    title += Cat(" of ", CountText(steps), " (", PercentText(*step / *steps), ")");
  if (const auto left = Number(status, "left_s")) title += Cat("  ", SecondsText(left), " left");
  return title;
}

// "": there are none.
std::string CheckpointsText(const json& saved) {
  std::vector<std::string> texts;
  if (const auto step = Number(saved, "step")) {
    const auto age = Number(saved, "age_s");
    texts.push_back(Cat("checkpoint of step ", CountText(step),
                        age ? ", " + SecondsText(age) + " ago" : std::string()));
  }
  if (const auto failed = Number(saved, "failed"); failed && *failed > 0)
    texts.push_back(CountText(failed) + " checkpoints failed");
  return Join(texts, "  ");
}

std::vector<std::string> FiguresOf(const json& status) {
  std::string first = Cat("loss ", LossText(Number(status, "loss")));
  if (const auto accuracy = Number(status, "accuracy"))
    first += Cat("  accuracy ", FormatWith("%.2f %%", 100 * *accuracy), " at step ",
                 CountText(Number(status, "tested_step")));
  first += Cat("  ", SpeedText(Number(status, "samples_per_s")), " samples/s");
  const json& job = Member(status, "job");
  std::string second =
      Cat(Text(job, "model"), ", ", Text(job, "algorithm"), ", ", Text(job, "codec"));
  if (const auto up = Number(status, "up_ratio"))
    second += Cat("  ", FormatWith("%.1fx less up, ", *up),
                  FormatWith("%.1fx less down", Number(status, "down_ratio").value_or(0)));
  std::vector<std::string> lines = {first, second};
  if (std::string saved = CheckpointsText(Member(status, "checkpoints")); !saved.empty())
    lines.push_back(std::move(saved));
  return lines;
}

// Whether the job can go on without the worker: no loss stops a job that shrinks.
bool IsDispensable(const json& status, const std::string& state) {
  const json& shrinks = Member(Member(status, "job"), "shrinks");
  return shrinks.is_boolean() && shrinks.get<bool>() && state != "silent";
}

std::vector<std::string> AlarmsOf(const json& status) {
  std::vector<std::string> alarms;
  for (const json& worker : Elements(status, "workers")) {
    const std::string state = Text(worker, "state");
    if (!IsBad(state) || IsDispensable(status, state)) continue;
    if (state == "absent" && Text(status, "state") == "gathering") continue;
    alarms.push_back(Cat("worker ", CountText(Number(worker, "rank")),
                         state == "left" ? " has " : " is ", state, ", not heard for ",
                         SilenceText(Number(worker, "silent_s"))));
  }
  for (const json& shard : Elements(status, "servers")) {
    if (Text(shard, "state") != "present")
      alarms.push_back(
          Cat("server shard ", CountText(Number(shard, "shard")), " is ", Text(shard, "state")));
  }
  return alarms;
}

}  // namespace

const char* NameOf(SortKey key) {
  constexpr std::array kNames = {"rank", "state", "speed", "silence"};
  return kNames[static_cast<size_t>(key)];
}

Result<std::vector<ViewLine>> ViewStatus(const std::string& status_json,
                                         const ViewOptions& options) {
  const json status =
      JsonNestsAtMost(status_json, kMaxDepth) ? json::parse(status_json, nullptr, false) : json();
  if (!Member(status, "job").is_object() || !Member(status, "workers").is_array())
    return Status(Code::kBadData,
                  "the answer is not the status of a job; is this the port of server shard 0?");
  std::vector<ViewLine> lines = {{TitleOf(status), LineKind::kTitle}};
  for (std::string& figures : FiguresOf(status))
    lines.push_back({std::move(figures), LineKind::kText});
  if (const std::vector<std::string> alarms = AlarmsOf(status); !alarms.empty())
    lines.push_back({Join(alarms, "; "), LineKind::kAlarm});
  const std::vector<Column> columns = ColumnsFor(options.columns);
  lines.push_back({RowText(columns, [](const Column& c) { return std::string(c.heading); }),
                   LineKind::kHeading});

  std::vector<std::string> events;
  for (const json& event : Elements(status, "events")) events.push_back(Text(event, "text"));
  const size_t num_events = std::min(kMaxEvents, events.size());
  const std::vector<const json*> workers = SortedWorkers(Member(status, "workers"), options.sort);
  size_t num_rows = workers.size();
  if (options.rows != 0) {  // Workers have the first call on the room; events get what is left.
    const size_t room = options.rows - std::min(options.rows, lines.size());
    if (num_rows > room) num_rows = room > 0 ? room - 1 : 0;
  }
  for (size_t i = 0; i < num_rows; ++i) {
    const json& worker = *workers[i];
    lines.push_back({RowText(columns, [&](const Column& c) { return c.text(worker); }),
                     IsBad(Text(worker, "state")) ? LineKind::kBadRow : LineKind::kRow});
  }
  if (num_rows < workers.size())
    lines.push_back({Cat("... and ", workers.size() - num_rows, " more workers"), LineKind::kText});
  for (size_t i = 0; i < num_events; ++i) {
    if (options.rows != 0 && lines.size() >= options.rows) break;
    lines.push_back({events[events.size() - 1 - i], LineKind::kText});  // the newest first
  }
  for (ViewLine& line : lines)
    if (line.text.size() > options.columns) line.text.resize(options.columns);
  return lines;
}

}  // namespace tern::tools

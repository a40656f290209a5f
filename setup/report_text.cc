// The progress line, and the table at the end of a job, made from the JSON lines of report.h.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/config/utf8.h"
#include "setup/report.h"

namespace tern::setup {

using nlohmann::json;

namespace {

// The text with all bytes escaped that are no printable UTF-8: `tern run` and `tern launch` read
// the JSON line from another process.
std::string ForTerminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t char_bytes = config::PrintableSize(text);
    out += char_bytes == 0 ? Printable(text.substr(0, 1)) : text.substr(0, char_bytes);
    text.remove_prefix(std::max<size_t>(1, char_bytes));
  }
  return out;
}

// The fields of a JSON line, and their text for people. A number reads as 0 if the field is missing
// or is not a number (a loss that is not finite is null).
class JsonFields {
 public:
  explicit JsonFields(const std::string& line) : object_(json::parse(line, nullptr, false)) {}

  bool valid() const { return object_.is_object(); }
  bool Has(const char* key) const { return object_.contains(key); }
  bool IsNumber(const char* key) const { return Has(key) && object_[key].is_number(); }
  double Number(const char* key) const { return IsNumber(key) ? object_[key].get<double>() : 0; }
  uint64_t Integer(const char* key) const {
    return IsNumber(key) && Number(key) > 0 ? object_[key].get<uint64_t>() : 0;
  }
  std::string CountText(const char* key) const { return std::to_string(Integer(key)); }
  std::string GroupedText(const char* key) const { return Thousands(Integer(key)); }
  std::string BytesText(const char* key) const { return HumanBytes(Integer(key)); }
  std::string TimeText(const char* key) const { return FormatWith("%.1f s", Number(key)); }
  std::string Text(const char* key) const {
    return Has(key) && object_[key].is_string() ? ForTerminal(object_[key].get<std::string>()) : "";
  }
  // Returns a list of numbers as text: "0, 2" for [0, 2].
  std::string ListText(const char* key) const {
    std::vector<std::string> items;
    if (!Has(key) || !object_[key].is_array()) return "";
    for (const json& item : object_[key]) {
      if (item.is_number_unsigned()) items.push_back(std::to_string(item.get<uint64_t>()));
    }
    return Join(items);
  }
  // Returns a list of texts.
  std::vector<std::string> Texts(const char* key) const {
    std::vector<std::string> texts;
    if (!Has(key) || !object_[key].is_array()) return texts;
    for (const json& item : object_[key]) {
      if (item.is_string()) texts.push_back(ForTerminal(item.get<std::string>()));
    }
    return texts;
  }
  bool IsTrue(const char* key) const { return Has(key) && object_[key] == true; }
  std::string LossText(const char* key) const {
    return IsNumber(key) ? FormatWith("%.4f", Number(key)) : "not finite";
  }

 private:
  json object_;
};

using TableRows = std::vector<std::pair<std::string, std::string>>;

void AddJobRows(const JsonFields& fields, TableRows* rows) {
  rows->emplace_back("job", fields.Text("job"));
  rows->emplace_back("parameters", fields.CountText("parameters"));
  std::string workers = fields.CountText("workers");
  if (const std::string lost = fields.ListText("lost"); !lost.empty())
    workers = fields.CountText("present") + " of " + workers + " (without worker " + lost + ")";
  rows->emplace_back("servers, workers", fields.CountText("servers") + ", " + workers);
  std::string steps = fields.CountText("rounds");
  if (fields.Integer("steps") > fields.Integer("rounds"))
    steps += " of " + fields.CountText("steps");
  if (fields.Integer("from_step") > 0)
    steps += " (last went on from step " + fields.CountText("from_step") + ")";
  rows->emplace_back("steps", steps);
  if (fields.Integer("failed_checkpoints") > 0) {
    rows->emplace_back("checkpoints",
                       fields.CountText("failed_checkpoints") +
                           " COULD NOT BE WRITTEN; the logs of those daemons say why");
  }
}

void AddTimeRows(const JsonFields& fields, TableRows* rows) {
  const auto time_and_share = [&fields](const char* key) {
    return fields.TimeText(key) +
           FormatWith(" (%.1f %%)", fields.Number("train_s") > 0
                                        ? 100 * fields.Number(key) / fields.Number("train_s")
                                        : 0);
  };
  rows->emplace_back("training time", fields.TimeText("train_s"));
  rows->emplace_back("  computing", time_and_share("compute_s"));
  rows->emplace_back("  waiting for sums", time_and_share("communication_s"));
  rows->emplace_back("  waiting for data", time_and_share("data_s"));
  rows->emplace_back("  decoding, updating", time_and_share("decode_s"));
  rows->emplace_back("  encoding", fields.TimeText("encode_s") + " (in parallel with computing)");
  if (fields.Number("checkpoint_s") > 0)
    rows->emplace_back("writing checkpoints", fields.TimeText("checkpoint_s"));
}

void AddStepRows(const JsonFields& fields, TableRows* rows) {
  const auto ms_text = [&fields](const char* key) {
    return FormatWith("%.3f ms", 1000 * fields.Number(key));
  };
  rows->emplace_back("a step", ms_text("step_s"));
  if (fields.IsTrue("overlaps_exchanges")) {
    rows->emplace_back("  OD-SGD's model", ms_text("step_s_equation_2") + " (equation 2), " +
                                               ms_text("step_s_bounded") +
                                               " with the link as a bound");
    rows->emplace_back("  T_cop, T_com", ms_text("t_cop_s") + ", " + ms_text("t_com_s"));
  }
  std::string gradients = fields.CountText("gradients");
  if (fields.IsTrue("has_local_steps"))
    gradients += ", " + fields.CountText("local_steps") + " of them local steps";
  for (const char* key : {"late", "dropped"}) {
    if (fields.Integer(key) > 0) gradients += ", " + fields.CountText(key) + " " + key;
  }
  rows->emplace_back("gradients", gradients);
  if (fields.Has("mean_staleness"))
    rows->emplace_back("staleness",
                       FormatWith("%.2f in the mean", fields.Number("mean_staleness")));
}

void AddTrafficRows(const JsonFields& fields, TableRows* rows) {
  const auto link_text = [&fields](const char* bytes, const char* per_step, const char* ratio) {
    return fields.BytesText(bytes) + ", " + fields.BytesText(per_step) + " a worker and step" +
           FormatWith(", %.2fx smaller than fp32", fields.Number(ratio));
  };
  rows->emplace_back("up-link", link_text("up_bytes", "up_bytes_per_step", "up_ratio"));
  rows->emplace_back("down-link", link_text("down_bytes", "down_bytes_per_step", "down_ratio"));
  rows->emplace_back("all frames", fields.BytesText("all_up_bytes") + " up, " +
                                       fields.BytesText("all_down_bytes") + " down, " +
                                       fields.CountText("refusals") + " rejected");
}

void AddQualityRows(const JsonFields& fields, TableRows* rows) {
  if (fields.Has("train_loss")) rows->emplace_back("training loss", fields.LossText("train_loss"));
  if (fields.Has("accuracy")) {
    const double num_correct = fields.Number("accuracy") * fields.Number("test_samples");
    rows->emplace_back("test accuracy",
                       FormatWith("%.2f %% (", 100 * fields.Number("accuracy")) +
                           Thousands(static_cast<uint64_t>(std::llround(num_correct))) + " of " +
                           fields.GroupedText("test_samples") + " images)");
    rows->emplace_back("test loss", fields.LossText("test_loss"));
  }
  if (fields.Has("best_accuracy")) {
    rows->emplace_back(
        "best evaluation",
        FormatWith("%.2f %% after step ", 100 * fields.Number("best_accuracy")) +
            fields.CountText("best_step") +
            (fields.IsTrue("stopped_early") ? "; train.stop_when ended the job" : ""));
  }
  if (fields.Has("weights_path")) {
    rows->emplace_back("weights", "in " + fields.Text("weights_path") + " of worker " +
                                      fields.CountText("weights_rank") + ", because " +
                                      fields.Text("weights_error"));
  }
  if (fields.Has("parameters_hash")) {
    rows->emplace_back(
        "replicas", std::string(fields.IsTrue("replicas_agree") ? "agree" : "DIFFER") + ", hash " +
                        fields.Text("parameters_hash"));
  }
}

// What ProgressLine shows, from left to right. The parts with the largest rank are left out first.
class LineParts {
 public:
  // `rank` 0: never left out.
  void Add(int rank, std::string text) { parts_.emplace_back(rank, std::move(text)); }
  std::string Fit(size_t max_columns) const {
    int max_rank = 0;
    for (const auto& [rank, text] : parts_) max_rank = std::max(max_rank, rank);
    while (max_rank > 0 && LineOf(max_rank).size() > max_columns) --max_rank;
    return LineOf(max_rank);
  }

 private:
  std::string LineOf(int max_rank) const {
    std::vector<std::string> texts;
    for (const auto& [rank, text] : parts_) {
      if (rank <= max_rank) texts.push_back(text);
    }
    return Join(texts, "  ");
  }

  std::vector<std::pair<int, std::string>> parts_;
};

// Returns by how much a value has grown since `previous`, or since the start if `previous` is not
// valid.
double GrowthSince(const JsonFields& current, const JsonFields& previous, const char* key) {
  return current.Number(key) - (previous.valid() ? previous.Number(key) : 0);
}

}  // namespace

std::string SummaryTable(const std::string& summary_json) {
  const JsonFields fields(summary_json);
  if (!fields.valid()) return "no summary\n";
  TableRows rows;
  const bool has_trained = fields.Integer("samples") > 0;
  if (fields.Integer("code") != 0 && fields.Integer("rounds") == 0 && !has_trained) return "";
  AddJobRows(fields, &rows);
  if (has_trained) {
    rows.emplace_back("samples", fields.CountText("samples") +
                                     FormatWith(", %.0f a second", fields.Number("samples_per_s")));
    AddTimeRows(fields, &rows);
    AddStepRows(fields, &rows);
    AddTrafficRows(fields, &rows);
  }
  AddQualityRows(fields, &rows);
  for (const std::string& sentence : fields.Texts("advice")) rows.emplace_back("advice", sentence);
  if (fields.Has("wall_s")) {
    rows.emplace_back(
        "whole run", fields.TimeText("wall_s") + ", " + fields.CountText("restarts") + " restarts");
  }
  if (fields.Has("code")) rows.emplace_back("exit code", fields.CountText("code"));
  size_t name_width = 0;
  for (const auto& [name, value] : rows) name_width = std::max(name_width, name.size());
  std::string table;
  for (const auto& [name, value] : rows) {
    table += "  " + name + std::string(name_width - name.size() + 2, ' ') + value + "\n";
  }
  return table;
}

std::string ProgressLine(const std::string& progress_json, const std::string& previous_json,
                         size_t max_columns) {
  const JsonFields current(progress_json);
  if (!current.valid()) return "";
  const std::string workers =
      "workers " + current.CountText("present") + "/" + current.CountText("workers");
  const double rounds = current.Number("rounds"), steps = current.Number("steps");
  // Nobody knows the length of a client's job.
  const std::string step =
      "step " + current.CountText("rounds") + (steps > 0 ? "/" + current.CountText("steps") : "");
  if (rounds == 0) return "waiting for the first step  " + workers;
  if (current.Integer("samples") == 0)
    return step + "  waiting for the first step from there  " + workers;
  if (current.Integer("evaluated") < current.Integer("to_evaluate")) {
    return step + "  evaluating " + current.GroupedText("evaluated") + " of " +
           current.GroupedText("to_evaluate") + "  " + workers;
  }
  JsonFields previous(previous_json);
  // A restarted worker counts from 0, and a job that continued from a checkpoint has steps that
  // took no time in this process. In such cases the interval since `previous_json` cannot be
  // measured.
  for (const char* key : {"rounds", "samples", "train_s", "communication_s"}) {
    if (previous.valid() && GrowthSince(current, previous, key) < 0) previous = JsonFields("");
  }
  if (previous.valid() && GrowthSince(current, previous, "from_step") != 0)
    previous = JsonFields("");
  if (previous.valid() && GrowthSince(current, previous, "train_s") <= 0) previous = JsonFields("");
  const double interval_s = GrowthSince(current, previous, "train_s");
  const double speed = previous.valid() ? GrowthSince(current, previous, "samples") / interval_s
                                        : current.Number("samples_per_s");
  const double share =
      interval_s > 0 ? GrowthSince(current, previous, "communication_s") / interval_s : 0;
  LineParts parts;
  parts.Add(0, step);
  if (current.Has("loss")) parts.Add(1, "loss " + current.LossText("loss"));
  parts.Add(1, FormatWith("%.0f img/s", speed));
  parts.Add(3, FormatWith("waiting %.0f %%", 100 * share));
  // In the first steps, the bytes of a round are not complete yet.
  if (current.Integer("exchanges") > 0 && current.Integer("down_bytes_per_step") > 0) {
    parts.Add(4, HumanBytes(current.Integer("up_bytes_per_step") +
                            current.Integer("down_bytes_per_step")) +
                     " a step");
    parts.Add(5, FormatWith("%.1fx less up, ", current.Number("up_ratio")) +
                     FormatWith("%.1fx less down", current.Number("down_ratio")));
  }
  parts.Add(2, workers);
  // Without a measured interval, uses the mean time of a step in this process.
  const double rounds_done = GrowthSince(current, previous, "rounds");
  const double step_s = !previous.valid() ? current.Number("step_s")
                        : rounds_done > 0 ? interval_s / rounds_done
                                          : 0;
  if (steps > rounds && step_s > 0) {
    const double seconds_left = std::min(1e9, step_s * (steps - rounds));
    parts.Add(0, HumanTime(Time(static_cast<int64_t>(seconds_left * 1e9))) + " left");
  }
  return parts.Fit(max_columns);
}

}  // namespace tern::setup

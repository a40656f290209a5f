// The progress line, and the table at the end of a job, made from the JSON lines of report.h.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "setup/report.h"

namespace tern::setup {

using nlohmann::json;

namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The fields of a JSON line. A number reads as 0 if the field is missing or is not a number (a loss
// that is not finite is null).
class JsonFields {
 public:
  explicit JsonFields(const std::string& line) : j_(json::parse(line, nullptr, false)) {}

  bool valid() const { return j_.is_object(); }
  bool Has(const char* key) const { return j_.contains(key); }
  bool IsNumber(const char* key) const { return Has(key) && j_[key].is_number(); }
  double Number(const char* key) const { return IsNumber(key) ? j_[key].get<double>() : 0; }
  uint64_t Whole(const char* key) const {
    return IsNumber(key) && Number(key) > 0 ? j_[key].get<uint64_t>() : 0;
  }
  std::string Count(const char* key) const { return std::to_string(Whole(key)); }
  std::string Bytes(const char* key) const { return HumanBytes(Whole(key)); }
  std::string Time(const char* key) const { return Format("%.1f s", Number(key)); }
  std::string Text(const char* key) const {
    return Has(key) && j_[key].is_string() ? j_[key].get<std::string>() : "";
  }
  // Returns a list of numbers as text: "0, 2" for [0, 2].
  std::string List(const char* key) const {
    std::vector<std::string> parts;
    if (!Has(key) || !j_[key].is_array()) return "";
    for (const json& item : j_[key]) {
      if (item.is_number_unsigned()) parts.push_back(std::to_string(item.get<uint64_t>()));
    }
    return Join(parts);
  }
  bool IsTrue(const char* key) const { return Has(key) && j_[key] == true; }
  std::string Loss(const char* key) const {
    return IsNumber(key) ? Format("%.4f", Number(key)) : "not finite";
  }

 private:
  json j_;
};

using TableRows = std::vector<std::pair<std::string, std::string>>;

void AddJob(const JsonFields& f, TableRows* rows) {
  rows->emplace_back("job", f.Text("job"));
  rows->emplace_back("parameters", f.Count("parameters"));
  std::string workers = f.Count("workers");
  if (const std::string lost = f.List("lost"); !lost.empty())
    workers = f.Count("present") + " of " + workers + " (without worker " + lost + ")";
  rows->emplace_back("servers, workers", f.Count("servers") + ", " + workers);
  std::string rounds = f.Count("rounds");
  if (f.Whole("steps") > f.Whole("rounds")) rounds += " of " + f.Count("steps");
  if (f.Whole("from_step") > 0)
    rounds += " (this run went on from step " + f.Count("from_step") + ")";
  rows->emplace_back("rounds", rounds);
}

void AddTimes(const JsonFields& f, TableRows* rows) {
  const auto share = [&f](const char* key) {
    return f.Time(key) + Format(" (%.1f %%)", f.Number("train_s") > 0
                                                  ? 100 * f.Number(key) / f.Number("train_s")
                                                  : 0);
  };
  rows->emplace_back("training time", f.Time("train_s"));
  rows->emplace_back("  computing", share("compute_s"));
  rows->emplace_back("  waiting for sums", share("communication_s"));
  rows->emplace_back("  decoding, updating", share("decode_s"));
  rows->emplace_back("  encoding", f.Time("encode_s") + " (beside the computing)");
}

void AddSteps(const JsonFields& f, TableRows* rows) {
  const auto ms = [&f](const char* key) { return Format("%.3f ms", 1000 * f.Number(key)); };
  rows->emplace_back("a step", ms("step_s") + " measured; the OD-SGD model has " +
                                   ms("step_s_equation_2") + " (equation 2), " +
                                   ms("step_s_bounded") + " with the link as a bound");
  rows->emplace_back("  T_cop, T_com", ms("t_cop_s") + ", " + ms("t_com_s"));
  rows->emplace_back("gradients", f.Count("gradients") + ", " + f.Count("local_steps") +
                                      " of them local steps; " + f.Count("late") + " late, " +
                                      f.Count("dropped") + " dropped");
  if (f.Has("mean_staleness"))
    rows->emplace_back("staleness", Format("%.2f in the mean", f.Number("mean_staleness")));
}

void AddTraffic(const JsonFields& f, TableRows* rows) {
  const auto link = [&f](const char* bytes, const char* per_step, const char* ratio) {
    return f.Bytes(bytes) + ", " + f.Bytes(per_step) + " a worker and step" +
           Format(", %.2fx smaller than fp32", f.Number(ratio));
  };
  rows->emplace_back("up-link", link("up_bytes", "up_bytes_per_step", "up_ratio"));
  rows->emplace_back("down-link", link("down_bytes", "down_bytes_per_step", "down_ratio"));
  rows->emplace_back("all frames", f.Bytes("all_up_bytes") + " up, " + f.Bytes("all_down_bytes") +
                                       " down, " + f.Count("refusals") + " refused");
}

void AddQuality(const JsonFields& f, TableRows* rows) {
  if (f.Has("train_loss")) rows->emplace_back("training loss", f.Loss("train_loss"));
  if (f.Has("accuracy")) {
    rows->emplace_back("test accuracy",
                       Format("%.4f", f.Number("accuracy")) + " of " + f.Count("test_samples"));
    rows->emplace_back("test loss", f.Loss("test_loss"));
  }
  if (f.Has("parameters_hash")) {
    rows->emplace_back("replicas", std::string(f.IsTrue("replicas_agree") ? "agree" : "DIFFER") +
                                       ", hash " + f.Text("parameters_hash"));
  }
}

// Returns by how much a value has grown since `before`, or since the start if `before` is not
// valid.
double GrowthSince(const JsonFields& now, const JsonFields& before, const char* key) {
  return now.Number(key) - (before.valid() ? before.Number(key) : 0);
}

}  // namespace

std::string SummaryTable(const std::string& summary_json) {
  const JsonFields f(summary_json);
  if (!f.valid()) return "no summary\n";
  TableRows rows;
  const bool trained = f.Whole("samples") > 0;
  if (f.Whole("code") != 0 && f.Whole("rounds") == 0 && !trained) return "";
  AddJob(f, &rows);
  if (trained) {
    rows.emplace_back("samples",
                      f.Count("samples") + Format(", %.0f a second", f.Number("samples_per_s")));
    AddTimes(f, &rows);
    AddSteps(f, &rows);
    AddTraffic(f, &rows);
  }
  AddQuality(f, &rows);
  if (f.Has("wall_s")) {
    rows.emplace_back("whole run", f.Time("wall_s") + ", " + f.Count("restarts") + " restarts");
  }
  if (f.Has("code")) rows.emplace_back("exit code", f.Count("code"));
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string table;
  for (const auto& [name, value] : rows) {
    table += "  " + name + std::string(width - name.size() + 2, ' ') + value + "\n";
  }
  return table;
}

std::string ProgressLine(const std::string& progress_json, const std::string& previous_json) {
  const JsonFields now(progress_json);
  if (!now.valid()) return "";
  const std::string workers = "workers " + now.Count("present") + "/" + now.Count("workers");
  const double rounds = now.Number("rounds"), steps = now.Number("steps");
  const std::string step = "step " + now.Count("rounds") + "/" + now.Count("steps");
  if (rounds == 0) return "waiting for the first step  " + workers;
  if (now.Whole("samples") == 0)
    return step + "  waiting for the first step from there  " + workers;
  JsonFields before(previous_json);
  // A restarted worker counts from 0, and a job that continued from a checkpoint has steps that
  // took no time in this process. In such cases the interval since `previous_json` cannot be
  // measured.
  for (const char* key : {"rounds", "samples", "train_s", "communication_s"}) {
    if (before.valid() && GrowthSince(now, before, key) < 0) before = JsonFields("");
  }
  if (before.valid() && GrowthSince(now, before, "from_step") != 0) before = JsonFields("");
  if (before.valid() && GrowthSince(now, before, "train_s") <= 0) before = JsonFields("");
  const double seconds = GrowthSince(now, before, "train_s");
  const double speed =
      before.valid() ? GrowthSince(now, before, "samples") / seconds : now.Number("samples_per_s");
  const double share = seconds > 0 ? GrowthSince(now, before, "communication_s") / seconds : 0;
  std::string line = step + "  loss " + now.Loss("loss") + Format("  %.0f img/s", speed) +
                     Format("  communication %.0f %%", 100 * share) + "  " +
                     HumanBytes(now.Whole("up_bytes_per_step") + now.Whole("down_bytes_per_step")) +
                     " a step" + Format(", fp32 / %.1f up", now.Number("up_ratio")) +
                     Format(" %.1f down", now.Number("down_ratio")) + "  " + workers;
  // Without a measured interval, uses the mean time of a step in this process.
  const double done = GrowthSince(now, before, "rounds");
  const double step_s = !before.valid() ? now.Number("step_s") : done > 0 ? seconds / done : 0;
  if (steps > rounds && step_s > 0) {
    const double left = std::min(1e9, step_s * (steps - rounds));
    line += "  " + HumanTime(Time(static_cast<int64_t>(left * 1e9))) + " left";
  }
  return line;
}

}  // namespace tern::setup

#include "common/setup/report.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::setup {

using nlohmann::json;

namespace {

const std::set<std::string> kRoundTypes = {"scale", "push", "scaled", "sum"};

struct Totals {
  uint64_t rounds = 0, samples = 0;
  double compute_s = 0, encode_s = 0, decode_s = 0, wait_s = 0, train_s = 0, loss = 0;
  uint64_t refusals = 0;
  RoundTraffic traffic;
};

// Times and rounds are means over the workers, samples and bytes are sums.
Totals Total(const std::vector<WorkerEnd>& workers) {
  Totals t;
  for (const WorkerEnd& worker : workers) {
    const pb::Counters& c = worker.counters;
    t.rounds += c.rounds();
    t.samples += c.samples();
    t.compute_s += c.compute_s() / static_cast<double>(workers.size());
    t.encode_s += c.encode_s() / static_cast<double>(workers.size());
    t.decode_s += c.decode_s() / static_cast<double>(workers.size());
    t.wait_s += c.wait_s() / static_cast<double>(workers.size());
    t.train_s = std::max(t.train_s, c.train_s());
    t.loss += c.loss() / static_cast<double>(workers.size());
    t.refusals += c.refusals();
    const RoundTraffic traffic = TrafficOf(c);
    t.traffic.up += traffic.up;
    t.traffic.down += traffic.down;
    t.traffic.all_up += traffic.all_up;
    t.traffic.all_down += traffic.all_down;
  }
  return t;
}

json Figures(const Setup& setup, const std::vector<WorkerEnd>& workers) {
  const Totals t = Total(workers);
  const uint64_t parameters = setup.table.total;
  json j;
  j["job"] = setup.job.name();
  j["parameters"] = parameters;
  j["workers"] = setup.plan.workers;
  j["servers"] = setup.plan.data_lanes.size();
  j["rounds"] = workers.empty() ? 0 : t.rounds / workers.size();
  j["samples"] = t.samples;
  j["train_s"] = t.train_s;
  j["samples_per_s"] = t.train_s > 0 ? static_cast<double>(t.samples) / t.train_s : 0;
  j["loss"] = t.loss;
  j["compute_s"] = t.compute_s;
  j["encode_s"] = t.encode_s;
  j["decode_s"] = t.decode_s;
  j["wait_s"] = t.wait_s;
  j["wait_share"] = t.train_s > 0 ? t.wait_s / t.train_s : 0;
  j["up_bytes"] = t.traffic.up;
  j["down_bytes"] = t.traffic.down;
  j["all_up_bytes"] = t.traffic.all_up;
  j["all_down_bytes"] = t.traffic.all_down;
  j["up_ratio"] = RatioToFp32(parameters, t.rounds, t.traffic.up);
  j["down_ratio"] = RatioToFp32(parameters, t.rounds, t.traffic.down);
  j["refusals"] = t.refusals;
  return j;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

RoundTraffic TrafficOf(const pb::Counters& counters) {
  RoundTraffic traffic;
  for (const pb::Traffic& row : counters.traffic()) {
    traffic.all_up += row.bytes_out();
    traffic.all_down += row.bytes_in();
    if (!kRoundTypes.contains(row.type())) continue;
    traffic.up += row.bytes_out();
    traffic.down += row.bytes_in();
  }
  return traffic;
}

double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes) {
  return bytes == 0 ? 0 : 4.0 * static_cast<double>(parameters) * static_cast<double>(rounds) / static_cast<double>(bytes);
}

std::string ProgressJson(const Setup& setup, const std::vector<WorkerEnd>& workers, uint64_t steps, uint32_t present) {
  json j = Figures(setup, workers);
  j["event"] = "progress";
  j["steps"] = steps;
  j["present"] = present;
  return j.dump();
}

std::string SummaryJson(const Setup& setup, const std::vector<WorkerEnd>& workers, const Status& status) {
  json j = Figures(setup, workers);
  j["event"] = "ended";
  j["code"] = ExitCode(status);
  j["sentence"] = status.message();
  if (!workers.empty() && workers.front().figures.test_samples() > 0) {
    const pb::Figures& f = workers.front().figures;
    j["accuracy"] = static_cast<double>(f.test_correct()) / static_cast<double>(f.test_samples());
    j["test_loss"] = f.test_loss() / static_cast<double>(f.test_samples());
    j["test_samples"] = f.test_samples();
    if (f.train_samples() > 0) j["train_loss"] = f.train_loss() / static_cast<double>(f.train_samples());
  }
  bool agree = !workers.empty();
  for (const WorkerEnd& worker : workers) agree &= worker.figures.parameters_hash() == workers.front().figures.parameters_hash();
  j["replicas_agree"] = agree;
  if (!workers.empty()) j["parameters_hash"] = Hex(workers.front().figures.parameters_hash());
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string SummaryTable(const std::string& summary_json) {
  const json j = json::parse(summary_json, nullptr, false);
  if (!j.is_object()) return "no summary";
  std::vector<std::string> names, values;
  const auto add = [&](const std::string& name, const std::string& value) {
    names.push_back(name);
    values.push_back(value);
  };
  const auto number = [&j](const char* key) { return j.value(key, 0.0); };
  const auto whole = [&j](const char* key) { return std::to_string(j.value(key, uint64_t{0})); };
  add("job", j.value("job", ""));
  add("parameters", whole("parameters"));
  add("servers, workers", whole("servers") + ", " + whole("workers"));
  add("rounds", whole("rounds"));
  add("samples", whole("samples") + "  (" + Format("%.0f", number("samples_per_s")) + " a second)");
  add("training time", Format("%.1f s", number("train_s")));
  add("  computing", Format("%.1f s", number("compute_s")));
  add("  encoding", Format("%.1f s", number("encode_s")) + " (beside the computing)");
  add("  decoding, updating", Format("%.1f s", number("decode_s")));
  add("  waiting for others", Format("%.1f s", number("wait_s")) + Format(" (%.1f %%)", 100 * number("wait_share")));
  add("up-link", HumanBytes(j.value("up_bytes", uint64_t{0})) + Format(", %.2fx smaller than fp32", number("up_ratio")));
  add("down-link", HumanBytes(j.value("down_bytes", uint64_t{0})) + Format(", %.2fx smaller than fp32", number("down_ratio")));
  add("all bytes up, down", HumanBytes(j.value("all_up_bytes", uint64_t{0})) + ", " + HumanBytes(j.value("all_down_bytes", uint64_t{0})));
  if (j.contains("accuracy")) {
    add("test accuracy", Format("%.4f", number("accuracy")) + " of " + whole("test_samples"));
    add("test loss", Format("%.4f", number("test_loss")));
  }
  if (j.contains("train_loss")) add("training loss", Format("%.4f", number("train_loss")));
  if (j.contains("parameters_hash")) {
    add("replicas", std::string(j.value("replicas_agree", false) ? "agree" : "DIFFER") + ", hash " + j.value("parameters_hash", ""));
  }
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string table;
  for (size_t i = 0; i < names.size(); ++i) {
    table += "  " + names[i] + std::string(width - names[i].size() + 2, ' ') + values[i] + "\n";
  }
  return table;
}

std::string ProgressLine(const std::string& progress_json) {
  const json j = json::parse(progress_json, nullptr, false);
  if (!j.is_object()) return "";
  const auto number = [&j](const char* key) { return j.value(key, 0.0); };
  const double rounds = number("rounds");
  const double steps = number("steps");
  std::string line = Format("step %.0f", rounds) + Format("/%.0f", steps) + Format("  loss %.4f", number("loss")) +
                     Format("  %.0f img/s", number("samples_per_s")) + Format("  waiting %.0f %%", 100 * number("wait_share"));
  if (rounds > 0) {
    const double bytes = number("up_bytes") + number("down_bytes");
    line += "  " + HumanBytes(static_cast<uint64_t>(bytes / rounds / std::max(1.0, number("workers")))) + " a step";
    line += Format("  fp32 / %.1f up", number("up_ratio")) + Format(" %.1f down", number("down_ratio"));
  }
  line += Format("  workers %.0f", number("present")) + Format("/%.0f", number("workers"));
  if (rounds > 0 && steps > rounds) line += Format("  %.0f s left", number("train_s") / rounds * (steps - rounds));
  return line;
}

std::string CountersJson(const pb::Counters& c) {
  json j = {{"rounds", c.rounds()}, {"samples", c.samples()}, {"compute_s", c.compute_s()}, {"encode_s", c.encode_s()},
            {"decode_s", c.decode_s()}, {"wait_s", c.wait_s()}, {"train_s", c.train_s()}, {"refusals", c.refusals()}};
  for (const pb::Traffic& row : c.traffic()) {
    j["traffic"][row.type()] = {{"messages_in", row.messages_in()}, {"bytes_in", row.bytes_in()},
                                {"messages_out", row.messages_out()}, {"bytes_out", row.bytes_out()}};
  }
  return j.dump();
}

}  // namespace tern::setup

#include "setup/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/hash.h"
#include "setup/step_figures.h"

namespace tern::setup {

using nlohmann::json;

namespace {

// The types of messages that belong to training rounds.
const std::set<std::string> kRoundTypes = {"scale", "push", "scaled", "sum"};

struct Totals {
  uint64_t rounds = 0;  // the sum over the workers
  uint64_t samples = 0, refusals = 0;
  double samples_per_s = 0;
  double compute_s = 0, encode_s = 0, decode_s = 0, communication_s = 0, train_s = 0, loss = 0;
  RoundTraffic traffic;
};

size_t CountPresent(const std::vector<WorkerStatus>& workers) {
  return static_cast<size_t>(std::count_if(
      workers.begin(), workers.end(), [](const WorkerStatus& worker) { return worker.present; }));
}

// Times and loss are means over the present workers (over all workers if none is present).
// samples_per_s is the sum over the same workers. All other members are sums over all workers.
Totals TotalsOf(const std::vector<WorkerStatus>& workers) {
  Totals t;
  const size_t present = CountPresent(workers);
  const auto n = static_cast<double>(present == 0 ? workers.size() : present);
  for (const WorkerStatus& worker : workers) {
    const pb::Counters& c = worker.counters;
    t.rounds += c.rounds();
    t.samples += c.samples();
    t.refusals += c.refusals();
    const RoundTraffic traffic = TrafficOf(c);
    t.traffic.up += traffic.up;
    t.traffic.down += traffic.down;
    t.traffic.all_up += traffic.all_up;
    t.traffic.all_down += traffic.all_down;
    if (present != 0 && !worker.present) continue;
    if (c.train_s() > 0) t.samples_per_s += static_cast<double>(c.samples()) / c.train_s();
    t.compute_s += c.compute_s() / n;
    t.encode_s += c.encode_s() / n;
    t.decode_s += c.decode_s() / n;
    t.train_s += c.train_s() / n;
    // wait_s includes waiting at the start and during evaluations. So communication_s is at most
    // the part of train_s that is not computing or decoding.
    const double not_computing = std::max(0.0, c.train_s() - c.compute_s() - c.decode_s());
    t.communication_s += std::min(c.wait_s(), not_computing) / n;
    t.loss += c.loss() / n;
  }
  return t;
}

void AddStepFigures(const std::vector<WorkerStatus>& workers, json* j) {
  std::vector<pb::Counters> counters;
  for (const WorkerStatus& worker : workers) counters.push_back(worker.counters);
  const StepFigures f = StepFiguresOf(counters);
  (*j)["t_cop_s"] = f.t_cop_s;
  (*j)["t_com_s"] = f.t_com_s;
  (*j)["exchange_busy_s"] = f.busy_s;
  (*j)["step_s"] = f.step_s;
  (*j)["step_s_equation_2"] = f.equation_2_s();
  (*j)["step_s_bounded"] = f.bounded_s();
  (*j)["gradients"] = f.gradients;
  (*j)["exchanges"] = f.exchanges;
  (*j)["local_steps"] = f.local_steps;
  (*j)["late"] = f.late;
  (*j)["dropped"] = f.dropped;
  if (f.staleness.empty()) return;
  (*j)["staleness"] = f.staleness;
  (*j)["mean_staleness"] = f.mean_staleness;
}

json JobToJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
               const JobPosition& position) {
  const Totals t = TotalsOf(workers);
  const uint64_t parameters = setup.table.total;
  json j;
  j["job"] = setup.job.name();
  j["parameters"] = parameters;
  j["workers"] = setup.plan.workers;
  j["servers"] = setup.plan.data_lanes.size();
  j["present"] = CountPresent(workers);
  j["lost"] = json::array();
  for (const WorkerStatus& worker : workers) {
    if (!worker.present) j["lost"].push_back(worker.rank);
  }
  j["rounds"] = position.done();
  j["steps"] = position.steps();
  j["from_step"] = position.resumed_from();
  j["beginning"] = position.beginning() == 0 ? "" : Hex(position.beginning());
  j["samples"] = t.samples;
  j["samples_per_s"] = t.samples_per_s;
  j["loss"] = t.loss;
  j["train_s"] = t.train_s;
  j["compute_s"] = t.compute_s;
  j["encode_s"] = t.encode_s;
  j["decode_s"] = t.decode_s;
  j["communication_s"] = t.communication_s;
  j["communication_share"] = t.train_s > 0 ? t.communication_s / t.train_s : 0;
  j["up_bytes"] = t.traffic.up;
  j["down_bytes"] = t.traffic.down;
  j["up_bytes_per_step"] = t.rounds > 0 ? t.traffic.up / t.rounds : 0;
  j["down_bytes_per_step"] = t.rounds > 0 ? t.traffic.down / t.rounds : 0;
  j["all_up_bytes"] = t.traffic.all_up;
  j["all_down_bytes"] = t.traffic.all_down;
  j["up_ratio"] = RatioToFp32(parameters, t.rounds, t.traffic.up);
  j["down_ratio"] = RatioToFp32(parameters, t.rounds, t.traffic.down);
  j["refusals"] = t.refusals;
  AddStepFigures(workers, &j);
  return j;
}

// Returns the JSON text. Bytes that are not UTF-8 are replaced; a number that is not finite becomes
// null.
std::string Dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

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
  if (bytes == 0) return 0;
  return 4.0 * static_cast<double>(parameters) * static_cast<double>(rounds) /
         static_cast<double>(bytes);
}

std::string ProgressJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                         const JobPosition& position) {
  json j = JobToJson(setup, workers, position);
  j["event"] = "progress";
  return Dump(j);
}

std::string SummaryJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                        const JobPosition& position, const Status& status) {
  json j = JobToJson(setup, workers, position);
  j["event"] = "ended";
  j["code"] = ExitCode(status);
  j["sentence"] = status.message();
  std::vector<const pb::Figures*> finished;  // the figures of the present workers
  for (const WorkerStatus& worker : workers) {
    if (worker.present) finished.push_back(&worker.figures);
  }
  if (finished.empty()) return Dump(j);
  const auto has_hash = [](const pb::Figures* f) { return f->has_parameters_hash(); };
  const auto first = std::find_if(finished.begin(), finished.end(), has_hash);
  const pb::Figures& figures = first == finished.end() ? *finished.front() : **first;
  if (figures.test_samples() > 0) {
    const auto samples = static_cast<double>(figures.test_samples());
    j["accuracy"] = static_cast<double>(figures.test_correct()) / samples;
    j["test_loss"] = figures.test_loss() / samples;
    j["test_samples"] = figures.test_samples();
  }
  if (figures.train_samples() > 0) {
    j["train_loss"] = figures.train_loss() / static_cast<double>(figures.train_samples());
  }
  if (std::all_of(finished.begin(), finished.end(), has_hash)) {
    j["parameters_hash"] = Hex(figures.parameters_hash());
    j["replicas_agree"] = std::all_of(finished.begin(), finished.end(), [&](const pb::Figures* f) {
      return f->parameters_hash() == figures.parameters_hash();
    });
  }
  return Dump(j);
}

std::optional<ProgressUpdate> ParseProgressUpdate(const std::string& json_line) {
  const json j = json::parse(json_line, nullptr, false);
  if (!j.is_object() || !j.contains("event")) return std::nullopt;
  const auto get_number = [&j](const char* key) {
    const auto found = j.find(key);
    return found != j.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  };
  const auto text = [&j](const char* key) {
    const auto found = j.find(key);
    return found != j.end() && found->is_string() ? found->get<std::string>() : "";
  };
  ProgressUpdate update;
  update.ended = text("event") == "ended";
  if (!update.ended && text("event") != "progress") return std::nullopt;
  update.code = static_cast<int>(get_number("code"));
  update.sentence = text("sentence");
  update.rounds = get_number("rounds");
  update.from_step = get_number("from_step");
  update.samples = get_number("samples");
  update.beginning = text("beginning");
  update.workers = static_cast<uint32_t>(get_number("workers"));
  update.present = static_cast<uint32_t>(get_number("present"));
  return update;
}

std::string RunSummaryJson(const std::string& newest, const RunEnd& end) {
  json j = json::parse(newest, nullptr, false);
  if (!j.is_object()) j = json::object();
  j["event"] = "ended";
  j["code"] = end.code;
  j["sentence"] = end.sentence;
  j["restarts"] = end.restarts;
  j["wall_s"] = end.wall_s;
  return Dump(j);
}

std::string CountersJson(const pb::Counters& c) {
  json j = {{"rounds", c.rounds()},
            {"samples", c.samples()},
            {"compute_s", c.compute_s()},
            {"encode_s", c.encode_s()},
            {"decode_s", c.decode_s()},
            {"wait_s", c.wait_s()},
            {"train_s", c.train_s()},
            {"loss", c.loss()},
            {"refusals", c.refusals()},
            {"steps", c.steps()},
            {"job_step", c.job_step()},
            {"late", c.late()},
            {"dropped", c.dropped()},
            {"exchanges", c.exchanges()},
            {"exchange_s", c.exchange_s()},
            {"exchange_busy_s", c.exchange_busy_s()},
            {"clamped", c.clamped()},
            {"control_round_trips", c.control_round_trips()},
            {"control_round_trip_s", c.control_round_trip_s()},
            {"control_round_trip_max_s", c.control_round_trip_max_s()}};
  for (const uint64_t pushes : c.staleness()) j["staleness"].push_back(pushes);
  for (const pb::Traffic& row : c.traffic()) {
    j["traffic"][row.type()] = {{"messages_in", row.messages_in()},
                                {"bytes_in", row.bytes_in()},
                                {"messages_out", row.messages_out()},
                                {"bytes_out", row.bytes_out()}};
  }
  return Dump(j);
}

}  // namespace tern::setup

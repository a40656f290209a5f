#include "setup/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/algorithm/facts.h"
#include "common/base/hash.h"
#include "setup/advice.h"
#include "setup/step_figures.h"

namespace tern::setup {

using nlohmann::json;

namespace {

void AddStepFigures(const std::vector<WorkerStatus>& workers, json* fields) {
  std::vector<pb::Counters> counters;
  for (const WorkerStatus& worker : workers) counters.push_back(worker.counters);
  const StepFigures figures = StepFiguresOf(counters);
  (*fields)["t_cop_s"] = figures.t_cop_s;
  (*fields)["t_com_s"] = figures.t_com_s;
  (*fields)["exchange_busy_s"] = figures.busy_s;
  (*fields)["step_s"] = figures.step_s;
  (*fields)["step_s_equation_2"] = figures.equation_2_s();
  (*fields)["step_s_bounded"] = figures.bounded_s();
  (*fields)["gradients"] = figures.gradients;
  (*fields)["exchanges"] = figures.exchanges;
  (*fields)["local_steps"] = figures.local_steps;
  (*fields)["late"] = figures.late;
  (*fields)["dropped"] = figures.dropped;
  if (figures.staleness.empty()) return;
  (*fields)["staleness"] = figures.staleness;
  (*fields)["mean_staleness"] = figures.mean_staleness;
}

// The program of a client's or module's job need not say its loss (Handoff::Loss).
bool KnowsLoss(const Setup& setup, double loss) {
  return !HasForeignTable(setup.job) || std::isfinite(loss);
}

json ProcessToJson(const WorkerStatus& worker) {
  const bool trains =
      worker.is_present && !worker.is_joining && worker.pid != 0 && worker.counters.job_step() > 0;
  if (!trains) return nullptr;
  return {{"pid", worker.pid}, {"step", worker.counters.job_step()}};
}

json JobToJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
               const JobPosition& position, uint64_t failed_shard_checkpoints) {
  const Totals totals = TotalsOf(workers);
  const uint64_t parameters = setup.table.total;
  json fields;
  fields["job"] = setup.job.name();
  fields["parameters"] = parameters;
  fields["workers"] = setup.plan.workers;
  fields["servers"] = setup.plan.data_lanes.size();
  fields["present"] = CountPresent(workers);
  fields["lost"] = json::array();
  for (const WorkerStatus& worker : workers) {
    if (!worker.is_present) fields["lost"].push_back(worker.rank);
  }
  fields["processes"] = json::array();
  for (const WorkerStatus& worker : workers) fields["processes"].push_back(ProcessToJson(worker));
  fields["rounds"] = position.steps_done();
  fields["steps"] = position.steps();
  fields["from_step"] = position.resumed_from();
  fields["beginning"] = position.beginning() == 0 ? "" : Hex(position.beginning());
  fields["samples"] = totals.samples;
  fields["samples_per_s"] = totals.samples_per_s;
  if (totals.loss.has_value() && KnowsLoss(setup, *totals.loss)) fields["loss"] = *totals.loss;
  fields["train_s"] = totals.train_s;
  fields["compute_s"] = totals.compute_s;
  fields["encode_s"] = totals.encode_s;
  fields["decode_s"] = totals.decode_s;
  fields["data_s"] = totals.data_s;
  fields["checkpoint_s"] = totals.checkpoint_s;
  fields["communication_s"] = totals.communication_s;
  fields["communication_share"] = totals.ShareOf(totals.communication_s);
  fields["up_bytes"] = totals.traffic.up_bytes;
  fields["down_bytes"] = totals.traffic.down_bytes;
  fields["up_bytes_per_step"] = totals.up_bytes_per_step();
  fields["down_bytes_per_step"] = totals.down_bytes_per_step();
  fields["all_up_bytes"] = totals.traffic.all_up_bytes;
  fields["all_down_bytes"] = totals.traffic.all_down_bytes;
  fields["up_ratio"] = RatioToFp32(parameters, totals.rounds, totals.traffic.up_bytes);
  fields["down_ratio"] = RatioToFp32(parameters, totals.rounds, totals.traffic.down_bytes);
  fields["refusals"] = totals.refusals;
  fields["evaluated"] = totals.evaluated;
  fields["to_evaluate"] = totals.to_evaluate;
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  const bool pushes_change = facts.pushed_quantity == pb::AlgorithmTraits::change;
  fields["overlaps_exchanges"] = facts.exchanges_ahead > 0 && !pushes_change;
  fields["has_local_steps"] = facts.period > 1 || (pushes_change && facts.num_parts > 1);
  fields["failed_checkpoints"] = totals.failed_checkpoints + failed_shard_checkpoints;
  AddStepFigures(workers, &fields);
  return fields;
}

// 0 if `object` is no object, or has no such number.
uint64_t NumberOf(const json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Returns the JSON text. Bytes that are not UTF-8 are replaced; a number that is not finite becomes
// null.
std::string JsonText(const json& fields) {
  return fields.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string ProgressJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                         const JobPosition& position, uint64_t failed_shard_checkpoints) {
  json fields = JobToJson(setup, workers, position, failed_shard_checkpoints);
  fields["event"] = "progress";
  return JsonText(fields);
}

std::string SummaryJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                        const JobPosition& position, const Status& status,
                        uint64_t failed_shard_checkpoints) {
  json fields = JobToJson(setup, workers, position, failed_shard_checkpoints);
  fields["event"] = "ended";
  fields["code"] = ExitCode(status);
  fields["sentence"] = status.message();
  if (const auto advice = AdviseOn(AdviceFactsOf(setup, workers)); !advice.empty())
    fields["advice"] = advice;
  std::vector<const pb::Figures*> figures_of_present;  // the figures of the present workers
  for (const WorkerStatus& worker : workers) {
    if (worker.is_present) figures_of_present.push_back(&worker.figures);
  }
  if (figures_of_present.empty()) return JsonText(fields);
  const auto has_hash = [](const pb::Figures* f) { return f->has_parameters_hash(); };
  const auto first_with_hash =
      std::find_if(figures_of_present.begin(), figures_of_present.end(), has_hash);
  const pb::Figures& figures =
      first_with_hash == figures_of_present.end() ? *figures_of_present.front() : **first_with_hash;
  if (figures.test_samples() > 0) {
    const auto samples = static_cast<double>(figures.test_samples());
    fields["accuracy"] = static_cast<double>(figures.test_correct()) / samples;
    fields["test_loss"] = figures.test_loss() / samples;
    fields["test_samples"] = figures.test_samples();
  }
  if (figures.evaluations().count() > 0) {
    const pb::Evaluations& evaluations = figures.evaluations();
    if (evaluations.best_step() != 0) {
      fields["best_step"] = evaluations.best_step();
      fields["best_accuracy"] = evaluations.best_accuracy();
      fields["best_test_loss"] = evaluations.best_loss();
    }
    if (evaluations.last_step() != 0 && evaluations.last_step() < position.steps())
      fields["stopped_early"] = true;
  }
  if (figures.train_samples() > 0) {
    const double loss = figures.train_loss() / static_cast<double>(figures.train_samples());
    if (KnowsLoss(setup, loss)) fields["train_loss"] = loss;
  }
  if (figures.has_weights_error() && figures.has_weights_path()) {
    fields["weights_path"] = figures.weights_path();
    fields["weights_rank"] = figures.weights_rank();
    fields["weights_error"] = figures.weights_error();
  }
  if (std::all_of(figures_of_present.begin(), figures_of_present.end(), has_hash)) {
    fields["parameters_hash"] = Hex(figures.parameters_hash());
    fields["replicas_agree"] = std::all_of(
        figures_of_present.begin(), figures_of_present.end(),
        [&](const pb::Figures* f) { return f->parameters_hash() == figures.parameters_hash(); });
  }
  return JsonText(fields);
}

std::optional<ProgressUpdate> ParseProgressUpdate(const std::string& json_line) {
  const json fields = json::parse(json_line, nullptr, false);
  if (!fields.is_object() || !fields.contains("event")) return std::nullopt;
  const auto get_number = [&fields](const char* key) { return NumberOf(fields, key); };
  const auto get_text = [&fields](const char* key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_string() ? found->get<std::string>() : "";
  };
  ProgressUpdate update;
  update.has_ended = get_text("event") == "ended";
  if (!update.has_ended && get_text("event") != "progress") return std::nullopt;
  update.code = static_cast<int>(get_number("code"));
  update.sentence = get_text("sentence");
  update.rounds = get_number("rounds");
  update.steps = get_number("steps");
  update.from_step = get_number("from_step");
  update.samples = get_number("samples");
  update.failed_checkpoints = get_number("failed_checkpoints");
  update.beginning = get_text("beginning");
  update.num_workers = static_cast<uint32_t>(get_number("workers"));
  update.num_present = static_cast<uint32_t>(get_number("present"));
  if (const auto found = fields.find("processes"); found != fields.end() && found->is_array()) {
    for (const json& process : *found)
      update.processes.push_back({NumberOf(process, "pid"), NumberOf(process, "step")});
  }
  return update;
}

std::string RunSummaryJson(const std::string& newest, const RunEnd& end) {
  json fields = json::parse(newest, nullptr, false);
  if (!fields.is_object()) fields = json::object();
  fields["event"] = "ended";
  fields["code"] = end.code;
  fields["sentence"] = end.sentence;
  fields["restarts"] = end.restarts;
  fields["wall_s"] = end.wall_s;
  return JsonText(fields);
}

std::string CountersJson(const pb::Counters& counters) {
  json fields = {{"rounds", counters.rounds()},
                 {"samples", counters.samples()},
                 {"compute_s", counters.compute_s()},
                 {"encode_s", counters.encode_s()},
                 {"decode_s", counters.decode_s()},
                 {"wait_s", counters.wait_s()},
                 {"train_s", counters.train_s()},
                 {"loss", counters.loss()},
                 {"refusals", counters.refusals()},
                 {"failed_checkpoints", counters.failed_checkpoints()},
                 {"steps", counters.steps()},
                 {"job_step", counters.job_step()},
                 {"late", counters.late()},
                 {"dropped", counters.dropped()},
                 {"exchanges", counters.exchanges()},
                 {"exchange_s", counters.exchange_s()},
                 {"exchange_busy_s", counters.exchange_busy_s()},
                 {"clamped", counters.clamped()},
                 {"control_round_trips", counters.control_round_trips()},
                 {"control_round_trip_s", counters.control_round_trip_s()},
                 {"control_round_trip_max_s", counters.control_round_trip_max_s()}};
  for (const uint64_t pushes : counters.staleness()) fields["staleness"].push_back(pushes);
  for (const pb::Traffic& row : counters.traffic()) {
    fields["traffic"][row.type()] = {{"messages_in", row.messages_in()},
                                     {"bytes_in", row.bytes_in()},
                                     {"messages_out", row.messages_out()},
                                     {"bytes_out", row.bytes_out()}};
  }
  return JsonText(fields);
}

}  // namespace tern::setup

#include "server/status/status_json.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/algorithm/elasticity.h"

namespace tern::server {

namespace {

using nlohmann::json;

json OrNull(std::optional<double> value) { return value.has_value() ? json(*value) : json(); }

json JobJson(const setup::Setup& setup) {
  const pb::Job& job = setup.job;
  return {{"name", job.name()},
          {"model", job.model().name().empty() ? "net" : job.model().name()},
          {"codec", job.exchange().codec()},
          {"algorithm", job.train().algorithm()},
          {"parameters", setup.table.total},
          {"workers", setup.plan.workers},
          {"servers", setup.plan.data_lanes.size()},
          {"shrinks", algorithm::Elasticity::FromJob(job).shrinks_on_loss()},
          {"version", TERN_VERSION},
          {"commit", setup.commit}};
}

json WorkerJson(const WorkerRow& row, double since_s) {
  const bool is_over = row.state == "done" || row.state == "left";
  const double more_s = is_over ? 0 : since_s;
  return {{"rank", row.rank},
          {"host", row.host},
          {"pid", row.pid},
          {"state", row.state},
          {"silent_s", row.silent_s.has_value() ? json(*row.silent_s + more_s) : json()},
          {"step", row.step},
          {"lag_steps", row.lag_steps},
          {"samples_per_s", row.samples_per_s},
          {"loss", OrNull(row.loss)},
          {"computing", OrNull(row.computing)},
          {"coding", OrNull(row.coding)},
          {"waiting", OrNull(row.waiting)},
          {"up_bytes_per_step", OrNull(row.up_bytes_per_step)},
          {"down_bytes_per_step", OrNull(row.down_bytes_per_step)},
          {"round_trip_s", OrNull(row.round_trip_s)}};
}

json ShardJson(const ShardRow& row, double since_s) {
  const bool is_self = row.shard == 0;
  return {{"shard", row.shard},
          {"host", row.host},
          {"state", row.state},
          {"silent_s",
           row.silent_s.has_value() ? json(*row.silent_s + (is_self ? 0 : since_s)) : json()}};
}

json HistoryJson(const JobStatus& status) {
  json losses = json::array(), tests = json::array();
  for (const LossPoint& point : status.losses) losses.push_back({point.step, point.loss});
  for (const TestPoint& point : status.tests)
    tests.push_back({point.step, point.accuracy, point.loss});
  return {{"losses", std::move(losses)}, {"tests", std::move(tests)}};
}

}  // namespace

std::string StatusJson(const setup::Setup& setup, const JobStatus& status, Time now) {
  const double since_s = Seconds(now - status.at);
  json fields;
  fields["time"] =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  fields["age_s"] = since_s;
  fields["job"] = JobJson(setup);
  fields["state"] = status.state;
  fields["step"] = status.step;
  fields["steps"] = status.steps == 0 ? json() : json(status.steps);
  fields["steps_per_s"] = status.steps_per_s;
  fields["samples_per_s"] = status.samples_per_s;
  fields["left_s"] = OrNull(status.left_s);
  fields["loss"] = OrNull(status.loss);
  fields["accuracy"] = status.tests.empty() ? json() : json(status.tests.back().accuracy);
  fields["test_loss"] = status.tests.empty() ? json() : json(status.tests.back().loss);
  fields["tested_step"] = status.tests.empty() ? json() : json(status.tests.back().step);
  fields["up_ratio"] = OrNull(status.up_ratio);
  fields["down_ratio"] = OrNull(status.down_ratio);
  fields["workers"] = json::array();
  for (const WorkerRow& row : status.workers) fields["workers"].push_back(WorkerJson(row, since_s));
  fields["servers"] = json::array();
  for (const ShardRow& row : status.shards) fields["servers"].push_back(ShardJson(row, since_s));
  fields["checkpoints"] = {
      {"every_steps", setup.job.checkpoints().every_steps()},
      {"step", status.checkpoint_step == 0 ? json() : json(status.checkpoint_step)},
      {"age_s",
       status.checkpoint_age_s.has_value() ? json(*status.checkpoint_age_s + since_s) : json()},
      {"failed", status.failed_checkpoints}};
  fields["history"] = HistoryJson(status);
  fields["events"] = json::array();
  for (const JobEvent& event : status.events) {
    fields["events"].push_back(
        {{"time", event.unix_s}, {"text", event.text}, {"times", event.times}});
  }
  // Bytes that are not UTF-8 are replaced; a number that is not finite becomes null.
  return fields.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tern::server

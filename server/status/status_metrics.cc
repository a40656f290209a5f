#include "server/status/status_metrics.h"

#include <string>

namespace tern::server {

namespace {

Gauge& OfRank(Registry& registry, const std::string& name, const std::string& help, uint32_t rank) {
  return registry.GetGauge(name, help, {{"rank", std::to_string(rank)}});
}

Counter& BytesOf(Registry& registry, const std::string& direction, uint32_t rank) {
  return registry.GetCounter("tern_job_worker_bytes_total",
                             "Bytes of all messages that the worker sent (up) and received (down)",
                             {{"rank", std::to_string(rank)}, {"direction", direction}});
}

void AddNewBytes(uint64_t bytes, uint64_t* reported_bytes, Counter* counter) {
  counter->Add(bytes < *reported_bytes ? bytes : bytes - *reported_bytes);
  *reported_bytes = bytes;
}

bool TakesPart(const WorkerRow& row) {
  return row.state != "absent" && row.state != "lost" && row.state != "left" &&
         row.state != "stuck";
}

}  // namespace

StatusMetrics::StatusMetrics(Registry& registry, uint32_t workers, const pb::Job& job)
    : registry_(registry),
      first_workers_(job.workers().count()),
      elasticity_(algorithm::Elasticity::FromJob(job)),
      workers_present_(
          registry.GetGauge("tern_server_workers_present", "Workers that take part now")),
      workers_needed_(registry.GetGauge(
          "tern_job_workers_needed",
          "Workers that the job needs now: to begin and, unless it shrinks, to go on, all; a job "
          "that shrinks needs workers.min to go on")),
      steps_(registry.GetGauge("tern_job_steps", "Steps that are done")),
      target_steps_(
          registry.GetGauge("tern_job_target_steps", "Steps of the whole job; 0: unknown")),
      loss_(registry.GetGauge("tern_job_loss", "Loss of the newest step, mean over the workers")) {
  registry.GetGauge("tern_job_workers", "Workers of the job").Set(workers);
  for (uint32_t rank = 0; rank < workers; ++rank) {
    of_workers_.push_back(
        {OfRank(registry, "tern_job_worker_lag_steps",
                "Steps by which the worker is behind the one with the most; 0: it has left, or "
                "the job goes on without it",
                rank),
         OfRank(registry, "tern_job_worker_silent_seconds",
                "Time since the newest message of the worker; 0: it has left, or the job goes on "
                "without it",
                rank),
         OfRank(registry, "tern_job_worker_samples_per_second",
                "Training samples of the worker, over the last ten seconds", rank),
         BytesOf(registry, "up", rank), BytesOf(registry, "down", rank)});
  }
}

bool StatusMetrics::IsDoneWithout(const WorkerRow& row) const {
  if (row.state == "absent" || row.state == "left" || row.state == "done") return true;
  return elasticity_.shrinks_on_loss() && !TakesPart(row);
}

void StatusMetrics::Update(const JobStatus& status) {
  steps_.Set(static_cast<double>(status.step));
  target_steps_.Set(static_cast<double>(status.steps));
  if (status.loss.has_value()) loss_.Set(*status.loss);
  int num_present = 0;
  for (size_t rank = 0; rank < status.workers.size() && rank < of_workers_.size(); ++rank) {
    const WorkerRow& row = status.workers[rank];
    if (TakesPart(row)) ++num_present;
    OfWorker& of_worker = of_workers_[rank];
    const bool is_without = IsDoneWithout(row);
    of_worker.lag_steps.Set(is_without ? 0 : static_cast<double>(row.lag_steps));
    of_worker.silent_s.Set(is_without ? 0 : row.silent_s.value_or(0));
    of_worker.samples_per_s.Set(row.samples_per_s);
    AddNewBytes(row.up_bytes, &of_worker.reported_up_bytes, &of_worker.up);
    AddNewBytes(row.down_bytes, &of_worker.reported_down_bytes, &of_worker.down);
  }
  workers_present_.Set(num_present);
  const bool needs_all = status.state == "gathering" || !elasticity_.shrinks_on_loss();
  workers_needed_.Set(needs_all ? first_workers_ : elasticity_.min_workers);
  if (!status.tests.empty()) {
    const TestPoint& test = status.tests.back();
    registry_.GetGauge("tern_job_test_accuracy", "Of the newest evaluation, from 0 to 1")
        .Set(test.accuracy);
    registry_.GetGauge("tern_job_test_loss", "Of the newest evaluation").Set(test.loss);
  }
  if (status.checkpoint_step != 0) {
    registry_.GetGauge("tern_job_checkpoint_step", "Step of the newest checkpoint of all workers")
        .Set(static_cast<double>(status.checkpoint_step));
  }
  if (status.checkpoint_age_s.has_value()) {
    registry_
        .GetGauge("tern_job_checkpoint_age_seconds",
                  "Time since the newest checkpoint of all workers was written")
        .Set(*status.checkpoint_age_s);
  }
}

}  // namespace tern::server

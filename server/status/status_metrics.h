// The metrics of the whole job, which shard 0 knows.
#pragma once

#include <cstdint>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/base/counters.h"
#include "proto/job.pb.h"
#include "server/status/job_status.h"

namespace tern::server {

class StatusMetrics {
 public:
  // `registry` outlives this object. One row of metrics for each of the job's `workers` ranks.
  StatusMetrics(Registry& registry, uint32_t workers, const pb::Job& job);
  // One thread. Metrics of evaluations and checkpoints appear with the first of them.
  void Update(const JobStatus& status);

 private:
  struct OfWorker {
    Gauge &lag_steps, &silent_s, &samples_per_s;
    // The counters grow by what the worker's processes have sent and received since the newest
    // report. A new process of shard 0 begins with 0.
    Counter &up, &down;
    uint64_t reported_up_bytes = 0, reported_down_bytes = 0;
  };

  // Whether the job goes on without the worker, or it has finished.
  bool IsDoneWithout(const WorkerRow& row) const;

  Registry& registry_;
  const uint32_t first_workers_;  // with which the job begins
  const algorithm::Elasticity elasticity_;
  Gauge &workers_present_, &workers_needed_, &steps_, &target_steps_, &loss_;
  std::vector<OfWorker> of_workers_;  // by rank
};

}  // namespace tern::server

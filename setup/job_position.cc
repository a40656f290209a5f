#include "setup/job_position.h"

#include <algorithm>

namespace tern::setup {

void JobPosition::Update(uint64_t steps, uint64_t beginning,
                         const std::vector<WorkerStatus>& workers) {
  if (steps != 0) steps_ = steps;
  if (beginning != beginning_) reached_ = resumed_from_ = 0;
  beginning_ = beginning;
  for (const WorkerStatus& worker : workers) {
    if (!worker.present || worker.joining) continue;
    const pb::Counters& c = worker.counters;
    reached_ = std::max(reached_, c.has_job_step() ? c.job_step() : c.rounds());
    resumed_from_ = std::max(resumed_from_, c.from_step());
  }
  if (reached_ != 0) done_ = reached_;
}

}  // namespace tern::setup

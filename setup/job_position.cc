#include "setup/job_position.h"

#include <algorithm>

namespace tern::setup {

void JobPosition::See(uint64_t steps, uint64_t beginning, const std::vector<WorkerEnd>& workers) {
  if (steps != 0) steps_ = steps;
  if (beginning != beginning_) reached_ = from_ = 0;
  beginning_ = beginning;
  for (const WorkerEnd& worker : workers) {
    if (!worker.there || worker.joining) continue;
    const pb::Counters& c = worker.counters;
    reached_ = std::max(reached_, c.has_job_step() ? c.job_step() : c.rounds());
    from_ = std::max(from_, c.from_step());
  }
  if (reached_ != 0) done_ = reached_;
}

}  // namespace tern::setup

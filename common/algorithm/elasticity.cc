#include "common/algorithm/elasticity.h"

#include "common/algorithm/facts.h"

namespace tern::algorithm {

Elasticity Elasticity::FromJob(const pb::Job& job) {
  Elasticity elasticity;
  const uint32_t num_backup = FactsOf(job).num_backup_workers;
  if (num_backup != 0 && num_backup < job.workers().count())
    elasticity.quorum = job.workers().count() - num_backup;
  switch (job.faults().on_worker_loss()) {
    case pb::Faults::fail:
      elasticity.on_loss = OnLoss::kFail;
      break;
    case pb::Faults::wait:
      elasticity.on_loss = OnLoss::kWait;
      break;
    case pb::Faults::shrink:
      elasticity.on_loss = OnLoss::kShrink;
      break;
  }
  elasticity.begins_with_min = job.workers().has_min();
  if (job.workers().has_min()) elasticity.min_workers = job.workers().min();
  if (job.workers().max() > job.workers().count()) elasticity.begin_workers = job.workers().count();
  return elasticity;
}

}  // namespace tern::algorithm

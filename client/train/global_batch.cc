#include "client/train/global_batch.h"

#include "common/algorithm/ranks.h"
#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::client {

void GlobalBatch::OnOutcome(const pb::Outcome::OfRound& outcome) {
  if (outcome.round() <= round_ || outcome.contributors() == 0) return;
  round_ = outcome.round();
  if (outcome.contributors() == contributors_) return;
  contributors_ = outcome.contributors();
  const bool grows = job_.train().batch_growth_size() > 0;
  const uint64_t of_worker = grows ? 0 : algorithm::BatchOfWorker(job_);
  LOG(INFO) << "from round " << round_ << " on, " << contributors_ << " of "
            << algorithm::NumRanks(job_) << " workers contribute"
            << (of_worker == 0 ? "" : Cat(": the global batch is ", contributors_ * of_worker));
}

}  // namespace tern::client

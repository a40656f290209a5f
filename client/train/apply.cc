#include "client/train/apply.h"

#include "common/algorithm/facts.h"
#include "common/base/trace.h"

namespace tern::client {

RoundApplier::RoundApplier(const setup::Setup& setup, Replica& replica, const Sums& sums)
    : setup_(setup),
      replica_(replica),
      sums_(sums),
      applies_by_bucket_(algorithm::FactsOf(setup.job).applies_by_bucket) {}

Status RoundApplier::ApplyBucket(uint64_t round, uint32_t bucket) {
  const TraceSpan span("decode, update", {.round = round, .bucket = static_cast<int32_t>(bucket)});
  return replica_.arenas().ApplyBucket(sums_, round, bucket);
}

Status RoundApplier::ApplyRound(uint64_t round) {
  if (setup_.plan.is_central) {
    TERN_RETURN_IF_ERROR(sums_.InstallWeights(round, replica_.parameters()));
    replica_.UpdateMovingAverage(0, setup_.table.total, round);
    return Ok();
  }
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b)
    TERN_RETURN_IF_ERROR(ApplyBucket(round, b));
  return Ok();
}

}  // namespace tern::client

#include "client/train/apply.h"

#include <optional>

#include "common/algorithm/facts.h"
#include "common/base/trace.h"

namespace tern::client {

RoundApplier::RoundApplier(const setup::Setup& setup, uint64_t steps, Replica& replica,
                           const Sums& sums)
    : setup_(setup),
      replica_(replica),
      sums_(sums),
      applies_by_bucket_(algorithm::FactsOf(setup.job).applies_by_bucket),
      lookahead_(algorithm::FactsOf(setup.job).lookahead, steps) {}

Status RoundApplier::ApplyBucket(uint64_t round, uint32_t bucket) {
  const TraceSpan span("decode, update", {.round = round, .bucket = static_cast<int32_t>(bucket)});
  TERN_RETURN_IF_ERROR(replica_.arenas().ApplyBucket(sums_, round, bucket));
  const std::optional<float> one_minus_decay = lookahead_.OneMinusDecay(round);
  return one_minus_decay.has_value() ? replica_.arenas().LookAhead(bucket, *one_minus_decay) : Ok();
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

#include "client/train/apply.h"

#include "common/algorithm/facts.h"

namespace tern::client {

Apply::Apply(const setup::Setup& setup, Replica& replica, const Sums& sums)
    : setup_(setup),
      replica_(replica),
      sums_(sums),
      by_bucket_(algorithm::FactsOf(setup.job).by_bucket) {}

Status Apply::Run(uint64_t round) {
  if (setup_.plan.central) {
    TERN_RETURN_IF_ERROR(sums_.Install(round, replica_.parameters()));
    replica_.Average(0, setup_.table.total, round);
    return Ok();
  }
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) TERN_RETURN_IF_ERROR(Run(round, b));
  return Ok();
}

}  // namespace tern::client

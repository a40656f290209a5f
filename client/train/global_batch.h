// Says in the log of how many samples the steps of an elastic job are, whenever that changes.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"
#include "proto/wire.pb.h"

namespace tern::client {

// Each of the workers that contribute to a round brings train.batch_total / workers.count samples,
// and the mean is over these workers, so the divisor of a round is the number of its contributors.
class GlobalBatch {
 public:
  // `job` outlives this object.
  explicit GlobalBatch(const pb::Job& job) : job_(job), contributors_(job.workers().count()) {}
  // Call with every outcome of a push, by ascending rounds. Logs if its round had another number of
  // contributors than the round before. Rounds to which nobody contributes do not count.
  void OnOutcome(const pb::Outcome::OfRound& outcome);

 private:
  const pb::Job& job_;
  uint64_t contributors_;  // to the newest round
  uint64_t round_ = 0;
};

}  // namespace tern::client

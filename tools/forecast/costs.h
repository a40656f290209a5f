// The costs of the pieces of a job's step, for `tern predict`: the profile's speeds over the plan's
// buckets and chunks, and how the algorithm strings the pieces together.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/sizes.h"

namespace tern::tools {

// Seconds on one core; bytes as in SizesOf.
struct ChunkCost {
  uint32_t shard = 0, lane = 0;  // lane from 0
  double push_bytes = 0, sum_bytes = 0;
  double encode_s = 0;  // worker
  double add_s = 0;     // server, per push
  double close_s = 0;   // server, per closed round (without rounds: per push)
};
struct BucketCost {
  double scale_bytes = 0, scaled_bytes = 0;  // 0: no scalers are shared
  uint32_t home = 0;
  double need_s = 0;     // time within the compute at which the first layer reads it
  double ready_s = 0;    // time within the compute at which its gradient is final
  double prepare_s = 0;  // worker
  double copy_s = 0;     // worker, on the compute thread, when it is ready
  double apply_s = 0;    // worker, on the compute thread, when the answers are there
  std::vector<ChunkCost> chunks;
};

// How steps and exchanges interleave.
struct Pace {
  enum class Push { kInBackward, kAfterCompute, kBeforeCompute };
  Push push = Push::kInBackward;
  uint64_t period = 1;      // steps between two exchanges
  uint64_t lag = 0;         // a step waits for the exchange that is this many before its own
  bool by_bucket = false;   // answers are applied as they arrive; else when all have arrived
  bool in_forward = false;  // a bucket of the last step is waited for when its layers need it
  bool rounds = true;       // else every push is answered at once
  bool one_bucket = false;  // an exchange has one bucket, in turn
  uint32_t enough = 0;      // pushes that close a round
  double local_s =
      0;  // per step, on the compute thread: after the compute; with a lag, after the answers
};

struct StepCosts {
  double compute_s = 0;
  double threads = 0;  // of the compute; 0: it only waits
  Pace pace;
  std::vector<BucketCost> buckets;
  std::vector<uint32_t> lanes;  // by shard
  double credit_bytes = 0;
};

// For workers with `samples` samples each. kBadData: the profile lacks something that is needed.
Result<StepCosts> CostsOf(const setup::Setup& setup, const Profile& profile,
                          const std::vector<BucketBytes>& sizes, double samples);

}  // namespace tern::tools

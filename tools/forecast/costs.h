// What each part of a job's step costs, for `tern predict`: the profile's speeds applied to the
// buckets and chunks of the exchange plan, and the order in which the algorithm does the parts.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/sizes.h"

namespace tern::tools {

// Times are seconds on one core; bytes are those of SizesOf.
struct ChunkCost {
  uint32_t shard = 0, lane = 0;  // lanes count from 0
  double push_bytes = 0, sum_bytes = 0;
  double encode_s = 0;  // on the worker
  double add_s = 0;     // on the server, per push
  double close_s = 0;   // on the server, per closed round (without rounds: per push)
};
struct BucketCost {
  double scale_bytes = 0, scaled_bytes = 0;  // 0: no scalers are shared
  uint32_t home = 0;
  double need_s = 0;     // when the first layer reads it, in seconds of the step's compute
  double ready_s = 0;    // when its gradient is final, likewise
  double prepare_s = 0;  // on the worker
  double copy_s = 0;     // on the worker's compute thread, when its gradient is final
  double apply_s = 0;    // on the worker's compute thread, when its answers have arrived
  std::vector<ChunkCost> chunks;
};

// When a step pushes its gradients, waits for answers and applies them.
struct StepPattern {
  enum class Push { kInBackward, kAfterCompute, kBeforeCompute };
  Push push = Push::kInBackward;
  uint64_t period = 1;      // steps between two exchanges
  uint64_t lag = 0;         // a step waits for the exchange this many exchanges before its own
  bool by_bucket = false;   // buckets are applied one by one as answers arrive; else all at once
  bool in_forward = false;  // the next forward waits for each bucket when its layers need it
  bool rounds = true;       // else a server answers every push at once
  bool one_bucket = false;  // every exchange has a single bucket, in turn
  uint32_t quorum = 0;      // number of pushes that close a round
  // Local update of each step on the compute thread: after the compute; with a lag, after the
  // answers.
  double local_s = 0;
};

struct StepCosts {
  double compute_s = 0;
  double threads = 0;  // threads that compute; 0: the compute is a wait and uses no core
  StepPattern pattern;
  std::vector<BucketCost> buckets;
  std::vector<uint32_t> lanes;  // by shard
  double credit_bytes = 0;
};

// The costs with `samples` samples per worker. kBadData: the profile is of another model or lacks a
// codec.
Result<StepCosts> CostsOf(const setup::Setup& setup, const Profile& profile,
                          const std::vector<BucketBytes>& sizes, double samples);

}  // namespace tern::tools

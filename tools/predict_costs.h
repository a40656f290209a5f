// What the pieces of a step take in one job, for `tern predict`: the profile's speeds over the
// plan's buckets and chunks, and how the algorithm strings them together.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "tools/predict_profile.h"
#include "tools/predict_sizes.h"

namespace tern::tools {

// Seconds on one core; bytes as SizesOf.
struct ChunkCost {
  uint32_t shard = 0, lane = 0;  // lane from 0
  double push_bytes = 0, sum_bytes = 0;
  double encode_s = 0;  // worker
  double add_s = 0;     // server, each push
  double close_s = 0;   // server, once enough have come (where every push counts: for each)
};
struct BucketCost {
  double scale_bytes = 0, scaled_bytes = 0;  // 0: no scaler is shared
  uint32_t home = 0;
  double need_s = 0;     // within the compute: the first layer reads it
  double ready_s = 0;    // within the compute: its gradient is final
  double prepare_s = 0;  // worker
  double copy_s = 0;     // worker, on the compute thread, when it is ready
  double apply_s = 0;    // worker, on the compute thread, with the answers
  std::vector<ChunkCost> chunks;
};

// How steps and exchanges go together.
struct Pace {
  enum class Push { kInBackward, kAfterCompute, kBeforeCompute };
  Push push = Push::kInBackward;
  uint64_t period = 1;      // steps between two exchanges
  uint64_t lag = 0;         // a step waits for the exchange so many before its own
  bool by_bucket = false;   // answers are applied as they come, else when all are there
  bool in_forward = false;  // a step waits for a bucket of the one before when its layers want it
  bool rounds = true;       // else every push is answered at once
  bool one_bucket = false;  // an exchange is of one bucket, in turn
  uint32_t enough = 0;      // pushes that close a round
  double local_s =
      0;  // every step, on the compute thread: after the compute; with a lag, after the answers
};

struct StepCosts {
  double compute_s = 0;
  double threads = 0;  // that compute; 0: a wait
  Pace pace;
  std::vector<BucketCost> buckets;
  std::vector<uint32_t> lanes;  // by shard
  double credit_bytes = 0;
};

// For workers with so many samples each. kBadData: the profile has not what it takes.
Result<StepCosts> CostsOf(const setup::Setup& setup, const Profile& profile,
                          const std::vector<BucketBytes>& sizes, double samples);

}  // namespace tern::tools

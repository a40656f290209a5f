// The cost of each part of a training step, for `tern forecast`: the speeds of a profile times the
// sizes in the exchange plan, and the order in which the algorithm does the parts. The plan groups
// neighbouring tensors into buckets and cuts each bucket into chunks. A worker pushes each chunk to
// a lane (a socket with a thread) of the server that holds this shard of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/sizes.h"

namespace tern::tools {

// What one chunk costs. Times are seconds on one core. Bytes include message headers.
struct ChunkCost {
  uint32_t shard = 0, lane = 0;  // The server and its lane for this chunk; lanes count from 0.
  double push_bytes = 0;         // The size of a worker's push.
  double sum_bytes = 0;          // The size of the server's answer to a worker.
  double encode_s = 0;           // For a worker to encode the chunk.
  double add_s = 0;              // For the server to add one push.
  double close_s = 0;  // For the server to compute an answer: once a round, or once per push.
  double pull_s = 0;   // For the server to code the weights that a worker pulls.
};
// What one bucket costs, in the same units.
struct BucketCost {
  // The workers may share the scalers (multipliers of the codes) of a bucket. Then a worker sends
  // `scale_bytes` to the server `home_shard` and gets `scaled_bytes` back. Otherwise both are 0.
  double scale_bytes = 0, scaled_bytes = 0;
  uint32_t home_shard = 0;
  double need_s = 0;     // From the beginning of a step's compute to its first use of the bucket.
  double ready_s = 0;    // From the beginning of a step's compute to the bucket's final gradient.
  double prepare_s = 0;  // For a worker to compute statistics and scalers.
  double copy_s = 0;     // For a worker's compute thread to copy the final gradient.
  double apply_s = 0;    // For a worker's compute thread to apply the servers' answers.
  std::vector<ChunkCost> chunks;
};

// When a step pushes its gradients, waits for answers and applies them.
struct StepPattern {
  enum class PushTime { kInBackward, kAfterCompute, kBeforeCompute };
  PushTime push_time = PushTime::kInBackward;
  uint64_t period = 1;             // Every period-th step makes an exchange.
  uint64_t lag = 0;                // A step waits for the exchange `lag` exchanges before its own.
  bool applies_by_bucket = false;  // Each bucket is applied when its own answers arrive.
  bool waits_in_forward = false;  // The next forward pass waits for a bucket when a layer needs it.
  bool has_rounds = true;         // False: a server answers each push alone, without other workers.
  bool sends_one_bucket = false;  // Each exchange carries one bucket; the buckets take turns.
  uint32_t quorum = 0;            // A server closes a round after this many pushes.
  // Seconds of the local update of each step on the compute thread. It follows the compute or, with
  // `updates_after_answers` (OD-SGD), the answers that the step waits for.
  double local_s = 0;
  bool updates_after_answers = false;
  // Whether a step pulls the weights after its compute, and pushes when it has them. Then it needs
  // `term_s` seconds of its compute thread to form the term that it adds to the gradient.
  bool pulls_first = false;
  double term_s = 0;
};

struct StepCosts {
  double compute_s = 0;
  double threads = 0;  // The number of threads that compute; 0: a step only waits, without a core.
  StepPattern pattern;
  std::vector<BucketCost> buckets;
  std::vector<uint32_t> lane_counts;  // The number of lanes of each shard.
  double credit_bytes = 0;            // The limit of a worker's unanswered bytes to a lane.
};

// Returns the costs of a step with `samples` samples per worker. `sizes` has an entry per bucket.
// Returns kBadData if the profile is of another model or lacks a codec.
Result<StepCosts> CostsOf(const setup::Setup& setup, const Profile& profile,
                          const std::vector<BucketBytes>& sizes, double samples);

}  // namespace tern::tools

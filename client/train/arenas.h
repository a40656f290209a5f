// A worker's arrays and a step's operations on them, in the host's memory (host_arenas.h) or a
// GPU's (worker/device/device_arenas.h). Each array is an arena, as long as the model: the weights
// W, the optimizer's state, the moving average of W, the gradients and, if the algorithm computes
// gradients at other weights than W, those weights and the state that updates them. Threads: the
// compute thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/exchange/sums.h"
#include "common/base/status.h"
#include "common/update/local_updater.h"
#include "common/update/optimizer.h"
#include "common/update/state_begins.h"
#include "proto/job.pb.h"

namespace tern::client {

// The host's arrays. A device copies its own arrays from and to these.
struct HostValues {
  float* weights = nullptr;
  // The weights at which gradients are computed; the same array as `weights` for most algorithms.
  float* point = nullptr;
  float* gradients = nullptr;
  float* average = nullptr;  // the moving average of the weights; null if the job has none
  update::Optimizer* optimizer = nullptr;
  update::StateBegins* state_begins = nullptr;  // of the optimizer
};

// What the host stores for the updates of w', the weights at which OD-SGD's workers compute
// gradients.
struct LocalValues {
  // `elements`: the length of the updater's arrays. REQUIRES an algorithm with a local updater.
  LocalValues(const pb::Job& job, size_t elements);

  std::unique_ptr<update::LocalUpdater> updater;
  // In step s: W(s-2), the weights after round s-2. Empty if the updater does not use them.
  std::vector<float> reference_weights;
  // Copies of the gradients of the two open rounds; those of round r are gradient_copies[r % 2].
  std::vector<float> gradient_copies[2];
};

class Arenas {
 public:
  virtual ~Arenas() = default;

  // CopyToHost updates the host's weights, optimizer state and average, if a device has newer ones.
  // CopyFromHost copies these arrays to the device after a change on the host.
  virtual Status CopyToHost() = 0;
  virtual Status CopyFromHost() = 0;

  // Adds decay * w to the gradient of tensor t; w are the weights at which the gradient was
  // computed.
  virtual Status AddDecay(uint32_t t, float decay) = 0;
  // Scales the gradients so that their 2-norm over the whole model is at most `max_norm`.
  virtual Status ClipGradients(double max_norm) = 0;
  // Updates a bucket (a range) of W with its mean gradient and the optimizer, and then the moving
  // average of W. kMismatch for invalid sums. REQUIRES that `sums` has the bucket's answers.
  virtual Status ApplyBucket(const Sums& sums, uint64_t round, uint32_t bucket) = 0;
  // Lookahead: updates the moving average of a bucket of W, average += one_minus_decay (W -
  // average), and sets W to it. REQUIRES a job with Lookahead.
  virtual Status LookAhead(uint32_t bucket, float one_minus_decay) = 0;

  // --- Operations on w' (the weights at which OD-SGD computes gradients) and its state.

  // Sets w' = W.
  virtual Status ResetToGlobal() = 0;
  // Saves W as local->reference_weights, if the updater uses reference weights.
  virtual Status SaveReference(LocalValues* local) = 0;
  // Copies the bucket's gradient, because the next backward pass overwrites it while the coder
  // still reads it. Returns the copy, as a pointer to the model's first element. At most two rounds
  // have copies at a time.
  virtual Result<const float*> RetainGradient(uint64_t round, uint32_t bucket,
                                              LocalValues* local) = 0;
  // Sets w' = W + U_local(g): OD-SGD's local update with the gradient g. `rates`: by
  // tensor.
  virtual Status MoveLocalPoint(float learning_rate, const std::vector<kernels::TensorRates>& rates,
                                LocalValues* local) = 0;
  // Copy w' and its state from a device to the host's arrays, and back.
  virtual Status CopyLocalToHost(LocalValues* local) = 0;
  virtual Status CopyLocalFromHost(LocalValues* local) = 0;
};

}  // namespace tern::client

// Where a worker's values lie, and what a step does to them there: a host's memory (host_arenas.h)
// or a GPU's (worker/device/device_arenas.h). Each is one array as long as the model: the weights
// W, the optimizer's state, their moving average, the gradients, and, where an algorithm trains at
// other weights than W, those and what moves them. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/exchange/sums.h"
#include "common/base/status.h"
#include "common/update/local_updater.h"
#include "common/update/optimizer.h"
#include "proto/job.pb.h"

namespace tern::client {

// The host's arrays. A device copies its own from them and to them.
struct HostValues {
  float* weights = nullptr;
  float* point = nullptr;  // where gradients are taken: `weights`, unless the algorithm has its own
  float* gradients = nullptr;
  float* average = nullptr;  // null: the job has none
  update::Optimizer* optimizer = nullptr;
};

// What moves w', the weights at which OD-SGD's workers take their gradients, on the host.
struct LocalValues {
  // Of as many elements as the model has, or as the caller says. REQUIRES an algorithm with a local
  // updater.
  LocalValues(const pb::Job& job, size_t elements);

  std::unique_ptr<update::LocalUpdater> updater;
  std::vector<float> before;   // W(s-2), if the compensation uses it
  std::vector<float> kept[2];  // gradients of the open rounds, by round
};

class Arenas {
 public:
  virtual ~Arenas() = default;

  // Copies weights, optimizer state and average from where they lie to the host's arrays, if those
  // are not the newest; and from the host's arrays, after a change there.
  virtual Status CopyToHost() = 0;
  virtual Status CopyFromHost() = 0;

  // g += decay w, for tensor t, where w are the weights of the gradients.
  virtual Status AddDecay(uint32_t t, float decay) = 0;
  // Scales the gradients so that their norm is at most `norm`.
  virtual Status Clip(double norm) = 0;
  // Applies the mean gradient of a bucket to W with the optimizer, and W to the average. kMismatch
  // for invalid sums. REQUIRES the bucket's answers in `sums`.
  virtual Status Apply(const Sums& sums, uint64_t round, uint32_t bucket) = 0;

  // --- Of w' and its state.

  // w' = W
  virtual Status ResetToGlobal() = 0;
  // Saves W as the weights before, if the compensation uses them.
  virtual Status SaveReference(LocalValues* local) = 0;
  // Retains the bucket's gradient for the codes of the round, while the next backward overwrites
  // it; returns where the codes find it. Two rounds are open.
  virtual Result<const float*> RetainGradient(uint64_t round, uint32_t bucket,
                                              LocalValues* local) = 0;
  // w' = W + U_local(g). `decay`: by tensor.
  virtual Status Move(float learning_rate, const std::vector<float>& decay, LocalValues* local) = 0;
  // Copies it: from where it lies to the host's arrays, and back.
  virtual Status CopyLocalToHost(LocalValues* local) = 0;
  virtual Status CopyLocalFromHost(LocalValues* local) = 0;
};

}  // namespace tern::client

// Arenas (a worker's arrays, each as long as the model, and the operations on them) in the host's
// memory.
#pragma once

#include <optional>
#include <vector>

#include "client/train/arenas.h"
#include "common/base/floats.h"
#include "setup/setup.h"
#include "setup/tensor_rates.h"

namespace tern::client {

class HostArenas : public Arenas {
 public:
  // `setup` and the arrays of `values` outlive this object.
  HostArenas(const setup::Setup& setup, const HostValues& values);

  Status CopyToHost() override { return Ok(); }
  Status CopyFromHost() override { return Ok(); }
  Status AddDecay(uint32_t t, float decay) override;
  Status ClipGradients(double max_norm) override;
  Status ApplyBucket(const Sums& sums, uint64_t round, uint32_t bucket) override;
  Status LookAhead(uint32_t bucket, float one_minus_decay) override;
  Status ResetToGlobal() override;
  Status SaveReference(LocalValues* local) override;
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket, LocalValues* local) override;
  Status MoveLocalPoint(float learning_rate, const std::vector<kernels::TensorRates>& rates,
                        LocalValues* local) override;
  Status CopyLocalToHost(LocalValues*) override { return Ok(); }
  Status CopyLocalFromHost(LocalValues*) override { return Ok(); }

 private:
  // Updates the weights [first, first + mean.size()), which belong to tensor t, with their mean
  // gradient `mean`, and then the moving average of these weights.
  void Update(uint32_t t, uint64_t first, std::span<const float> mean, const update::Step& step);
  // Does what ApplyBucket does, for optimizers that need the whole gradient of a tensor at once.
  Status ApplyTensors(const Sums& sums, uint64_t round, uint32_t bucket, const update::Step& step);

  const setup::Setup& setup_;
  const HostValues values_;
  const setup::UpdateRates rates_;
  Floats means_;  // mean gradients, for ApplyTensors
};

// If the job has evaluation.ema_decay, updates the moving average of elements [first, first +
// count) after update number `update` of the weights; updates count from 1.
void UpdateAverage(const setup::Setup& setup, const float* weights, uint64_t first, uint64_t count,
                   uint64_t update, float* average);
// Returns 1 minus the decay factor of that moving average at update number `update`, from 1;
// nullopt if the job does not have the key.
std::optional<float> OneMinusDecay(const setup::Setup& setup, uint64_t update);

}  // namespace tern::client

// Values in a host's memory.
#pragma once

#include <vector>

#include "client/train/arenas.h"
#include "common/base/floats.h"
#include "setup/setup.h"

namespace tern::client {

class HostArenas : public Arenas {
 public:
  // `setup` and the arrays outlive it.
  HostArenas(const setup::Setup& setup, const HostValues& values);

  Status CopyToHost() override { return Ok(); }
  Status CopyFromHost() override { return Ok(); }
  Status AddDecay(uint32_t t, float decay) override;
  Status Clip(double norm) override;
  Status Apply(const Sums& sums, uint64_t round, uint32_t bucket) override;
  Status ResetToGlobal() override;
  Status SaveReference(LocalValues* local) override;
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket, LocalValues* local) override;
  Status Move(float learning_rate, const std::vector<float>& decay, LocalValues* local) override;
  Status CopyLocalToHost(LocalValues*) override { return Ok(); }
  Status CopyLocalFromHost(LocalValues*) override { return Ok(); }

 private:
  // Updates elements of tensor t from `first` on with their mean gradient.
  void Update(uint32_t t, uint64_t first, std::span<const float> mean, const update::Step& step);
  // For rules that need whole tensors.
  Status ApplyTensors(const Sums& sums, uint64_t round, uint32_t bucket, const update::Step& step);

  const setup::Setup& setup_;
  const HostValues values_;
  const std::vector<float> decay_;  // by tensor, if replicas add it
  Floats means_;                    // of a bucket whose tensors are updated as a whole
};

// Updates the moving average of elements [first, first + count) after change number `update` (from
// 1) of the weights.
void UpdateAverage(const setup::Setup& setup, const float* weights, uint64_t first, uint64_t count,
                   uint64_t update, float* average);
// 1 - the decay of the moving average at that change.
float OneMinusDecay(const setup::Setup& setup, uint64_t update);

// The weight decay of each tensor at the place `where`; 0 if the job has none there.
std::vector<float> DecaysOf(const setup::Setup& setup, pb::WeightDecay::Where where);

}  // namespace tern::client

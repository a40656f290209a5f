// Implements client::Arenas, the operations of a training step on a worker's arrays (weights,
// gradients, optimizer state), for arrays that are on a GPU (device_model.h).
#pragma once

#include <vector>

#include "client/train/arenas.h"
#include "setup/setup.h"
#include "setup/tensor_rates.h"
#include "worker/device/device_model.h"

namespace tern::device {

class DeviceArenas : public client::Arenas {
 public:
  // `setup`, `model` and the arrays in `host` must outlive this object.
  DeviceArenas(const setup::Setup& setup, const client::HostValues& host, DeviceModel& model);

  Status CopyToHost() override;
  Status CopyFromHost() override;
  Status AddDecay(uint32_t t, float decay) override;
  Status ClipGradients(double norm) override;
  Status ApplyBucket(const client::Sums& sums, uint64_t round, uint32_t bucket) override;
  Status LookAhead(uint32_t bucket, float one_minus_decay) override;
  Status ResetToGlobal() override;
  Status SaveReference(client::LocalValues* local) override;
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket,
                                      client::LocalValues* local) override;
  Status MoveLocalPoint(float learning_rate, const std::vector<kernels::TensorRates>& rates,
                        client::LocalValues* local) override;
  Status CopyLocalToHost(client::LocalValues* local) override;
  Status CopyLocalFromHost(client::LocalValues* local) override;

 private:
  DeviceModel::HostCopies HostArrays() const;
  // Returns the model to a caller that will change the weights; remembers that the host's copy of
  // the weights is out of date.
  DeviceModel& MutableModel() {
    device_is_newer_ = true;
    return model_;
  }
  // Does what ApplyBucket does, for optimizers that update each element by itself: chunk by chunk,
  // where a chunk is a range of elements that is encoded and summed by itself.
  Status ApplyChunks(const client::Sums& sums, uint64_t round, uint32_t bucket,
                     const update::Step& step);
  // Does what ApplyBucket does, for optimizers that need whole tensors, such as LARS with its
  // norms.
  Status ApplyTensors(const client::Sums& sums, uint64_t round, uint32_t bucket,
                      const update::Step& step);
  // Updates evaluation.ema_decay's moving average of elements [begin, begin + count), after update
  // number `update` of the weights.
  Status UpdateAverage(uint64_t begin, uint64_t count, uint64_t update);

  // A device array that only algorithms with local weights (at which this worker computes
  // gradients) have, and the host's copy of that array.
  struct LocalCopy {
    DeviceModel::LocalArray device_array;
    float* host_array;
  };
  std::vector<LocalCopy> LocalCopiesOf(client::LocalValues* local) const;

  const setup::Setup& setup_;
  const client::HostValues host_;
  DeviceModel& model_;
  const setup::UpdateRates rates_;
  bool device_is_newer_ = false;  // Whether the device's weights are newer than the host's copy.
};

}  // namespace tern::device

// The arenas of a replica whose values are on a GPU (device_model.h).
#pragma once

#include <vector>

#include "client/train/arenas.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::device {

class DeviceArenas : public client::Arenas {
 public:
  // All arguments outlive it.
  DeviceArenas(const setup::Setup& setup, const client::HostValues& host, DeviceModel& model);

  Status CopyToHost() override;
  Status CopyFromHost() override;
  Status AddDecay(uint32_t t, float decay) override;
  Status Clip(double norm) override;
  Status Apply(const client::Sums& sums, uint64_t round, uint32_t bucket) override;
  Status ResetToGlobal() override;
  Status SaveReference(client::LocalValues* local) override;
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket,
                                      client::LocalValues* local) override;
  Status Move(float learning_rate, const std::vector<float>& decay,
              client::LocalValues* local) override;
  Status CopyLocalToHost(client::LocalValues* local) override;
  Status CopyLocalFromHost(client::LocalValues* local) override;

 private:
  DeviceModel::Host HostArrays() const;
  // The model, for changes: marks the host's arrays as stale.
  DeviceModel& MutableModel() {
    device_is_newer_ = true;
    return model_;
  }
  Status ApplyChunks(const client::Sums& sums, uint64_t round, uint32_t bucket,
                     const update::Step& step);
  // For optimizers that need whole tensors.
  Status ApplyTensors(const client::Sums& sums, uint64_t round, uint32_t bucket,
                      const update::Step& step);
  Status Average(uint64_t first, uint64_t count, uint64_t update);

  struct Local {
    DeviceModel::Local array;
    float* host;  // on the host
  };
  std::vector<Local> LocalArrays(client::LocalValues* local) const;

  const setup::Setup& setup_;
  const client::HostValues host_;
  DeviceModel& model_;
  const std::vector<float> decay_;  // by tensor, if replicas add the decay
  bool device_is_newer_ = false;    // the device's weights are newer than the host's
};

}  // namespace tern::device

// w', the weights at which OD-SGD's workers take their gradients, with its state: on the host, or
// on the device that has the model. Threads: the compute thread.
#pragma once

#include <memory>
#include <vector>

#include "client/train/replica.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/update/local_updater.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::client {

class LocalPoint {
 public:
  // Both outlive it. REQUIRES an algorithm with a local updater.
  LocalPoint(const setup::Setup& setup, Replica& replica);

  // Sets w' = W, and takes W for the previous one, too.
  Status Begin();
  // w' = W
  Status StandAtW();
  // Call before W becomes the next one: saves what the compensation needs of it.
  Status LeaveW();
  // Retains the bucket's gradient for the codes of the round, while the next backward overwrites
  // it; returns where the codes find it. Two rounds are open.
  Result<const float*> Keep(uint64_t round, uint32_t bucket);
  // w' = W + U_local(g)
  Status Move(float learning_rate);

  // Copies its state between device and host: device -> host; host -> device.
  Status Bring();
  Status Send();
  void AddState(SavedState* state);

  // The arrays that a device holds for it.
  static std::vector<device::DeviceModel::Local> Arenas(const pb::Job& job);

 private:
  using Local = device::DeviceModel::Local;
  struct Arena {
    Local local;
    float* here;
  };
  std::vector<Arena> StateHere();

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<float> kept_[2];  // gradients of the open rounds, by round
  std::vector<float> before_;   // W(s-2), if the compensation uses it
  std::unique_ptr<update::LocalUpdater> updater_;
  std::vector<float> decay_;  // by tensor, if it is not in the gradient
};

}  // namespace tern::client

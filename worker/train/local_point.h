// w', where OD-SGD's workers take their gradients, with what it is made of: here, or on the device
// where the model lies. Threads: the compute thread.
#pragma once

#include <memory>
#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "common/update/local_updater.h"
#include "worker/engine/device_model.h"
#include "worker/train/replica.h"

namespace tern::train {

class LocalPoint {
 public:
  // Both outlive it. REQUIRES an algorithm with a local updater.
  LocalPoint(const setup::Setup& setup, Replica& replica);

  // w' = W, and W is the one of before.
  Status Begin();
  // w' = W
  Status StandAtW();
  // W becomes the next one now.
  Status LeaveW();
  // The bucket's gradient stays for the codes of the round, while the next backward writes over
  // it: where they find it. Two rounds are open.
  Result<const float*> Keep(uint64_t round, uint32_t bucket);
  // w' = W + U_local(g)
  Status Move(float learning_rate);

  // Its state, seen here between Bring and Send.
  Status Bring();
  Status Send();
  void AddState(SavedState* state);

  // What a device has of it.
  static std::vector<engine::DeviceModel::Local> Arenas(const pb::Job& job);

 private:
  using Local = engine::DeviceModel::Local;
  struct Arena {
    Local local;
    float* here;
  };
  std::vector<Arena> StateHere();

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<float> kept_[2];  // gradients of the open rounds, by round
  std::vector<float> before_;   // W(s-2), where the compensation is against it
  std::unique_ptr<update::LocalUpdater> updater_;
  std::vector<float> decay_;  // by tensor, where it is not in the gradient
};

}  // namespace tern::train

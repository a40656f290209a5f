// w', the weights at which OD-SGD's workers compute their gradients, and the state of its updates.
// An Arenas object holds them, on the host or on a device. Threads: the compute thread.
#pragma once

#include <vector>

#include "client/train/arenas.h"
#include "client/train/replica.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class LocalPoint {
 public:
  // Both outlive it. REQUIRES an algorithm with a local updater.
  LocalPoint(const setup::Setup& setup, Replica& replica);

  // Sets w' = W, and uses W as the previous global weights, too.
  Status Begin();
  // w' = W
  Status ResetToGlobal() { return arenas_.ResetToGlobal(); }
  // Call before W is updated: saves W if the delay compensation needs it later.
  Status SaveReference() { return arenas_.SaveReference(&local_); }
  // Copies the bucket's gradient, as Arenas::RetainGradient says.
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket) {
    return arenas_.RetainGradient(round, bucket, &local_);
  }
  // w' = W + U_local(g)
  Status Move(float learning_rate) { return arenas_.Move(learning_rate, decay_, &local_); }

  // Copies the state from the device to the host, and back. No operation without a device.
  Status CopyToHost() { return arenas_.CopyLocalToHost(&local_); }
  Status CopyFromHost() { return arenas_.CopyLocalFromHost(&local_); }
  // Adds the state, as it is on the host, to *state.
  void AddState(SavedState* state);

 private:
  Arenas& arenas_;
  LocalValues local_;
  const std::vector<float> decay_;  // by tensor: weight decay, if it is not part of the gradient
};

}  // namespace tern::client

// w', the weights at which OD-SGD's workers take their gradients, with its state, wherever it lies.
// Threads: the compute thread.
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

  // Sets w' = W, and takes W for the previous one, too.
  Status Begin();
  // w' = W
  Status ResetToGlobal() { return arenas_.ResetToGlobal(); }
  // Call before W becomes the next one: saves what the compensation needs of it.
  Status SaveReference() { return arenas_.SaveReference(&local_); }
  // As in Arenas.
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket) {
    return arenas_.RetainGradient(round, bucket, &local_);
  }
  // w' = W + U_local(g)
  Status Move(float learning_rate) { return arenas_.Move(learning_rate, decay_, &local_); }

  // Copies its state: from where it lies to the host, and back.
  Status CopyToHost() { return arenas_.CopyLocalToHost(&local_); }
  Status CopyFromHost() { return arenas_.CopyLocalFromHost(&local_); }
  void AddState(SavedState* state);

 private:
  Arenas& arenas_;
  LocalValues local_;
  const std::vector<float> decay_;  // by tensor, if it is not in the gradient
};

}  // namespace tern::client

// w', the weights at which OD-SGD's workers compute their gradients, and the state of the updates
// of w'. An Arenas object holds both, on the host or on a device. W are the weights on which the
// workers agree. Threads: the compute thread.
#pragma once

#include <vector>

#include "client/train/arenas.h"
#include "client/train/replica.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/base/trace.h"
#include "setup/setup.h"

namespace tern::client {

class LocalPoint {
 public:
  // Both arguments outlive this object. REQUIRES an algorithm with a local updater.
  LocalPoint(const setup::Setup& setup, Replica& replica);

  // Sets w' = W, and calls SaveReference.
  Status Begin();
  // Sets w' = W.
  Status ResetToGlobal() {
    const TraceSpan span("update");
    return arenas_.ResetToGlobal();
  }
  // Call before W is updated: saves W, if the delay compensation needs W later.
  Status SaveReference() {
    const TraceSpan span("update");
    return arenas_.SaveReference(&local_values_);
  }
  // Copies the gradient of a bucket (a range of the model), because the next backward pass
  // overwrites it. Returns the copy, as a pointer to the model's first element.
  Result<const float*> RetainGradient(uint64_t round, uint32_t bucket) {
    return arenas_.RetainGradient(round, bucket, &local_values_);
  }
  // Sets w' = W + U_local(g): the algorithm's local update with the gradient g.
  Status MovePoint(float learning_rate) {
    const TraceSpan span("update");
    return arenas_.MoveLocalPoint(learning_rate, rates_, &local_values_);
  }

  // Copy w' and the state from the device to the host, and back. Without a device they do nothing.
  Status CopyToHost() { return arenas_.CopyLocalToHost(&local_values_); }
  Status CopyFromHost() { return arenas_.CopyLocalFromHost(&local_values_); }
  // Adds the state, as it is on the host, to *state.
  void AddState(SavedState* state);

 private:
  Arenas& arenas_;
  LocalValues local_values_;
  // By tensor, of U_local. The weight decay is 0 if the gradient has it.
  const std::vector<kernels::TensorRates> rates_;
};

}  // namespace tern::client

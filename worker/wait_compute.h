// Replaces computation by waiting for a calibrated time, if a job asks for it.
#pragma once

#include <memory>

#include "setup/setup.h"
#include "worker/batch_compute.h"

namespace tern::worker {

// train.compute: wait. A step takes train.compute_wait_ms (longer while this worker is slowed
// down), a third of it in Forward; a tensor is needed, and its gradient is ready, after its share
// of the time. Time spent in `need` is added. Gradients are Gaussian noise, different for each
// worker and the same in every step. `train`, of this rank's job, outlives it.
std::unique_ptr<BatchCompute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                              uint32_t rank, float* gradients);

}  // namespace tern::worker

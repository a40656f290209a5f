// Replaces computation by waiting (train.compute: wait), for benchmarks of the communication.
#pragma once

#include <memory>

#include "setup/setup.h"
#include "worker/batch_compute.h"

namespace tern::worker {

// Returns a BatchCompute whose steps take train.compute_wait_ms, a third of that in Forward; longer
// in the steps for which the job slows this worker down (train.compute_slow_factor). The time of a
// pass is divided among the tensors in proportion to their elements: Forward calls `need` before a
// tensor's time, Backward calls `ready` after it. Time spent in `need` is added to the step. The
// gradients are Gaussian noise, different for each worker and the same in every step;
// MakeWaitCompute writes them to `gradients`. `setup` and `train`, the settings of this rank, must
// outlive the BatchCompute.
std::unique_ptr<BatchCompute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                              uint32_t rank, float* gradients);

}  // namespace tern::worker

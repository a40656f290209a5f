// A worker's local step between two rounds, on a GPU.
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"
#include "kernels/update/local_step_math.h"

namespace tern::kernels {

// The arrays of a worker that trains at local weights w' between two rounds (local_step_math.h);
// null where the step has no such array. `reference` may be `point`.
struct LocalArenas {
  const float* weights = nullptr;  // the global weights W
  const float* gradients = nullptr;
  // The weights at which compensation assumes that the gradients were taken.
  const float* reference = nullptr;
  float* velocity = nullptr;
  float* mean_square = nullptr;
  float* point = nullptr;  // the local weights w'
};
// w' = W + U_local(g) of all parts. `decay`: the weight decay of each part. One launch.
[[nodiscard]] int MoveLocallyOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                      const LocalStep& step, const float* decay,
                                      const LocalArenas& model);

}  // namespace tern::kernels

// The local update of OD-SGD on a GPU: a worker moves its local weights w' between two rounds,
// while the servers compute the new global weights W.
#pragma once

#include <cstdint>

#include "kernels/device/tiling.h"
#include "kernels/update/local_step_math.h"

namespace tern::kernels {

// The arenas (arrays with all parameters) that the update uses; null if the step does not use the
// array. `reference` may be the same array as `point`.
struct LocalArenas {
  const float* weights = nullptr;  // the global weights W
  const float* gradients = nullptr;
  // The weights at which compensation assumes that the gradients were taken.
  const float* reference = nullptr;
  float* velocity = nullptr;  // the velocity of momentum
  float* mean_square =
      nullptr;             // the moving mean square of the gradient, for adaptive compensation
  float* point = nullptr;  // the local weights w'
};
// Computes w' from W and the gradients (local_step_math.h) for all parts of `tiling`. A part is a
// run of elements of one tensor; rates[p] are the rates of part p. One launch.
[[nodiscard]] int MoveLocallyOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                      const LocalStep& step, const TensorRates* rates,
                                      const LocalArenas& model);

}  // namespace tern::kernels

// Delay compensation (compensation.h) of the gradient of one element, for GPU kernels.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"
#include "kernels/update/compensation.h"

namespace tern::kernels {

// Both functions return the compensated gradient: the first with a constant lambda, the second with
// lambda divided by the root of the mean square of the gradient, which it updates in *ms.
TERN_HOST_DEVICE float CompensatedConstant(float g, float w, float backup, float lambda) {
  return g + lambda * (g * g) * (w - backup);
}

TERN_HOST_DEVICE float CompensatedAdaptive(float g, float w, float backup, float lambda, float rho,
                                           float one_minus_rho, float* ms) {
  const float square = g * g;
  const float mean_square = rho * *ms + one_minus_rho * square;
  const float scaled_lambda = lambda / sqrtf(mean_square + kCompensationEpsilon);
  *ms = mean_square;
  return g + scaled_lambda * square * (w - backup);
}

}  // namespace tern::kernels

// Delay compensation (compensation.h) of the gradient of one element, for GPU kernels.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"
#include "kernels/update/compensation.h"

namespace tern::kernels {

// Both functions return the compensated gradient: CompensatedConstant by equation 4, and
// CompensatedAdaptive, which also updates *ms, by equations 6 and 5.
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

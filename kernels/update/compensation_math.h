// Delay compensation of one element (compensation.h), for a GPU.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"
#include "kernels/update/compensation.h"

namespace tern::kernels {

TERN_HOST_DEVICE float CompensatedConstant(float g, float w, float backup, float lambda) {
  return g + lambda * (g * g) * (w - backup);
}

TERN_HOST_DEVICE float CompensatedAdaptive(float g, float w, float backup, float lambda, float rho,
                                           float one_minus_rho, float* ms) {
  const float square = g * g;
  const float mean = rho * *ms + one_minus_rho * square;
  const float scaled = lambda / sqrtf(mean + kCompensationEpsilon);
  *ms = mean;
  return g + scaled * square * (w - backup);
}

}  // namespace tern::kernels

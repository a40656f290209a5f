// Adds a gradient to the memory of deep gradient compression (equations and reasons in
// common/codec/dgc_memory.h), with the same arithmetic on CPU and GPU.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"

namespace tern::kernels {

struct DgcStep {
  float momentum = 0;  // m
  bool nesterov = false;
  double clip_norm = 0;  // 0: none
};

// The factor of a tensor's gradient. `sum_squares`: of the whole tensor.
TERN_HOST_DEVICE float DgcScale(double clip_norm, double sum_squares) {
  const double norm = sqrt(sum_squares);
  return norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1;
}

// Updates one element of V, and of U unless m is 0.
template <bool kMomentum>
TERN_HOST_DEVICE void DgcElement(const DgcStep& step, float scale, float g, float* u, float* v) {
  float moved = scale * g;
  if constexpr (kMomentum) {
    if (step.nesterov) {
      *u = step.momentum * (*u + moved);
      moved = *u + moved;
    } else {
      moved = *u = step.momentum * *u + moved;
    }
  }
  *v += moved;
}

}  // namespace tern::kernels

// Adds a gradient to the memory of deep gradient compression (equations and reasons in
// common/codec/dgc_memory.h), with the same arithmetic on CPU and GPU.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"

namespace tern::kernels {

struct DgcStep {
  float momentum = 0;  // m in dgc_memory.h
  bool nesterov = false;
  double clip_norm = 0;  // 0: none
};

// The factor that clips a tensor's gradient to the norm `clip_norm`. `sum_squares`: the sum of the
// squares of all elements of the tensor's gradient.
TERN_HOST_DEVICE float DgcScale(double clip_norm, double sum_squares) {
  const double norm = sqrt(sum_squares);
  return norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1;
}

// Adds the gradient g of one element, times `scale`, to its momentum *u (unless m is 0) and to its
// accumulated value *v.
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

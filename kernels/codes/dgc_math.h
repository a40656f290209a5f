// Adds a gradient to the memory of deep gradient compression, with the same arithmetic on CPU and
// GPU. common/codec/dgc_memory.h has the equations.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"

namespace tern::kernels {

// The settings of the update.
struct DgcStep {
  float momentum = 0;        // multiplies the momentum in each step
  bool is_nesterov = false;  // whether the momentum is Nesterov's
  double clip_norm = 0;      // the largest norm of a tensor's gradient; 0: no limit
};

// Returns the factor that clips a tensor's gradient to the norm `clip_norm`. `sum_squares` is the
// sum of the squares of all elements of the gradient.
TERN_HOST_DEVICE float DgcScale(double clip_norm, double sum_squares) {
  const double norm = sqrt(sum_squares);
  return norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1;
}

// Adds the gradient g of one element, times `scale`, to the element's momentum *u and accumulated
// value *v. If kMomentum is false, the momentum factor is 0, and u is not used.
template <bool kMomentum>
TERN_HOST_DEVICE void AddToDgcElement(const DgcStep& step, float scale, float g, float* u,
                                      float* v) {
  float increment = scale * g;
  if constexpr (kMomentum) {
    if (step.is_nesterov) {
      *u = step.momentum * (*u + increment);
      increment = *u + increment;
    } else {
      increment = *u = step.momentum * *u + increment;
    }
  }
  *v += increment;
}

}  // namespace tern::kernels

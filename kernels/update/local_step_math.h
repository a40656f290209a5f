// U_local of OD-SGD on one element, for a GPU. common/update/local_updater.h has the equations.
#pragma once

#include "kernels/device/host_device.h"
#include "kernels/update/compensation_math.h"
#include "kernels/update/optimizer_math.h"

namespace tern::kernels {

// The coefficients of one step.
struct LocalStep {
  enum class Compensation { kNone, kConstant, kAdaptive };
  bool moves = true;  // false: w' = W
  float scale = 1;    // factor of g
  Compensation compensation = Compensation::kNone;
  float lambda = 0, rho = 0, one_minus_rho = 0;
  bool velocity = false;  // whether the arena has a velocity
  float lr = 0, momentum = 0;
};

// Returns w'. Leaves `velocity` and `mean_square` alone where the step has none.
TERN_HOST_DEVICE float LocalElement(const LocalStep& step, float decay, float w, float g,
                                    float reference, float* velocity, float* mean_square) {
  float d = step.scale != 1 ? g * step.scale : g;
  if (step.compensation == LocalStep::Compensation::kConstant)
    d = CompensatedConstant(d, w, reference, step.lambda);
  if (step.compensation == LocalStep::Compensation::kAdaptive)
    d = CompensatedAdaptive(d, w, reference, step.lambda, step.rho, step.one_minus_rho,
                            mean_square);
  if (!step.moves) return w;
  const UpdateStep numbers{.lr = step.lr, .momentum = step.momentum};
  float next = w;
  if (step.velocity) {
    UpdateElement<UpdateRule::kMomentum>(numbers, {.decay = decay}, d, &next, velocity, nullptr);
  } else {
    UpdateElement<UpdateRule::kSgd>(numbers, {.decay = decay}, d, &next, nullptr, nullptr);
  }
  return next;
}

}  // namespace tern::kernels

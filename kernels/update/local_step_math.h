// OD-SGD's local update of one element, for GPU kernels: computes a local weight w' from the global
// weight W and the worker's gradient g. common/update/local_updater.h has the equations.
#pragma once

#include "kernels/device/host_device.h"
#include "kernels/update/compensation_math.h"
#include "kernels/update/optimizer_math.h"

namespace tern::kernels {

// The coefficients of one step.
struct LocalStep {
  enum class Compensation { kNone, kConstant, kAdaptive };
  bool moves = true;  // false: w' = W; only the state of the compensation is updated
  float scale = 1;    // g is multiplied by this first
  Compensation compensation = Compensation::kNone;
  float lambda = 0, rho = 0, one_minus_rho = 0;  // as in the equations of compensation.h
  bool has_momentum = false;                     // whether the update uses momentum
  float lr = 0, momentum = 0;
};

// Returns w' for the global weight w and the worker's gradient g. `rates` are those of its tensor;
// `reference` is the weight at which compensation assumes that g was computed. Changes *velocity
// and *mean_square only if the step uses them.
TERN_HOST_DEVICE float ComputeLocalWeight(const LocalStep& step, const TensorRates& rates, float w,
                                          float g, float reference, float* velocity,
                                          float* mean_square) {
  float gradient = step.scale != 1 ? g * step.scale : g;
  if (step.compensation == LocalStep::Compensation::kConstant)
    gradient = CompensatedConstant(gradient, w, reference, step.lambda);
  if (step.compensation == LocalStep::Compensation::kAdaptive)
    gradient = CompensatedAdaptive(gradient, w, reference, step.lambda, step.rho,
                                   step.one_minus_rho, mean_square);
  if (!step.moves) return w;
  const UpdateStep update{.lr = step.lr, .momentum = step.momentum};
  float new_w = w;
  if (step.has_momentum) {
    UpdateElement<UpdateRule::kMomentum>(update, rates, gradient, &new_w, velocity, nullptr);
  } else {
    UpdateElement<UpdateRule::kSgd>(update, rates, gradient, &new_w, nullptr, nullptr);
  }
  return new_w;
}

}  // namespace tern::kernels

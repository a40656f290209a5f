// The update rules of optimizer.h on one element, for GPU kernels.
#pragma once

#include <cmath>

#include "kernels/device/host_device.h"
#include "kernels/update/optimizer.h"
#include "kernels/update/tensor_rates.h"

namespace tern::kernels {

enum class UpdateRule { kSgd, kMomentum, kNesterov, kLars, kAdam, kRmsprop };

// The coefficients of one step. `rule` determines which of them are used.
struct UpdateStep {
  UpdateRule rule = UpdateRule::kSgd;
  float lr = 0, momentum = 0;
  AdamStep adam{};
  RmspropStep rmsprop{};
};

// Whether a rule has the momentum or first moment *m, and the second moment or mean square *v.
TERN_HOST_DEVICE constexpr bool HasFirstMoment(UpdateRule rule) { return rule != UpdateRule::kSgd; }
TERN_HOST_DEVICE constexpr bool HasSecondMoment(UpdateRule rule) {
  return rule == UpdateRule::kAdam || rule == UpdateRule::kRmsprop;
}

// Updates a weight *w with its gradient g. *m is the momentum or the first moment, *v the second
// moment or the mean square; rules without this state do not use the pointer.
template <UpdateRule kRule>
TERN_HOST_DEVICE void UpdateElement(const UpdateStep& s, const TensorRates& rates, float g,
                                    float* w, float* m, float* v) {
  const float d = g + rates.decay * *w;
  if constexpr (kRule == UpdateRule::kSgd) {
    *w -= (s.lr * rates.rate_times) * d;
  } else if constexpr (kRule == UpdateRule::kMomentum) {
    *m = s.momentum * *m + d;
    *w -= (s.lr * rates.rate_times) * *m;
  } else if constexpr (kRule == UpdateRule::kNesterov) {
    *m = s.momentum * *m + d;
    *w -= (s.lr * rates.rate_times) * (d + s.momentum * *m);
  } else if constexpr (kRule == UpdateRule::kLars) {
    *m = s.momentum * *m + rates.local_rate * d;
    *w -= (s.lr * rates.rate_times) * *m;
  } else if constexpr (kRule == UpdateRule::kRmsprop) {
    if (rates.rate_times == 0) return;  // The momentum has earlier rates and would move the weight.
    *v = s.rmsprop.rho * *v + s.rmsprop.one_minus_rho * (d * d);
    *m = s.rmsprop.momentum * *m +
         (s.rmsprop.lr * rates.rate_times) * (d / sqrtf(*v + s.rmsprop.epsilon));
    *w -= *m;
  } else {
    *m = s.adam.beta1 * *m + s.adam.one_minus_beta1 * d;
    *v = s.adam.beta2 * *v + s.adam.one_minus_beta2 * (d * d);
    *w -= (s.adam.rate * rates.rate_times) * (*m / (sqrtf(*v) * s.adam.root + s.adam.epsilon));
  }
}

}  // namespace tern::kernels

// U_local of OD-SGD (Algorithm 2): makes the weights w' = W + U_local(g), at which a worker
// continues while its gradient's round is in progress. It starts from W every time: local updates
// do not accumulate; only the states of momentum and mean square do. In this order:
//
//   d  = g                      grad_scale: worker_mean
//   d  = g / workers            grad_scale: global_mean
//   d  = d compensated          dcasgd_c, dcasgd_a: from `reference` to W (delay_compensation.h)
//   v  = m v + (d + decay W)    PyTorch's form, as in the optimizers
//   w' = W - lr v
//
// `none` is pure delay: w' = W. With and without momentum, the bits are those of the optimizers
// `momentum` and `sgd`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/floats.h"
#include "common/base/status.h"
#include "common/update/delay_compensation.h"
#include "kernels/update/local_step_math.h"
#include "proto/job.pb.h"

namespace tern::update {

class LocalUpdater {
 public:
  // State, as in Optimizer: "local_momentum" and "local_mean_square", if used.
  std::vector<Optimizer::StateArray> StateArrays();
  // Whether w' depends on `reference`.
  bool compensates() const { return compensation_.has_value(); }

  // Writes w_next[0, n) for elements [first, first + n); all pointers point at element `first`.
  // `reference`: the weights at which the compensation assumes that g was taken (the worker's local
  // weights, or the global weights of the step before). `learning_rate`: the schedule's; the
  // updater's own rate, if set, replaces it. `decay`: weight decay that is not in g. w_next may
  // alias `reference`, but no other array. REQUIRES exactly one call per element and step.
  void Next(const float* w_global, const float* g, const float* reference, float learning_rate,
            float* w_next, size_t n, size_t first = 0, float decay = 0);
  // The coefficients of a step, for a caller that computes on a device with the state of
  // StateArrays().
  kernels::LocalStep CoefficientsOf(float learning_rate) const;

 private:
  friend Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater&, size_t,
                                                                uint32_t);
  LocalUpdater() = default;

  bool moves_ = true;  // false for `none`
  std::optional<float> learning_rate_;
  float scale_ = 1;
  std::optional<DelayCompensation> compensation_;
  float momentum_ = 0;
  Floats velocity_;  // empty without momentum
};

// For a model of `parameters` elements and a job of `workers`. kBadJob for an unknown name.
Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater& def,
                                                       size_t parameters, uint32_t workers);
const std::vector<std::string>& LocalUpdaterNames();

}  // namespace tern::update

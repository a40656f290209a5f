// U_local of OD-SGD (Algorithm 2): computes the weights w' = W + U_local(g), at which a worker
// continues while the exchange of its gradient g is in progress. W is the global weights. Every
// call starts from W, so local updates do not accumulate; only momentum and mean square are kept.
// For each element, in this order, with the momentum factor m and the learning rate lr (the
// schedule's rate, a multiple of it, or a fixed rate of the updater's own):
//
//   d  = g                      if grad_scale is worker_mean
//   d  = g / workers            if grad_scale is global_mean
//   d  = d compensated          for dcasgd_c and dcasgd_a
//   v  = m v + (d + decay W)    as in PyTorch's SGD
//   w' = W - lr v
//
// Delay compensation (delay_compensation.h) has w_bak = `reference` and w = W.
// The updater `none` gives w' = W: gradients are only delayed. The results have the same bits as
// those of the optimizers `momentum` (with momentum) and `sgd` (without).
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
  // The arrays to save in checkpoints: "local_momentum" and "local_mean_square", if used.
  std::vector<Optimizer::StateArray> StateArrays();

  // Writes w' of elements [first, first + n) of the model to w_next[0, n); all pointers point at
  // element `first`. `reference`: the weights at which the compensation assumes that g was taken
  // (the worker's local weights, or the global weights of the step before). `learning_rate`: the
  // schedule's, from which RateOf makes the updater's. `rates`: those of the elements' tensor;
  // rates.decay is weight decay that g does not have. w_next may alias only `reference`. REQUIRES
  // exactly one call per element and step.
  void ComputeLocalWeights(const float* w_global, const float* g, const float* reference,
                           float learning_rate, float* w_next, size_t n, size_t first = 0,
                           const kernels::TensorRates& rates = {});
  // The coefficients of a step, for a caller that computes on a GPU with copies of StateArrays().
  kernels::LocalStep CoefficientsOf(float learning_rate) const;

 private:
  friend Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater&, size_t,
                                                                uint32_t);
  LocalUpdater() = default;
  // The updater's rate in a step in which the schedule's is `schedule_rate`.
  float RateOf(float schedule_rate) const;

  bool changes_weights_ = true;      // false for the updater `none`
  std::optional<float> fixed_rate_;  // replaces the schedule's rate
  double rate_times_ = 1;            // otherwise multiplies it
  float gradient_factor_ = 1;        // multiplies the gradient
  std::optional<DelayCompensation> compensation_;
  float momentum_ = 0;
  Floats velocity_;  // empty without momentum
};

// `num_parameters`: the number of elements of the model. `workers`: the number of workers of the
// job. Returns kBadJob for an unknown name.
Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater& keys,
                                                       size_t num_parameters, uint32_t workers);
const std::vector<std::string>& LocalUpdaterNames();

}  // namespace tern::update

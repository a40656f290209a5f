// U_local of OD-SGD (Algorithm 2): the weights at which a worker goes on while its gradient's round
// is under way, w' = W + U_local(g). It starts from W every time: local updates never add up, only
// the state of its momentum and mean square does.
//
//   d  = g, or g / workers (grad_scale)
//   d  = d compensated from the point of reference to W   (dcasgd_c, dcasgd_a;
//   delay_compensation.h) v  = m v + (d + decay W); w' = W - lr v               (PyTorch's form, as
//   the optimizers')
//
// `none` is pure delay: w' = W. With momentum and without, the bits are those of the optimizers
// `momentum` and `sgd`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/floats.h"
#include "common/base/status.h"
#include "common/update/delay_compensation.h"
#include "kernels/local_step_inl.h"
#include "proto/job.pb.h"

namespace tern::update {

class LocalUpdater {
 public:
  // State, as an optimizer's: "local_momentum", "local_mean_square", where there is any.
  std::vector<Optimizer::Slot> Slots();
  // Whether w' depends on `reference`.
  bool compensates() const { return compensation_.has_value(); }

  // w_next[0, n) for elements [first, first + n): all pointers stand at element `first`.
  // `reference`: the weights that the compensation takes g to be from (the train point, or the
  // global weights of the step before). `learning_rate`: the schedule's; a rate of the updater's
  // own takes its place. `decay`: weight decay that is not in g. w_next may be reference, not
  // another. REQUIRES each element once a step.
  void Next(const float* w_global, const float* g, const float* reference, float learning_rate,
            float* w_next, size_t n, size_t first = 0, float decay = 0);
  // The numbers of that for who does it elsewhere, with state as Slots'.
  kernels::LocalStep NumbersOf(float learning_rate) const;

 private:
  friend Result<std::unique_ptr<LocalUpdater>> MakeLocalUpdater(const pb::LocalUpdater&, size_t,
                                                                uint32_t);
  LocalUpdater() = default;

  bool moves_ = true;  // not `none`
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

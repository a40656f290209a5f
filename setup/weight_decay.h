// The weight decay of each tensor (the job's section train.weight_decay).
#pragma once

#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/job.pb.h"

namespace tern::setup {

// kBadJob if a rule of train.weight_decay.rules matches no tensor of the table.
Status CheckWeightDecay(const pb::Job& job, const models::ParameterTable& table);

// Returns the rate of each parameter of the table if the job's weight_decay.where is
// `where` (in the gradient, or in the update of the weights); else zeros. The first rule that
// matches a tensor's name has its rate. A tensor that no rule matches has weight_decay.rate; or 0,
// if it is a bias and weight_decay.biases is false. With train.compute: wait, gradients have no
// decay: they are the same noise in every step, which decay would change in place, so that a worker
// that was started again would push other values than before.
std::vector<float> DecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            pb::WeightDecay::Where where);

// The weight decay of an optimizer's update, by tensor.
struct UpdateDecays {
  std::vector<float> added;    // the optimizer adds this to the gradient: Optimizer::Update
  std::vector<float> removed;  // the gradient has this, and it is taken out before the update
};
// `needs_loss_gradient`: update::Optimizer::needs_loss_gradient().
UpdateDecays UpdateDecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            bool needs_loss_gradient);

}  // namespace tern::setup

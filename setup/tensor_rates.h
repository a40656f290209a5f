// What differs from tensor to tensor in the update of the weights: the learning rate (the job's
// train.schedule.rules) and the weight decay (train.weight_decay).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/update/tensor_rates.h"
#include "models/graph/parameters.h"
#include "proto/job.pb.h"

namespace tern::setup {

// kBadJob if a rule for single tensors (of exchange.rules, train.schedule.rules or
// train.weight_decay.rules) matches no parameter of the table, frozen or not.
Status CheckTensorRules(const pb::Job& job, const models::ParameterTable& table);
// The keys of those rules that match frozen parameters only: "train.schedule.rules[0]".
std::vector<std::string> RulesOfFrozenTensors(const pb::Job& job,
                                              const models::ParameterTable& table);

// Returns the weight decay of each parameter of the table if the job's weight_decay.where is
// `where` (in the gradient, or in the update of the weights); else zeros. The first rule that
// matches a tensor's name has its decay. A tensor that no rule matches has weight_decay.rate; or 0,
// if it is a bias and weight_decay.biases is false. With train.compute: wait, gradients have no
// decay: they are the same noise in every step, which decay would change in place, so that a worker
// that was started again would push other values than before.
std::vector<float> DecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            pb::WeightDecay::Where where);

// What an update of the weights takes for each tensor.
struct UpdateRates {
  // decay: what the optimizer adds to the gradient. rate_times: that of the first rule of
  // train.schedule.rules that matches the tensor's name, else 1.
  std::vector<kernels::TensorRates> of_tensor;
  std::vector<float> removed_decay;  // the gradient has this decay; it is taken out before
  // By tensor: the last step of that rate_times; later ones have 0. kNever: all steps have it.
  std::vector<uint64_t> last_step;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  // The rates of tensor t in this step; steps count from 1.
  kernels::TensorRates InStep(uint64_t step, uint32_t t) const;
};
// `needs_loss_gradient`: update::Optimizer::needs_loss_gradient().
UpdateRates UpdateRatesOf(const pb::Job& job, const models::ParameterTable& table,
                          bool needs_loss_gradient);

}  // namespace tern::setup

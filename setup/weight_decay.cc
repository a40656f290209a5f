#include "setup/weight_decay.h"

#include <string>

#include "common/base/text.h"
#include "models/graph/freeze.h"

namespace tern::setup {
namespace {

double RateOf(const pb::WeightDecay& decay, const models::Parameter& parameter) {
  for (const pb::WeightDecay::Rule& rule : decay.rules()) {
    if (models::MatchesAny({rule.tensors()}, parameter.name)) return rule.rate();
  }
  return parameter.is_bias && !decay.biases() ? 0 : decay.rate();
}

}  // namespace

Status CheckWeightDecay(const pb::Job& job, const models::ParameterTable& table) {
  const auto& rules = job.train().weight_decay().rules();
  for (int i = 0; i < rules.size(); ++i) {
    TERN_RETURN_IF_ERROR(models::CheckPatterns(Cat("train.weight_decay.rules[", i, "].tensors"),
                                               {rules[i].tensors()}, table));
  }
  return Ok();
}

std::vector<float> DecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            pb::WeightDecay::Where where) {
  const pb::WeightDecay& decay = job.train().weight_decay();
  std::vector<float> rates(table.parameters.size());
  const bool is_noise = job.train().compute() == pb::Train::wait;
  if (decay.where() != where || (is_noise && where == pb::WeightDecay::in_gradient)) return rates;
  for (size_t t = 0; t < rates.size(); ++t)
    rates[t] = static_cast<float>(RateOf(decay, table.parameters[t]));
  return rates;
}

UpdateDecays UpdateDecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            bool needs_loss_gradient) {
  UpdateDecays decays;
  decays.added = DecaysOf(job, table, pb::WeightDecay::local);
  decays.removed.resize(decays.added.size());
  if (!needs_loss_gradient) return decays;
  decays.removed = DecaysOf(job, table, pb::WeightDecay::in_gradient);
  for (size_t t = 0; t < decays.added.size(); ++t) decays.added[t] += decays.removed[t];
  return decays;
}

}  // namespace tern::setup

#include "setup/tensor_rates.h"

#include <string>

#include "common/base/text.h"
#include "models/graph/freeze.h"

namespace tern::setup {
namespace {

// Calls visit(key, pattern) for each rule that the job has for single tensors, until it returns an
// error.
template <typename Visit>
Status ForEachRule(const pb::Job& job, const Visit& visit) {
  const auto visit_all = [&](const char* key, const auto& rules) {
    for (int i = 0; i < rules.size(); ++i)
      TERN_RETURN_IF_ERROR(visit(Cat(key, "[", i, "]"), rules[i].tensors()));
    return Ok();
  };
  TERN_RETURN_IF_ERROR(visit_all("exchange.rules", job.exchange().rules()));
  TERN_RETURN_IF_ERROR(visit_all("train.schedule.rules", job.train().schedule().rules()));
  return visit_all("train.weight_decay.rules", job.train().weight_decay().rules());
}

// Returns the first rule that matches the tensor's name; null if there is none.
template <typename Rules>
auto FirstRule(const Rules& rules, const models::Parameter& parameter) -> decltype(&rules[0]) {
  for (const auto& rule : rules) {
    if (models::MatchesAny({rule.tensors()}, parameter.name)) return &rule;
  }
  return nullptr;
}

double DecayOf(const pb::WeightDecay& decay, const models::Parameter& parameter) {
  if (const auto* rule = FirstRule(decay.rules(), parameter); rule != nullptr) return rule->rate();
  return parameter.is_bias && !decay.biases() ? 0 : decay.rate();
}

}  // namespace

Status CheckTensorRules(const pb::Job& job, const models::ParameterTable& table) {
  return ForEachRule(job, [&](const std::string& key, const std::string& pattern) {
    return models::CheckParameterPattern(key + ".tensors", pattern, table);
  });
}

std::vector<std::string> RulesOfFrozenTensors(const pb::Job& job,
                                              const models::ParameterTable& table) {
  std::vector<std::string> keys;
  (void)ForEachRule(job, [&](const std::string& key, const std::string& pattern) {
    if (!models::MatchesOneOf(pattern, table.parameters)) keys.push_back(key);
    return Ok();
  });
  return keys;
}

std::vector<float> DecaysOf(const pb::Job& job, const models::ParameterTable& table,
                            pb::WeightDecay::Where where) {
  const pb::WeightDecay& decay = job.train().weight_decay();
  std::vector<float> decays(table.parameters.size());
  const bool is_noise = job.train().compute() == pb::Train::wait;
  if (decay.where() != where || (is_noise && where == pb::WeightDecay::in_gradient)) return decays;
  for (size_t t = 0; t < decays.size(); ++t)
    decays[t] = static_cast<float>(DecayOf(decay, table.parameters[t]));
  return decays;
}

kernels::TensorRates UpdateRates::InStep(uint64_t step, uint32_t t) const {
  kernels::TensorRates rates = of_tensor[t];
  if (step > last_step[t]) rates.rate_times = 0;
  return rates;
}

UpdateRates UpdateRatesOf(const pb::Job& job, const models::ParameterTable& table,
                          bool needs_loss_gradient) {
  const size_t num_tensors = table.parameters.size();
  UpdateRates rates{.of_tensor = std::vector<kernels::TensorRates>(num_tensors),
                    .removed_decay = std::vector<float>(num_tensors),
                    .last_step = std::vector<uint64_t>(num_tensors, UpdateRates::kNever)};
  if (needs_loss_gradient) rates.removed_decay = DecaysOf(job, table, pb::WeightDecay::in_gradient);
  const std::vector<float> local_decays = DecaysOf(job, table, pb::WeightDecay::local);
  for (size_t t = 0; t < num_tensors; ++t) {
    rates.of_tensor[t].decay = local_decays[t] + rates.removed_decay[t];
    const auto* rule = FirstRule(job.train().schedule().rules(), table.parameters[t]);
    if (rule == nullptr) continue;
    rates.of_tensor[t].rate_times = static_cast<float>(rule->times());
    if (rule->has_until_step()) rates.last_step[t] = rule->until_step();
  }
  return rates;
}

}  // namespace tern::setup

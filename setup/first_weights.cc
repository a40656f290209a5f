#include "setup/first_weights.h"

#include "common/base/text.h"
#include "common/tensors/safetensors.h"

namespace tern::setup {

Status ReadGivenWeights(Setup* setup) {
  const pb::Model& model = setup->job.model();
  if (!model.has_weights()) return Ok();
  const auto file = tensors::ReadSafetensors(model.weights());
  if (!file.ok()) return file.status().Within("model.weights");
  auto weights = models::WeightsFromFile(
      *file, setup->table, setup->job.seed(),
      std::vector<std::string>(model.new_tensors().begin(), model.new_tensors().end()));
  if (!weights.ok()) {
    return weights.status().code() == Code::kBadJob
               ? weights.status()
               : weights.status().Within(Cat("model.weights: ", model.weights()));
  }
  setup->hello.set_weights_digest(models::WeightsDigest(*weights));
  if (!setup->table.frozen.empty())
    setup->frozen_digest = models::WeightsDigest({{}, weights->frozen, {}});
  setup->given_weights = std::make_shared<const models::Weights>(std::move(*weights));
  return Ok();
}

models::Weights FirstWeights(const Setup& setup) {
  if (setup.given_weights != nullptr) return *setup.given_weights;
  return models::RandomWeights(setup.table, setup.job.seed());
}

}  // namespace tern::setup

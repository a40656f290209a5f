// The rules of normalization layers: batch norm (over the batch), LRN (across channels),
// standardize (per image).
#include "models/graph/layer_rules.h"

namespace tern::models {

namespace {

Status CompleteBatchNorm(pb::LayerDef* layer) {
  pb::BatchNormDef* norm = layer->mutable_batch_norm();
  TERN_RETURN_IF_ERROR(CheckNumber("epsilon", norm->epsilon(), 1e-12f, 1));
  TERN_RETURN_IF_ERROR(CheckNumber("momentum", norm->momentum(), 0, 1));
  norm->set_epsilon(norm->epsilon());
  norm->set_momentum(norm->momentum());
  TERN_RETURN_IF_ERROR(CompleteInit("weight_init", 1, norm->mutable_weight_init()));
  return CompleteInit("bias_init", 0, norm->mutable_bias_init());
}

LayerState BatchNormState(const pb::LayerDef& layer, const InputShapes& inputs) {
  const pb::BatchNormDef& norm = layer.batch_norm();
  const uint32_t channels = inputs[0].c;
  return {{MakeParameter(layer, "weight", {channels}, norm.weight_init()),
           MakeParameter(layer, "bias", {channels}, norm.bias_init())},
          {{layer.name() + ".running_mean", 0, channels, 0},
           {layer.name() + ".running_var", 0, channels, 1}}};
}

Status CompleteLrn(pb::LayerDef* layer) {
  pb::LrnDef* lrn = layer->mutable_lrn();
  TERN_RETURN_IF_ERROR(CheckSize("size", lrn->size()));
  if (lrn->size() % 2 == 0)
    return BadLayer("size is " + std::to_string(lrn->size()) + "; it must be odd");
  TERN_RETURN_IF_ERROR(CheckNumber("alpha", lrn->alpha(), 0, 1e6f));
  TERN_RETURN_IF_ERROR(CheckNumber("beta", lrn->beta(), 0, 100));
  TERN_RETURN_IF_ERROR(CheckNumber("k", lrn->k(), 1e-6f, 1e6f));
  lrn->set_size(lrn->size());
  lrn->set_alpha(lrn->alpha());
  lrn->set_beta(lrn->beta());
  lrn->set_k(lrn->k());
  return Ok();
}

}  // namespace

constinit const LayerRules kBatchNormRules = {
    pb::LayerDef::kBatchNorm, "batch_norm", 1, 1, &CompleteBatchNorm, &SameShape, &BatchNormState};
constinit const LayerRules kLrnRules = {pb::LayerDef::kLrn, "lrn",      1,       1,
                                        &CompleteLrn,       &SameShape, &NoState};
constinit const LayerRules kStandardizeRules = {
    pb::LayerDef::kStandardize,         "standardize", 1,       1,
    [](pb::LayerDef*) { return Ok(); }, &SameShape,    &NoState};

}  // namespace tern::models

// The rules of element-wise layers (ReLU, GELU, scale, dropout), and of the softmax loss.
#include "models/graph/layer_rules.h"

namespace tern::models {

namespace {

Status CompleteRelu(pb::LayerDef* layer) {
  const pb::ReluDef& relu = layer->relu();
  return relu.has_max() ? CheckNumber("max", relu.max(), 1e-6f, 1e6f) : Ok();
}

Status CompleteGelu(pb::LayerDef*) { return Ok(); }

Status CompleteScale(pb::LayerDef* layer) {
  if (!layer->scale().has_factor()) return BadLayer("factor is missing");
  return CheckNumber("factor", layer->scale().factor(), -1e6f, 1e6f);
}

Status CompleteDropout(pb::LayerDef* layer) {
  pb::DropoutDef* dropout = layer->mutable_dropout();
  dropout->set_rate(dropout->rate());
  return CheckNumber("rate", dropout->rate(), 0, 0.999f);
}

Status CompleteLoss(pb::LayerDef* layer) {
  pb::SoftmaxLossDef* loss = layer->mutable_softmax_loss();
  loss->set_label_smoothing(loss->label_smoothing());
  return CheckNumber("label_smoothing", loss->label_smoothing(), 0, 0.999f);
}

Result<ImageDims> ScalarOutput(const pb::LayerDef&, const InputShapes&) {
  return ImageDims{1, 1, 1};
}

}  // namespace

constinit const LayerRules kReluRules = {pb::LayerDef::kRelu, "relu",     1,       1,
                                         &CompleteRelu,       &SameShape, &NoState};
constinit const LayerRules kGeluRules = {pb::LayerDef::kGelu, "gelu",     1,       1,
                                         &CompleteGelu,       &SameShape, &NoState};
constinit const LayerRules kScaleRules = {pb::LayerDef::kScale, "scale",    1,       1,
                                          &CompleteScale,       &SameShape, &NoState};
constinit const LayerRules kDropoutRules = {pb::LayerDef::kDropout, "dropout",  1,       1,
                                            &CompleteDropout,       &SameShape, &NoState};
// The number of inputs counts only the scores, not the second input, "label".
constinit const LayerRules kSoftmaxLossRules = {
    pb::LayerDef::kSoftmaxLoss, "softmax_loss", 1, 1, &CompleteLoss, &ScalarOutput, &NoState};

}  // namespace tern::models

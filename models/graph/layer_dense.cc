#include "models/graph/layer_rules.h"

namespace tern::models {

namespace {

Status CompleteDense(pb::LayerDef* layer) {
  pb::DenseDef* dense = layer->mutable_dense();
  TERN_RETURN_IF_ERROR(CheckSize("outputs", dense->outputs()));
  TERN_RETURN_IF_ERROR(CompleteWeightInit(dense->mutable_weight_init()));
  return CompleteInit("bias_init", 0, dense->mutable_bias_init());
}

Result<ImageDims> DenseOutput(const pb::LayerDef& layer, const InputShapes&) {
  return ImageDims{layer.dense().outputs(), 1, 1};
}

LayerState DenseState(const pb::LayerDef& layer, const InputShapes& inputs) {
  const pb::DenseDef& dense = layer.dense();
  const auto num_inputs = static_cast<uint32_t>(Elements(inputs[0]));
  return {{MakeParameter(layer, "weight", {dense.outputs(), num_inputs}, dense.weight_init()),
           MakeParameter(layer, "bias", {dense.outputs()}, dense.bias_init())},
          {}};
}

}  // namespace

constinit const LayerRules kDenseRules = {pb::LayerDef::kDense, "dense",      1,          1,
                                          &CompleteDense,       &DenseOutput, &DenseState};

}  // namespace tern::models

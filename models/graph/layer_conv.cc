// The rules of convolution layers, with groups and dilation. A depthwise convolution has as many
// groups as channels.
#include "models/graph/layer_rules.h"
#include "models/graph/layer_window.h"

namespace tern::models {

namespace {

Status CompleteConv(pb::LayerDef* layer) {
  pb::ConvDef* conv = layer->mutable_conv();
  TERN_RETURN_IF_ERROR(CheckSize("outputs", conv->outputs()));
  TERN_RETURN_IF_ERROR(CheckSize("kernel", conv->kernel()));
  TERN_RETURN_IF_ERROR(CheckSize("groups", conv->groups()));
  TERN_RETURN_IF_ERROR(CheckSize("dilation", conv->dilation()));
  TERN_RETURN_IF_ERROR(CompleteWindow((conv->kernel() - 1) * conv->dilation() + 1, conv));
  conv->set_groups(conv->groups());
  conv->set_dilation(conv->dilation());
  conv->set_bias(conv->bias());
  TERN_RETURN_IF_ERROR(CompleteWeightInit(conv->mutable_weight_init()));
  return CompleteInit("bias_init", 0, conv->mutable_bias_init());
}

Result<ImageDims> ConvOutput(const pb::LayerDef& layer, const InputShapes& inputs) {
  const pb::ConvDef& conv = layer.conv();
  const uint32_t groups = conv.groups();
  if (inputs[0].c % groups != 0 || conv.outputs() % groups != 0) {
    return BadLayer("groups is " + std::to_string(groups) + ", which must divide its " +
                    std::to_string(inputs[0].c) + " input channels and its " +
                    std::to_string(conv.outputs()) + " outputs");
  }
  return WindowOutput(inputs[0], conv.outputs(), conv);
}

LayerState ConvState(const pb::LayerDef& layer, const InputShapes& inputs) {
  const pb::ConvDef& conv = layer.conv();
  LayerState state;
  const uint32_t inputs_per_group = inputs[0].c / conv.groups();
  state.parameters.push_back(MakeParameter(
      layer, "weight", {conv.outputs(), inputs_per_group, conv.kernel(), conv.kernel()},
      conv.weight_init()));
  // An input element contributes only to the outputs of its own group.
  state.parameters[0].fan_out /= conv.groups();
  if (conv.bias())
    state.parameters.push_back(MakeParameter(layer, "bias", {conv.outputs()}, conv.bias_init()));
  return state;
}

}  // namespace

constinit const LayerRules kConvRules = {pb::LayerDef::kConv, "conv",      1,         1,
                                         &CompleteConv,       &ConvOutput, &ConvState};

}  // namespace tern::models

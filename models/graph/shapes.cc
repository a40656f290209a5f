#include "models/graph/shapes.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "models/graph/complete.h"
#include "models/graph/freeze.h"
#include "models/graph/layer_rules.h"

namespace tern::models {
namespace {

// The shapes of a completed layer's inputs.
InputShapes InputShapesOf(const pb::LayerDef& layer,
                          const std::map<std::string, ImageDims>& shapes) {
  InputShapes inputs;
  for (const std::string& name : layer.inputs()) {
    if (const auto found = shapes.find(name); found != shapes.end())  // "label" has no shape
      inputs.push_back(found->second);
  }
  return inputs;
}

Status CheckScores(const ImageDims& scores, uint32_t classes) {
  if (scores.c == classes && scores.h == 1 && scores.w == 1) return Ok();
  return BadLayer(Cat("its input is ", ShapeText(scores), ", but there are ", classes,
                      " classes; the layer before must have ", classes, " outputs of one element"));
}

Result<ImageDims> OutputShapeOf(const pb::LayerDef& layer, const InputShapes& inputs,
                                uint32_t classes) {
  if (layer.has_softmax_loss()) TERN_RETURN_IF_ERROR(CheckScores(inputs[0], classes));
  Result<ImageDims> output = FindRules(layer.kind_case())->output(layer, inputs);
  if (output.ok() && Elements(*output) > kMaxElements)
    return BadLayer(
        Cat("its output of ", ShapeText(*output), " has more than 2^31 elements for one image"));
  return output;
}

// The shape of every tensor of the net, by name. REQUIRES a completed net.
Result<std::map<std::string, ImageDims>> ShapesOf(const pb::NetDef& net) {
  std::map<std::string, ImageDims> shapes;
  const ImageDims data_dims = {net.input().channels(), net.input().height(), net.input().width()};
  if (Elements(data_dims) > kMaxElements)
    return BadLayer(Cat("net: an image of ", ShapeText(data_dims), " has more than 2^31 elements"));
  shapes["data"] = data_dims;
  for (const pb::LayerDef& layer : net.layers()) {
    const Result<ImageDims> output =
        OutputShapeOf(layer, InputShapesOf(layer, shapes), net.classes());
    if (!output.ok()) return output.status().Within(Describe(layer));
    shapes[layer.output()] = *output;
  }
  return shapes;
}

Status AddState(const pb::LayerDef& layer, LayerState state, ParameterTable* table) {
  for (Parameter& parameter : state.parameters) {
    parameter.number = static_cast<uint32_t>(table->parameters.size());
    parameter.offset = table->total;
    table->total += parameter.count;
    if (table->total > kMaxElements)
      return BadLayer(Describe(layer) + ": with it the net has more than 2^31 parameters");
    table->parameters.push_back(std::move(parameter));
  }
  for (Statistic& statistic : state.statistics) {
    statistic.offset = table->statistics_total;
    table->statistics_total += statistic.count;
    table->statistics.push_back(std::move(statistic));
  }
  return Ok();
}

}  // namespace

Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net) {
  Result<pb::NetDef> complete_net = CompleteNet(net);
  if (!complete_net.ok()) return complete_net.status();
  return ShapesOf(*complete_net);
}

Result<ParameterTable> MakeParameterTable(const pb::NetDef& net,
                                          const std::vector<std::string>& freeze) {
  Result<pb::NetDef> complete_net = CompleteNet(net);
  if (!complete_net.ok()) return complete_net.status();
  const Result<std::map<std::string, ImageDims>> shapes = ShapesOf(*complete_net);
  if (!shapes.ok()) return shapes.status();
  ParameterTable table;
  for (const pb::LayerDef& layer : complete_net->layers()) {
    LayerState state = FindRules(layer.kind_case())->state(layer, InputShapesOf(layer, *shapes));
    TERN_RETURN_IF_ERROR(AddState(layer, std::move(state), &table));
  }
  if (table.parameters.empty()) {
    return BadLayer(
        "net: no layer has parameters, so there is nothing to train; add a dense or a conv");
  }
  TERN_RETURN_IF_ERROR(FreezeParameters(freeze, &table));
  return table;
}

}  // namespace tern::models

#include "models/shapes.h"

#include <algorithm>
#include <utility>

#include "models/complete.h"

namespace tern::models {
namespace {

Status Bad(const std::string& message) { return Status(Code::kBadJob, message); }

std::string Text(const ImageDims& dims) {
  return std::to_string(dims.c) + " x " + std::to_string(dims.h) + " x " + std::to_string(dims.w);
}

// a * b, or kMaxElements + 1 if it is more than the bound. REQUIRES a <= 2^32, b <= 2^32.
uint64_t BoundedProduct(uint64_t a, uint64_t b) {
  const uint64_t product = a * b;
  return std::min(product, kMaxElements + 1);
}

uint64_t Elements(const ImageDims& dims) {
  return BoundedProduct(BoundedProduct(dims.c, dims.h), dims.w);
}

template <typename Def>
Result<ImageDims> SlideWindow(const ImageDims& input, uint32_t channels, const Def& def) {
  Result<AxisPlan> rows = PlanAxis(input.h, def.kernel(), def.stride(), def.padding());
  Result<AxisPlan> columns = PlanAxis(input.w, def.kernel(), def.stride(), def.padding());
  if (!rows.ok()) return rows.status().Within("height");
  if (!columns.ok()) return columns.status().Within("width");
  return ImageDims{channels, rows->output, columns->output};
}

Result<ImageDims> OutputOf(const pb::LayerDef& layer, const ImageDims& input, uint32_t classes) {
  switch (layer.kind_case()) {
    case pb::LayerDef::kConv:
      return SlideWindow(input, layer.conv().outputs(), layer.conv());
    case pb::LayerDef::kMaxPool:
      return SlideWindow(input, input.c, layer.max_pool());
    case pb::LayerDef::kDense:
      return ImageDims{layer.dense().outputs(), 1, 1};
    case pb::LayerDef::kSoftmaxLoss:
      if (input.c == classes && input.h == 1 && input.w == 1) return ImageDims{1, 1, 1};
      return Bad("its input is " + Text(input) + ", but there are " + std::to_string(classes) +
                 " classes; the layer before must have " + std::to_string(classes) +
                 " outputs of one element");
    default:
      return input;
  }
}

Parameter MakeParameter(const pb::LayerDef& layer, const char* what, std::vector<uint32_t> shape,
                        const pb::Init& init) {
  Parameter parameter;
  parameter.name = layer.name() + "." + what;
  parameter.shape = std::move(shape);
  parameter.init = init;
  parameter.fan_in = 1;
  for (size_t i = 1; i < parameter.shape.size(); ++i) {
    parameter.fan_in = BoundedProduct(parameter.fan_in, parameter.shape[i]);
  }
  parameter.count = BoundedProduct(parameter.fan_in, parameter.shape[0]);
  return parameter;
}

template <typename Def>
std::vector<Parameter> WeightAndBias(const pb::LayerDef& layer, const Def& def,
                                     std::vector<uint32_t> weight_shape) {
  std::vector<Parameter> parameters = {
      MakeParameter(layer, "weight", std::move(weight_shape), def.weight_init()),
      MakeParameter(layer, "bias", {def.outputs()}, def.bias_init())};
  parameters[1].is_bias = true;
  return parameters;
}

std::vector<Parameter> ParametersOf(const pb::LayerDef& layer, const ImageDims& input) {
  if (layer.has_conv()) {
    const pb::ConvDef& def = layer.conv();
    return WeightAndBias(layer, def, {def.outputs(), input.c, def.kernel(), def.kernel()});
  }
  if (layer.has_dense()) {
    const pb::DenseDef& def = layer.dense();
    return WeightAndBias(layer, def, {def.outputs(), static_cast<uint32_t>(Elements(input))});
  }
  return {};
}

// REQUIRES a complete net.
Result<std::map<std::string, ImageDims>> ShapesOf(const pb::NetDef& net) {
  std::map<std::string, ImageDims> shapes;
  const ImageDims data = {net.input().channels(), net.input().height(), net.input().width()};
  if (Elements(data) > kMaxElements) {
    return Bad("net: an image of " + Text(data) + " has more than 2^31 elements");
  }
  shapes["data"] = data;
  for (const pb::LayerDef& layer : net.layers()) {
    Result<ImageDims> output = OutputOf(layer, shapes.at(layer.inputs(0)), net.classes());
    if (!output.ok()) return output.status().Within(Describe(layer));
    if (Elements(*output) > kMaxElements) {
      return Bad(Describe(layer) + ": its output of " + Text(*output) +
                 " has more than 2^31 elements for one image");
    }
    shapes[layer.output()] = *output;
  }
  return shapes;
}

}  // namespace

Result<AxisPlan> PlanAxis(uint32_t input, uint32_t kernel, uint32_t stride, pb::Pad::Kind padding) {
  const auto in_bounds = [](uint32_t n) { return n >= 1 && n <= kMaxDim; };
  if (!in_bounds(input) || !in_bounds(kernel) || !in_bounds(stride)) {
    return Bad("input " + std::to_string(input) + ", kernel " + std::to_string(kernel) +
               ", stride " + std::to_string(stride) + " must each be 1 to " +
               std::to_string(kMaxDim));
  }
  AxisPlan plan;
  if (padding == pb::Pad::valid) {
    if (kernel > input) {
      return Bad("kernel " + std::to_string(kernel) + " does not fit an input of " +
                 std::to_string(input) + "; take a smaller kernel, or padding: same");
    }
    plan.output = (input - kernel) / stride + 1;
    return plan;
  }
  plan.output = (input + stride - 1) / stride;
  const uint64_t covered = uint64_t{plan.output - 1} * stride + kernel;
  const uint32_t total = covered > input ? static_cast<uint32_t>(covered - input) : 0;
  plan.pad_begin = total / 2;
  plan.pad_end = total - plan.pad_begin;
  return plan;
}

Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net) {
  Result<pb::NetDef> complete = CompleteNet(net);
  if (!complete.ok()) return complete.status();
  return ShapesOf(*complete);
}

Result<ParameterTable> MakeParameterTable(const pb::NetDef& net) {
  Result<pb::NetDef> complete = CompleteNet(net);
  if (!complete.ok()) return complete.status();
  Result<std::map<std::string, ImageDims>> shapes = ShapesOf(*complete);
  if (!shapes.ok()) return shapes.status();
  ParameterTable table;
  for (const pb::LayerDef& layer : complete->layers()) {
    for (Parameter& parameter : ParametersOf(layer, shapes->at(layer.inputs(0)))) {
      parameter.offset = table.total;
      table.total += parameter.count;
      if (table.total > kMaxElements) {
        return Bad(Describe(layer) + ": with it the net has more than 2^31 parameters");
      }
      table.parameters.push_back(std::move(parameter));
    }
  }
  if (table.parameters.empty()) {
    return Bad("net: no layer has parameters, so there is nothing to train; add a dense or a conv");
  }
  return table;
}

}  // namespace tern::models

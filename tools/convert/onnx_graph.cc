#include "tools/convert/onnx_graph.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/arena.h"
#include "models/graph/shapes.h"

namespace tern::tools {
namespace {

constexpr int64_t kIrVersion = 7, kOpsetVersion = 13;
constexpr char kInputName[] = "data", kOutputName[] = "scores";

using NameList = std::vector<std::string>;
using IntList = std::vector<int64_t>;

// Writes an ONNX graph node by node. The output of a dense layer is flat: [batch, outputs]. So is
// the output of a ReLU, batch norm or dropout with a flat input, and "scores". The outputs of all
// other layers have the shape [batch, C, H, W]. A layer that needs an image first reshapes a flat
// input.
class GraphWriter {
 public:
  GraphWriter(const pb::NetDef& net, const std::map<std::string, models::ImageDims>& shapes,
              pb::onnx::Graph* graph)
      : net_(net), shapes_(shapes), graph_(graph) {
    onnx_name_by_tensor_["data"] = kInputName;
  }

  void WriteNet() {
    graph_->set_name(net_.name().empty() ? "net" : net_.name());
    const pb::ImageShape& image = net_.input();
    SetFloatType(kInputName, {image.channels(), image.height(), image.width()},
                 graph_->add_input());
    for (const pb::LayerDef& layer : net_.layers()) WriteLayer(layer);
    SetFloatType(kOutputName, {net_.classes()}, graph_->add_output());
  }

  void AddWeights(const std::string& name, const IntList& dims, const float* values, size_t count) {
    pb::onnx::Tensor* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(pb::onnx::float32);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    tensor->set_raw_data(values, count * sizeof(float));
  }

 private:
  // Returns the name of a tensor of the layer. The colon distinguishes it from the name of a
  // parameter (LAYER.weight).
  static std::string TensorName(const pb::LayerDef& layer, const std::string& suffix) {
    return layer.name() + ":" + suffix;
  }

  static void SetFloatType(const std::string& name, const IntList& sizes, pb::onnx::Value* value) {
    value->set_name(name);
    pb::onnx::TensorType* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(pb::onnx::float32);
    type->mutable_shape()->add_dim()->set_dim_param("batch");
    for (const int64_t size : sizes) type->mutable_shape()->add_dim()->set_dim_value(size);
  }

  pb::onnx::Node* AddNode(const char* op_type, const NameList& inputs, const std::string& output) {
    pb::onnx::Node* node = graph_->add_node();
    node->set_op_type(op_type);
    node->set_name(output);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(output);
    return node;
  }

  static pb::onnx::Attribute* AddAttribute(const char* name, pb::onnx::Attribute::Type type,
                                           pb::onnx::Node* node) {
    pb::onnx::Attribute* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }
  static void SetFloatAttribute(const char* name, float value, pb::onnx::Node* node) {
    AddAttribute(name, pb::onnx::Attribute::real, node)->set_f(value);
  }
  static void SetIntAttribute(const char* name, int64_t value, pb::onnx::Node* node) {
    AddAttribute(name, pb::onnx::Attribute::integer, node)->set_i(value);
  }
  static void SetIntsAttribute(const char* name, const IntList& values, pb::onnx::Node* node) {
    pb::onnx::Attribute* attribute = AddAttribute(name, pb::onnx::Attribute::integers, node);
    for (const int64_t value : values) attribute->add_ints(value);
  }

  std::string AddConstant(const pb::LayerDef& layer, const std::string& suffix, float value) {
    AddWeights(TensorName(layer, suffix), {}, &value, 1);
    return TensorName(layer, suffix);
  }

  // Returns the name of the layer's input `i` in the shape [batch, C, H, W]. Adds a node that
  // reshapes the input if it is flat.
  std::string PrepareImageInput(const pb::LayerDef& layer, int i) {
    const std::string& name = onnx_name_by_tensor_.at(layer.inputs(i));
    if (!flat_tensors_.contains(name)) return name;
    const std::string axes_name = TensorName(layer, "axes" + std::to_string(i));
    pb::onnx::Tensor* tensor = graph_->add_initializer();
    tensor->set_name(axes_name);
    tensor->set_data_type(pb::onnx::whole64);
    tensor->add_dims(2);
    const int64_t values[] = {2, 3};
    tensor->set_raw_data(values, sizeof values);
    const std::string image_name = TensorName(layer, "image" + std::to_string(i));
    AddNode("Unsqueeze", {name, axes_name}, image_name);
    return image_name;
  }
  // Returns the name of the input of a layer that works per element or per channel and accepts both
  // shapes. Marks the layer's output as flat if its input is flat.
  std::string PrepareElementwiseInput(const pb::LayerDef& layer) {
    const std::string& name = onnx_name_by_tensor_.at(layer.inputs(0));
    if (flat_tensors_.contains(name)) flat_tensors_.insert(TensorName(layer, "out"));
    return name;
  }

  void WriteLayer(const pb::LayerDef& layer) {
    const std::string output_name = TensorName(layer, "out");
    onnx_name_by_tensor_[layer.output()] = output_name;
    switch (layer.kind_case()) {
      case pb::LayerDef::kConv:
        return WriteConv(layer, output_name);
      case pb::LayerDef::kMaxPool:
        return WritePool(layer, layer.max_pool(), "MaxPool", "GlobalMaxPool", output_name);
      case pb::LayerDef::kAvgPool:
        return WritePool(layer, layer.avg_pool(), "AveragePool", "GlobalAveragePool", output_name);
      case pb::LayerDef::kDense:
        return WriteDense(layer, output_name);
      case pb::LayerDef::kRelu:
        return WriteRelu(layer, output_name);
      case pb::LayerDef::kGelu:
        return WriteGelu(layer, output_name);
      case pb::LayerDef::kScale: {
        const std::string input = PrepareElementwiseInput(layer);
        AddNode("Mul", {input, AddConstant(layer, "factor", layer.scale().factor())}, output_name);
        return;
      }
      case pb::LayerDef::kBatchNorm:
        SetFloatAttribute("epsilon", layer.batch_norm().epsilon(),
                          AddNode("BatchNormalization",
                                  {PrepareElementwiseInput(layer), layer.name() + ".weight",
                                   layer.name() + ".bias", layer.name() + ".running_mean",
                                   layer.name() + ".running_var"},
                                  output_name));
        return;
      case pb::LayerDef::kLrn:
        return WriteLrn(layer, output_name);
      case pb::LayerDef::kDropout:  // Dropout is the identity in evaluation.
        onnx_name_by_tensor_[layer.output()] = onnx_name_by_tensor_.at(layer.inputs(0));
        return;
      case pb::LayerDef::kConcat:
        SetIntAttribute("axis", 1, AddNode("Concat", PrepareImageInputs(layer), output_name));
        return;
      case pb::LayerDef::kAdd:
        AddNode(layer.inputs_size() == 2 ? "Add" : "Sum", PrepareImageInputs(layer), output_name);
        return;
      case pb::LayerDef::kStandardize:
        return WriteStandardize(layer, output_name);
      case pb::LayerDef::kSoftmaxLoss:  // Outputs the scores, without softmax.
        SetIntAttribute(
            "axis", 1, AddNode("Flatten", {onnx_name_by_tensor_.at(layer.inputs(0))}, kOutputName));
        return;
      case pb::LayerDef::KIND_NOT_SET:
        return;
    }
  }

  NameList PrepareImageInputs(const pb::LayerDef& layer) {
    NameList image_names;
    for (int i = 0; i < layer.inputs_size(); ++i)
      image_names.push_back(PrepareImageInput(layer, i));
    return image_names;
  }

  // Sets kernel, stride and padding of a convolution or pooling layer. With the padding `same` the
  // two ends of an axis may get different amounts.
  template <typename Def>
  void SetWindow(const pb::LayerDef& layer, const Def& window_def, pb::onnx::Node* node) const {
    const models::ImageDims& image = shapes_.at(layer.inputs(0));
    const auto row_plan = *models::PlanAxis(image.h, models::WindowOf(window_def, image.h));
    const auto column_plan = *models::PlanAxis(image.w, models::WindowOf(window_def, image.w));
    SetIntsAttribute("kernel_shape", {window_def.kernel(), window_def.kernel()}, node);
    SetIntsAttribute("strides", {window_def.stride(), window_def.stride()}, node);
    SetIntsAttribute(
        "pads", {row_plan.pad_begin, column_plan.pad_begin, row_plan.pad_end, column_plan.pad_end},
        node);
  }

  void WriteConv(const pb::LayerDef& layer, const std::string& output_name) {
    const pb::ConvDef& conv = layer.conv();
    NameList inputs = {PrepareImageInput(layer, 0), layer.name() + ".weight"};
    if (conv.bias()) inputs.push_back(layer.name() + ".bias");
    pb::onnx::Node* node = AddNode("Conv", inputs, output_name);
    SetWindow(layer, conv, node);
    SetIntsAttribute("dilations", {conv.dilation(), conv.dilation()}, node);
    SetIntAttribute("group", conv.groups(), node);
  }

  void WritePool(const pb::LayerDef& layer, const pb::PoolDef& pool, const char* op_type,
                 const char* global_op_type, const std::string& output_name) {
    if (pool.global()) {
      AddNode(global_op_type, {PrepareImageInput(layer, 0)}, output_name);
      return;
    }
    pb::onnx::Node* node = AddNode(op_type, {PrepareImageInput(layer, 0)}, output_name);
    SetWindow(layer, pool, node);
    if (layer.has_avg_pool()) SetIntAttribute("count_include_pad", pool.include_padding(), node);
  }

  void WriteDense(const pb::LayerDef& layer, const std::string& output_name) {
    std::string input_name = onnx_name_by_tensor_.at(layer.inputs(0));
    if (!flat_tensors_.contains(input_name)) {
      SetIntAttribute("axis", 1, AddNode("Flatten", {input_name}, TensorName(layer, "flat")));
      input_name = TensorName(layer, "flat");
    }
    SetIntAttribute("transB", 1,
                    AddNode("Gemm", {input_name, layer.name() + ".weight", layer.name() + ".bias"},
                            output_name));
    flat_tensors_.insert(output_name);
  }

  void WriteRelu(const pb::LayerDef& layer, const std::string& output_name) {
    const std::string input = PrepareElementwiseInput(layer);
    if (!layer.relu().has_max()) {
      AddNode("Relu", {input}, output_name);
      return;
    }
    AddNode("Clip",
            {input, AddConstant(layer, "least", 0), AddConstant(layer, "most", layer.relu().max())},
            output_name);
  }

  // Writes x (1 + erf(x / sqrt(2))) / 2 with elementary ONNX operators.
  void WriteGelu(const pb::LayerDef& layer, const std::string& output_name) {
    const std::string input = PrepareElementwiseInput(layer), scaled = TensorName(layer, "scaled"),
                      erf = TensorName(layer, "erf"), twice = TensorName(layer, "twice_below"),
                      half = TensorName(layer, "half_x");
    AddNode("Div", {input, AddConstant(layer, "sqrt2", std::sqrt(2.f))}, scaled);
    AddNode("Erf", {scaled}, erf);
    AddNode("Add", {erf, AddConstant(layer, "one", 1)}, twice);
    AddNode("Mul", {input, AddConstant(layer, "half", 0.5f)}, half);
    AddNode("Mul", {half, twice}, output_name);
  }

  void WriteLrn(const pb::LayerDef& layer, const std::string& output_name) {
    const pb::LrnDef& lrn = layer.lrn();
    pb::onnx::Node* node = AddNode("LRN", {PrepareImageInput(layer, 0)}, output_name);
    SetIntAttribute("size", lrn.size(), node);
    SetFloatAttribute("alpha", lrn.alpha(), node);
    SetFloatAttribute("beta", lrn.beta(), node);
    SetFloatAttribute("bias", lrn.k(), node);
  }

  // Writes (x - mean) / max(deviation, 1 / sqrt(elements)) with elementary ONNX operators. Mean and
  // standard deviation are those of one image of `elements` values.
  void WriteStandardize(const pb::LayerDef& layer, const std::string& output_name) {
    const models::ImageDims& image = shapes_.at(layer.inputs(0));
    const auto elements = static_cast<double>(models::Elements(image));
    const auto add_mean_node = [&](const std::string& input_name, const std::string& suffix) {
      pb::onnx::Node* node = AddNode("ReduceMean", {input_name}, TensorName(layer, suffix));
      SetIntsAttribute("axes", {1, 2, 3}, node);
      SetIntAttribute("keepdims", 1, node);
      return TensorName(layer, suffix);
    };
    const std::string input = PrepareImageInput(layer, 0),
                      centred_name = TensorName(layer, "centred"),
                      squares_name = TensorName(layer, "squares"),
                      deviation_name = TensorName(layer, "deviation"),
                      divisor_name = TensorName(layer, "divisor");
    const std::string min_deviation =
        AddConstant(layer, "least", static_cast<float>(1 / std::sqrt(elements)));
    AddNode("Sub", {input, add_mean_node(input, "mean")}, centred_name);
    AddNode("Mul", {centred_name, centred_name}, squares_name);
    AddNode("Sqrt", {add_mean_node(squares_name, "variance")}, deviation_name);
    AddNode("Max", {deviation_name, min_deviation}, divisor_name);
    AddNode("Div", {centred_name, divisor_name}, output_name);
  }

  const pb::NetDef& net_;
  const std::map<std::string, models::ImageDims>& shapes_;
  pb::onnx::Graph* graph_;
  // The name of a tensor in the ONNX graph, by its name in the NetDef.
  std::map<std::string, std::string> onnx_name_by_tensor_;
  std::set<std::string> flat_tensors_;  // The ONNX names of the flat tensors.
};

}  // namespace

Result<pb::onnx::Model> MakeOnnx(const pb::NetDef& net, const tensors::TensorFile& weights,
                                 const std::vector<std::string>& class_names) {
  const auto shapes = models::InferShapes(net);
  if (!shapes.ok()) return shapes.status();
  const auto table = models::MakeParameterTable(net);
  if (!table.ok()) return table.status();
  std::vector<float> parameters(table->total), statistics(table->statistics_total);
  TERN_RETURN_IF_ERROR(models::LoadArena(weights, *table, parameters.data()));
  TERN_RETURN_IF_ERROR(models::LoadStatistics(weights, *table, statistics.data()));

  pb::onnx::Model model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("tern");
  model.add_opset_import()->set_version(kOpsetVersion);
  GraphWriter writer(net, *shapes, model.mutable_graph());
  writer.WriteNet();
  for (const models::Parameter& p : table->parameters) {
    writer.AddWeights(p.name, {p.shape.begin(), p.shape.end()}, parameters.data() + p.offset,
                      p.count);
  }
  for (const models::Statistic& s : table->statistics) {
    writer.AddWeights(s.name, {static_cast<int64_t>(s.count)}, statistics.data() + s.offset,
                      s.count);
  }
  if (!class_names.empty()) {
    using nlohmann::json;
    pb::onnx::Entry* entry = model.add_metadata_props();
    entry->set_key("class_names");
    entry->set_value(json(class_names).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  return model;
}

}  // namespace tern::tools

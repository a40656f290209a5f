// tern model: prints the layers of a network, or its definition.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <map>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/model_yaml.h"
#include "models/graph/complete.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "tools/commands.h"
#include "tools/net_arguments.h"
#include "tools/table.h"

namespace tern::tools {
namespace {

struct LayerCost {
  uint64_t parameters = 0;
  uint64_t operations = 0;
};

// Returns, by layer, the number of its parameters, and of its multiplications and additions in the
// forward pass of one image. Counts operations of convolutions and dense layers only: these layers
// use each weight once for every pixel of their output.
std::map<std::string, LayerCost> CostsOfLayers(
    const pb::NetDef& net, const models::ParameterTable& table,
    const std::map<std::string, models::ImageDims>& shapes) {
  std::map<std::string, LayerCost> costs;
  std::map<std::string, uint64_t> output_pixels;
  for (const pb::LayerDef& layer : net.layers()) {
    const models::ImageDims& output_dims = shapes.at(layer.output());
    output_pixels[layer.name()] =
        layer.has_conv() || layer.has_dense() ? uint64_t{output_dims.h} * output_dims.w : 0;
  }
  for (const models::Parameter& p : table.parameters) {
    const std::string layer = p.name.substr(0, p.name.rfind('.'));
    costs[layer].parameters += p.count;
    costs[layer].operations += (p.is_bias ? 1 : 2) * p.count * output_pixels.at(layer);
  }
  return costs;
}

std::string InMillions(uint64_t count) { return FormatFixed(static_cast<double>(count) / 1e6, 3); }

void PrintLayers(const pb::NetDef& net, const models::ParameterTable& table) {
  const auto shapes = *models::InferShapes(net);
  const auto costs = CostsOfLayers(net, table, shapes);
  std::vector<TableRow> rows = {
      {"layer", "kind", "reads", "output", "parameters", "million operations"}};
  uint64_t total_operations = 0;
  for (const pb::LayerDef& layer : net.layers()) {
    const auto layer_cost = costs.find(layer.name());
    const LayerCost cost = layer_cost == costs.end() ? LayerCost() : layer_cost->second;
    const models::ImageDims& output_dims = shapes.at(layer.output());
    total_operations += cost.operations;
    rows.push_back({layer.name(), models::KindName(layer),
                    Join(std::vector<std::string>(layer.inputs().begin(), layer.inputs().end())),
                    Cat(output_dims.c, " x ", output_dims.h, " x ", output_dims.w),
                    cost.parameters == 0 ? "" : Cat(cost.parameters),
                    cost.operations == 0 ? "" : InMillions(cost.operations)});
  }
  PrintTable(rows);
  std::printf(
      "\n%s: %s parameters, %s statistics of batch norms; %s million multiplications and additions "
      "forward, for one image of %u x %u x %u\n",
      net.name().empty() ? "this network" : net.name().c_str(), Cat(table.total).c_str(),
      Cat(table.statistics_total).c_str(), InMillions(total_operations).c_str(),
      net.input().channels(), net.input().height(), net.input().width());
}

void PrintDef(const pb::NetDef& net, bool as_json) {
  std::string text;
  if (as_json) {
    google::protobuf::util::JsonPrintOptions options;
    options.add_whitespace = true;
    CHECK(google::protobuf::util::MessageToJsonString(net, &text, options).ok());
  } else {
    google::protobuf::TextFormat::PrintToString(net, &text);
  }
  std::printf("%s", text.c_str());
}

}  // namespace

Status ShowModel(const Arguments& arguments) {
  const auto net = NetFromArgument(arguments.positional()[0], arguments);
  if (!net.ok()) return net.status();
  if (arguments.HasFlag("yaml")) {
    pb::Model model;
    *model.mutable_net() = *net;
    std::printf("%s", config::ModelToYaml(model).c_str());
    return Ok();
  }
  if (arguments.HasFlag("netdef") || arguments.HasFlag("json")) {
    PrintDef(*net, arguments.HasFlag("json"));
    return Ok();
  }
  const auto table = models::MakeParameterTable(*net);
  if (!table.ok()) return table.status();
  PrintLayers(*net, *table);
  return Ok();
}

}  // namespace tern::tools

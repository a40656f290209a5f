// The rules of each kind of layer: number of inputs, defaults, bounds, shapes and parameters. They
// do not depend on the engine that computes the layer. Each family of layers has a file
// (layer_*.cc), and each kind an entry in the table of layer_rules.cc. Only for code in models/.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/net.pb.h"

namespace tern::models {

// The parameters and statistics of a layer, in the order in which they follow each other in the
// arenas (the arrays of all parameters and of all statistics). Their offsets are not set yet.
struct LayerState {
  std::vector<Parameter> parameters;
  std::vector<Statistic> statistics;
};

// The shapes of a layer's inputs, except "label".
using InputShapes = std::vector<ImageDims>;

struct LayerRules {
  pb::LayerDef::KindCase kind;
  const char* name;
  int min_inputs, max_inputs;
  // Fills in omitted fields and checks bounds that do not depend on shapes.
  Status (*complete)(pb::LayerDef* layer);
  // The shape of the layer's output. REQUIRES a completed layer.
  Result<ImageDims> (*output)(const pb::LayerDef& layer, const InputShapes& inputs);
  // The layer's parameters and statistics. REQUIRES a completed layer.
  LayerState (*state)(const pb::LayerDef& layer, const InputShapes& inputs);
};

// The rules of a kind of layer; nullptr if there are none.
const LayerRules* FindRules(pb::LayerDef::KindCase kind);
// The names of all kinds: "conv, max_pool, ...".
std::string KindNames();

// The rules of each kind, which the files layer_*.cc define.
extern const LayerRules kConvRules, kMaxPoolRules, kAvgPoolRules, kDenseRules, kReluRules,
    kGeluRules, kScaleRules, kBatchNormRules, kLrnRules, kDropoutRules, kConcatRules, kAddRules,
    kStandardizeRules, kSoftmaxLossRules;

// Helpers that several kinds of layers use.
Status BadLayer(const std::string& message);  // an error with code kBadJob
std::string ShapeText(const ImageDims& dims);
// Checks that `value` is from 1 to kMaxDim. `key` names the value in the error message.
Status CheckSize(const std::string& key, uint32_t value);
// Checks that `value` is finite and in [min, max].
Status CheckNumber(const std::string& key, float value, float min, float max);
// Sets `init` to `constant` if `init` is not set, and checks its numbers.
Status CompleteInit(const std::string& key, float constant, pb::Init* init);
// Sets `init` to Xavier if `init` is not set, and checks its numbers.
Status CompleteWeightInit(pb::Init* init);
// Makes the parameter LAYER.role, for example role "weight". `shape` is [outputs], or begins with
// the outputs and the inputs.
Parameter MakeParameter(const pb::LayerDef& layer, const char* role, std::vector<uint32_t> shape,
                        const pb::Init& init);
inline Result<ImageDims> SameShape(const pb::LayerDef&, const InputShapes& inputs) {
  return inputs[0];
}
inline LayerState NoState(const pb::LayerDef&, const InputShapes&) { return {}; }

}  // namespace tern::models

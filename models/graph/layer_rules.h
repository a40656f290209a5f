// The rules of each kind of layer, independent of the engine: inputs, defaults, bounds, shapes and
// parameters. One file per family, one line in the table of layer_rules.cc. Internal to models.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/net.pb.h"

namespace tern::models {

// The parameters and statistics of a layer, in order; their offsets are set later.
struct LayerState {
  std::vector<Parameter> parameters;
  std::vector<Statistic> statistics;
};

using Inputs = std::vector<ImageDims>;

struct LayerRules {
  pb::LayerDef::KindCase kind;
  const char* name;
  int min_inputs, max_inputs;
  // Fills in omitted fields and checks bounds that do not depend on shapes.
  Status (*complete)(pb::LayerDef* layer);
  // The layer's output image. REQUIRES a completed layer.
  Result<ImageDims> (*output)(const pb::LayerDef& layer, const Inputs& inputs);
  LayerState (*state)(const pb::LayerDef& layer, const Inputs& inputs);
};

// The kind's line in the table; nullptr if there is none.
const LayerRules* FindRules(pb::LayerDef::KindCase kind);
// "conv, max_pool, ...", in the order of the table.
std::string KindNames();

// Defined by the families' files.
extern const LayerRules kConvRules, kMaxPoolRules, kAvgPoolRules, kDenseRules, kReluRules,
    kBatchNormRules, kLrnRules, kDropoutRules, kConcatRules, kAddRules, kStandardizeRules,
    kSoftmaxLossRules;

// Helpers that several families use.
Status BadLayer(const std::string& message);  // kBadJob
std::string ShapeText(const ImageDims& dims);
Status CheckSize(const std::string& key, uint32_t value);  // 1 to kMaxDim
// A finite number in [min, max].
Status CheckNumber(const std::string& key, float value, float min, float max);
Status CompleteInit(const std::string& key, float constant, pb::Init* init);  // default: constant
Status CompleteWeightInit(pb::Init* init);                                    // default: xavier
Parameter MakeParameter(const pb::LayerDef& layer, const char* what, std::vector<uint32_t> shape,
                        const pb::Init& init);
inline Result<ImageDims> SameShape(const pb::LayerDef&, const Inputs& inputs) { return inputs[0]; }
inline LayerState NoState(const pb::LayerDef&, const Inputs&) { return {}; }

}  // namespace tern::models

// What holds for a kind of layer whatever runs it: its inputs, defaults, bounds, shapes and
// parameters. A file of a family each, a line in the table of layer_rules.cc. Internal to models.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/parameters.h"
#include "proto/net.pb.h"

namespace tern::models {

// Of a layer: parameters in order, offsets still missing.
struct LayerState {
  std::vector<Parameter> parameters;
  std::vector<Statistic> statistics;
};

using Inputs = std::vector<ImageDims>;

struct LayerRules {
  pb::LayerDef::KindCase kind;
  const char* name;
  int least_inputs, most_inputs;
  // Fills in what was left out, checks bounds that need no shape.
  Status (*complete)(pb::LayerDef* layer);
  // REQUIRES complete. The image that it makes of those.
  Result<ImageDims> (*output)(const pb::LayerDef& layer, const Inputs& inputs);
  LayerState (*state)(const pb::LayerDef& layer, const Inputs& inputs);
};

// The kind's line in the table; nullptr if there is none.
const LayerRules* FindRules(pb::LayerDef::KindCase kind);
// "conv, max_pool, ...", in the order of the table.
std::string KindNames();

// The files' own lines.
extern const LayerRules kConvRules, kMaxPoolRules, kAvgPoolRules, kDenseRules, kReluRules,
    kBatchNormRules, kLrnRules, kDropoutRules, kConcatRules, kAddRules, kStandardizeRules,
    kSoftmaxLossRules;

// What several of them need.
Status BadLayer(const std::string& message);  // kBadJob
std::string Text(const ImageDims& dims);
Status CheckSize(const std::string& key, uint32_t value);  // 1 to kMaxDim
// A finite number in [least, most].
Status CheckNumber(const std::string& key, float value, float least, float most);
Status CompleteInit(const std::string& key, float constant, pb::Init* init);  // default: constant
Status CompleteWeightInit(pb::Init* init);                                    // default: xavier
Parameter MakeParameter(const pb::LayerDef& layer, const char* what, std::vector<uint32_t> shape,
                        const pb::Init& init);
inline Result<ImageDims> SameShape(const pb::LayerDef&, const Inputs& inputs) { return inputs[0]; }
inline LayerState NoState(const pb::LayerDef&, const Inputs&) { return {}; }

}  // namespace tern::models

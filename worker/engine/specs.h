// NetDef -> the layers that the engine runs: with shapes and places of parameters, and with a ReLU
// folded into the layer before it that applies it. Internal to the engine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/engine/layer_spec.h"
#include "worker/engine/net.h"

namespace tern::engine {

struct PlannedLayer {
  LayerSpec spec;
  std::vector<std::string> reads;  // tensors, without "label"
  std::string makes;
};

// Whether the backend has a layer of that kind.
using HasLayer = bool (*)(pb::LayerDef::KindCase kind);

// REQUIRES a completed net, which outlives the layers.
Result<std::vector<PlannedLayer>> PlanLayers(const pb::NetDef& def, const Net::Options& options,
                                             const Net::Arenas& arenas, HasLayer has_layer);

}  // namespace tern::engine

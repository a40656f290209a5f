// Turns a NetDef into the layers that the engine runs: with shapes and parameter addresses, and
// with a ReLU fused into the layer before it where possible. Internal to the engine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/engine/layer_spec.h"
#include "worker/engine/net.h"

namespace tern::engine {

struct PlannedLayer {
  LayerSpec spec;
  std::vector<std::string> reads;  // tensor names, without "label"
  std::string makes;
};

// Whether the backend supports layers of that kind.
using HasLayer = bool (*)(pb::LayerDef::KindCase kind);

// The layers of a net, in order. REQUIRES a completed net, which outlives them.
Result<std::vector<PlannedLayer>> PlanLayers(const pb::NetDef& def, const Net::Options& options,
                                             const Net::Arenas& arenas, HasLayer has_layer);

}  // namespace tern::engine

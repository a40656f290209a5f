// Turns a NetDef into the layers that the engine runs: computes shapes, assigns parameters, and
// fuses each ReLU, and the addition after a batch norm, into the layer before it where possible.
// Internal to the engine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/engine/layer_spec.h"
#include "worker/engine/net.h"

namespace tern::engine {

struct PlannedLayer {
  LayerSpec spec;
  std::vector<std::string> input_tensors;  // The names of the input tensors, except "label".
  std::string output_tensor;               // The name of the output tensor.
};

// What to do about a net that is too large: names the batch that the job's author can lower.
std::string SmallerBatch(bool is_training);

// A function that returns whether the backend supports layers of a kind.
using HasLayer = bool (*)(pb::LayerDef::KindCase kind);

// Returns the layers of a net in the order of execution. `table`: the net's parameters, as
// options.freeze divides them. `frozen_gradients`: in training, an array of table.frozen_total
// floats, for gradients that nobody reads. `def` must outlive the result. REQUIRES that `def` comes
// from models::CompleteNet, which fills in inputs, outputs and defaults.
Result<std::vector<PlannedLayer>> PlanLayers(const pb::NetDef& def, const Net::Options& options,
                                             const models::ParameterTable& table,
                                             const Net::Arenas& arenas, float* frozen_gradients,
                                             HasLayer has_layer);

}  // namespace tern::engine

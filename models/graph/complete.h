// Completes a NetDef (fills in every input, output and default) and checks how its layers connect.
#pragma once

#include <string>

#include "common/base/status.h"
#include "models/graph/limits.h"
#include "proto/net.pb.h"

namespace tern::models {

// The kind of a layer: "conv", "max_pool", ...; "none" if no kind is set.
std::string KindName(const pb::LayerDef& layer);
// How error messages name a layer: `layer "conv1" (conv)`.
std::string Describe(const pb::LayerDef& layer);

// Fills in omitted fields, and checks everything that does not depend on shapes: names are unique
// and have only allowed characters, sizes are in bounds, inputs are "data", "label" or outputs of
// earlier layers, all outputs except the last are read, and only the last layer is a softmax_loss.
// A second call changes nothing. kBadJob if a check fails.
Result<pb::NetDef> CompleteNet(pb::NetDef net);

}  // namespace tern::models

// A NetDef as written -> complete (every input, output and default spelled out) and well wired.
#pragma once

#include <string>

#include "common/base/status.h"
#include "models/limits.h"
#include "proto/net.pb.h"

namespace tern::models {

// "conv", "max_pool", ...; "none" where the layer has no kind.
std::string KindName(const pb::LayerDef& layer);
// `layer "conv1" (conv)`, as sentences name a layer.
std::string Describe(const pb::LayerDef& layer);

// Fills in what was left out and checks all that needs no shapes: names (unique, plain), sizes in
// bounds, inputs made by earlier layers, every output read, softmax_loss exactly once and last.
// Completing twice changes nothing. kBadJob names the layer.
Result<pb::NetDef> CompleteNet(pb::NetDef net);

}  // namespace tern::models

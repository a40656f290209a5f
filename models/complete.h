// Completes a NetDef (spells out every input, output and default) and checks its wiring.
#pragma once

#include <string>

#include "common/base/status.h"
#include "proto/net.pb.h"

namespace tern::models {

inline constexpr int kMaxLayers = 10'000;
inline constexpr uint32_t kMaxDim = 65'536;  // of an image, a kernel, a stride, outputs, classes
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;  // of all parameters; of one tensor
inline constexpr size_t kMaxLayerName = 128;
inline constexpr int kMaxInputs = 64;  // of a layer that takes several

// "conv", "max_pool", ...; "none" if the layer has no kind.
std::string KindName(const pb::LayerDef& layer);
// `layer "conv1" (conv)`: how messages name a layer.
std::string Describe(const pb::LayerDef& layer);

// Fills in what was left out, and checks everything that does not depend on shapes: names (unique,
// plain), sizes in bounds, inputs made by earlier layers, every output read, softmax_loss exactly
// once and last. Idempotent. kBadJob names the layer.
Result<pb::NetDef> CompleteNet(pb::NetDef net);

}  // namespace tern::models

// A NetDef as written -> complete (every input, output and default spelled out) and well wired.
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

// "conv", "max_pool", ...; "none" where the layer has no kind.
std::string KindName(const pb::LayerDef& layer);
// `layer "conv1" (conv)`, as sentences name a layer.
std::string Describe(const pb::LayerDef& layer);

// Fills in what was left out and checks all that needs no shapes: names (unique, plain), sizes in
// bounds, inputs made by earlier layers, every output read, softmax_loss exactly once and last.
// Completing twice changes nothing. kBadJob names the layer.
Result<pb::NetDef> CompleteNet(pb::NetDef net);

}  // namespace tern::models

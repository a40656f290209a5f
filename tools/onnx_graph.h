// NetDef and weights -> ONNX: the net in its evaluation form, from images to scores.
#pragma once

#include "common/base/status.h"
#include "models/safetensors.h"
#include "proto/net.pb.h"
#include "proto/onnx.pb.h"

namespace tern::tools {

// The graph takes "data" [batch, C, H, W] and gives "scores" [batch, classes], which softmax was
// not taken of; dropouts are left out. Parameters keep their names. `net` is complete. kBadData
// where `weights` has not all parameters and statistics in their shapes.
Result<pb::onnx::Model> MakeOnnx(const pb::NetDef& net, const models::TensorFile& weights);

}  // namespace tern::tools

// Converts a NetDef with weights to an ONNX graph for evaluation, from images to scores.
#pragma once

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "proto/net.pb.h"
#include "proto/onnx.pb.h"

namespace tern::tools {

// The graph maps "data" [batch, C, H, W] to "scores" [batch, classes], before the softmax; dropouts
// are left out. Parameters keep their names. REQUIRES that all defaults of `net` are filled in.
// kBadData if `weights` lacks a parameter or statistic, or has it in another shape.
Result<pb::onnx::Model> MakeOnnx(const pb::NetDef& net, const tensors::TensorFile& weights);

}  // namespace tern::tools

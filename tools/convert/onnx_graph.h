// Converts a NetDef with weights to an ONNX graph for evaluation, from images to scores.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "proto/net.pb.h"
#include "proto/onnx.pb.h"

namespace tern::tools {

// Returns an ONNX model that maps the input "data" [batch, C, H, W] to the output "scores" [batch,
// classes]. The scores are those before the softmax. The model has no dropout layers. Parameters
// keep their names. REQUIRES that all defaults of `net` are filled in. Returns kBadData if
// `weights` lacks a parameter or a batch-norm statistic, or has it in another shape.
// `class_names`: by class; if there are any, the model's metadata has them as "class_names", a JSON
// array of strings.
Result<pb::onnx::Model> MakeOnnx(const pb::NetDef& net, const tensors::TensorFile& weights,
                                 const std::vector<std::string>& class_names = {});

}  // namespace tern::tools

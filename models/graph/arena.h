// Converts a model's arenas to and from the tensors of a file.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "models/graph/shapes.h"

namespace tern::models {

// An arena (parameters, momentum, ...) as named tensors: PREFIX + the parameter's name.
std::vector<tensors::TensorView> ViewArena(const ParameterTable& table, const float* arena,
                                           const std::string& prefix = "");
// The reverse: every PREFIX + parameter must exist with its shape. Ignores other tensors. After
// kBadData the arena may be partly written.
Status LoadArena(const tensors::TensorFile& file, const ParameterTable& table, float* arena,
                 const std::string& prefix = "");
// ViewArena and LoadArena for the statistics, which weight files hold besides the parameters.
std::vector<tensors::TensorView> ViewStatistics(const ParameterTable& table, const float* arena);
Status LoadStatistics(const tensors::TensorFile& file, const ParameterTable& table, float* arena);

}  // namespace tern::models

// Converts a model's arenas to and from the tensors of a file. An arena is one array of all
// parameters of the model (or of all their gradients, statistics, ...) in a fixed order.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "models/graph/shapes.h"

namespace tern::models {

// Returns views of an arena (parameters, momentum, ...) as one tensor per parameter, with the name
// PREFIX + the parameter's name.
std::vector<tensors::TensorView> ViewArena(const ParameterTable& table, const float* arena,
                                           const std::string& prefix = "");
// The same for the arena of frozen parameters, without a prefix.
std::vector<tensors::TensorView> ViewFrozen(const ParameterTable& table, const float* arena);
// Copies the tensors of a file into an arena. The file must have every PREFIX + parameter name with
// the parameter's shape; otherwise kBadData, and the arena may be partly written. Ignores other
// tensors.
Status LoadArena(const tensors::TensorFile& file, const ParameterTable& table, float* arena,
                 const std::string& prefix = "");
// Like ViewArena and LoadArena without a prefix, for the arena of statistics (running means and
// variances of batch norms).
std::vector<tensors::TensorView> ViewStatistics(const ParameterTable& table, const float* arena);
Status LoadStatistics(const tensors::TensorFile& file, const ParameterTable& table, float* arena);

}  // namespace tern::models

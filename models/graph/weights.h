// The values of all tensors of a model, with which a job starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "models/graph/parameters.h"

namespace tern::models {

// Each is an arena (shapes.h).
struct Weights {
  std::vector<float> parameters, frozen, statistics;
};

// InitParameters, InitFrozen and InitStatistics.
Weights RandomWeights(const ParameterTable& table, uint64_t seed);

// The tensors of `file`; those whose names match a pattern of `new_tensors` are as in
// RandomWeights, whatever the file has. Ignores what the file has besides, of whatever type.
// kBadData if the file lacks another tensor, has another shape or integers for it, or has a value
// that is not finite; kBadJob if a pattern matches no tensor, or a frozen one. The message names
// the tensor, both shapes, and what to write.
Result<Weights> WeightsFromFile(const tensors::TensorFile& file, const ParameterTable& table,
                                uint64_t seed, const std::vector<std::string>& new_tensors);

// Equal if and only if (but for collisions of a 64-bit hash) all values have the same bits.
uint64_t WeightsDigest(const Weights& weights);

}  // namespace tern::models

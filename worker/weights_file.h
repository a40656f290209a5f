// Reads weights of a job's model from a file, for use without servers.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/shapes.h"

namespace tern::worker {

struct FileWeights {
  std::vector<float> parameters, statistics;  // In the order and sizes of the table.
};

// Reads the safetensors file `path`, which must contain every parameter and batch-norm statistic of
// `table` with the right shape; other tensors are ignored. kBadData says what is wrong with it.
Result<FileWeights> ReadFileWeights(const std::string& path, const models::ParameterTable& table);

}  // namespace tern::worker

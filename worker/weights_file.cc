#include "worker/weights_file.h"

#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"

namespace tern::worker {

Result<FileWeights> ReadFileWeights(const std::string& path, const models::ParameterTable& table) {
  const auto file = tensors::ReadSafetensors(path);
  if (!file.ok()) return file.status();
  FileWeights weights;
  weights.parameters.resize(table.total);
  weights.statistics.resize(table.statistics_total);
  TERN_RETURN_IF_ERROR(models::LoadArena(*file, table, weights.parameters.data()).Within(path));
  TERN_RETURN_IF_ERROR(
      models::LoadStatistics(*file, table, weights.statistics.data()).Within(path));
  return weights;
}

}  // namespace tern::worker

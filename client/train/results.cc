#include "client/train/results.h"

#include <filesystem>

#include "common/base/logging.h"
#include "common/protocol/rounds/cells.h"

namespace tern::client {

namespace {

// If the classes and their confusion matrix cannot be written, the weights still are.
Status WriteOwnResults(const std::string& output_dir, uint64_t steps,
                       const FiguresExchange& figures, ReplicaState* state) {
  const Status classes_status = figures.WriteClasses();
  TERN_RETURN_IF_ERROR(state->WriteWeights(output_dir, steps));
  return classes_status;
}

}  // namespace

Status WriteResults(const std::string& output_dir, uint64_t steps, FiguresExchange* figures,
                    ReplicaState* state, const FiguresSender& send) {
  std::error_code ignored_error;
  const std::filesystem::path folder = std::filesystem::absolute(output_dir, ignored_error);
  Status own_status;
  for (const uint32_t purpose : {protocol::kWriteFirst, protocol::kWriteElsewhere}) {
    std::string path;
    if (figures->HasLowestRank() == (purpose == protocol::kWriteFirst)) {
      own_status = WriteOwnResults(output_dir, steps, *figures, state);
      if (own_status.ok()) path = (folder / "weights.safetensors").string();
      LOG_IF(ERROR, !own_status.ok()) << own_status.message();
    }
    TERN_RETURN_IF_ERROR(send(purpose, FiguresExchange::MakeWrittenFigures(path, own_status)));
    if (figures->weights_are_written()) return Ok();
  }
  return own_status;
}

}  // namespace tern::client

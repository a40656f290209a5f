#include "client/train/evaluation_files.h"

#include "common/base/logging.h"
#include "common/base/storage.h"
#include "common/base/text.h"
#include "common/tensors/safetensors.h"

namespace tern::client {
namespace {

tensors::Metadata MetadataOf(const pb::Evaluations& record) {
  return {{"step", Cat(record.best_step())},
          {"accuracy", Cat(record.best_accuracy())},
          {"test_loss", Cat(record.best_loss())}};
}

// Whether the file has the weights of the best evaluation in `record`.
bool IsOfBest(const std::string& path, const pb::Evaluations& record) {
  if (!Disk().Exists(path)) return false;
  const Result<tensors::TensorFile> file = tensors::ReadSafetensors(path);
  if (!file.ok()) return false;
  for (const auto& [key, value] : MetadataOf(record)) {
    const auto found = file->metadata.find(key);
    if (found == file->metadata.end() || found->second != value) return false;
  }
  return true;
}

}  // namespace

bool EvaluationFiles::WriteCurve(const FiguresExchange& figures) {
  if (!figures.HasLowestRank()) return false;
  const Status status = curve_.Write();
  LOG_IF(ERROR, !status.ok()) << "the learning curve is not written: " << status.message();
  return true;
}

void EvaluationFiles::OnFailed(const FiguresExchange& figures) {
  if (!curve_.rows().empty()) WriteCurve(figures);
}

void EvaluationFiles::OnEvaluated(uint64_t step, const FiguresExchange& figures,
                                  ReplicaState& state) {
  curve_.AddScores(step, figures.newest_evaluation());
  if (!WriteCurve(figures)) return;
  if (!job_.evaluation().keep_best() || !figures.record().IsBest(step)) return;
  (void)Disk().CreateFolders(job_.output_dir());  // If that fails, the write below fails, too.
  const Status best_status =
      state.WriteEvaluatedWeights(best_path_so_far_, step, MetadataOf(figures.record().Get()));
  if (best_status.ok()) written_step_ = step;
  LOG_IF(ERROR, !best_status.ok()) << "the best weights so far, of step " << step
                                   << ", are not written: " << best_status.message();
}

void EvaluationFiles::OnResultsWritten(const FiguresExchange& figures) {
  const pb::Evaluations record = figures.record().Get();
  if (!job_.evaluation().keep_best() || record.best_step() == 0) return;
  // A worker that is lost may have been the one that wrote them, perhaps to a folder of its own.
  if (!figures.HasLowestRank() && written_step_ != record.best_step()) return;
  const std::string& folder = job_.output_dir();
  const std::string final_path = folder + "/weights_best.safetensors";
  if (IsOfBest(best_path_so_far_, record) && !Disk().Rename(best_path_so_far_, final_path)) {
    Disk().FlushFolder(folder);
    return;
  }
  // An earlier run, which this one continues, or another worker may have done it.
  LOG_IF(ERROR, !IsOfBest(final_path, record))
      << "the best weights, of step " << record.best_step() << ", are not in " << folder
      << ": another worker wrote them elsewhere, or they could not be written";
}

}  // namespace tern::client

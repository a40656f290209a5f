#include "client/train/evaluation_files.h"

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::client {

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
  const pb::Evaluations best = figures.record().Get();
  const Status best_status = state.WriteBestWeights(
      job_.output_dir(), step,
      {{"accuracy", Cat(best.best_accuracy())}, {"test_loss", Cat(best.best_loss())}});
  LOG_IF(ERROR, !best_status.ok()) << "the best weights so far, of step " << step
                                   << ", are not written: " << best_status.message();
}

}  // namespace tern::client

// The files that a job writes after every evaluation: the learning curve (curve.h) and, with
// evaluation.keep_best, the best weights so far. A job that ends by an error writes the curve, too.
// The worker with the lowest rank writes them. If they cannot be written, the job goes on, and the
// log has an error.
//
// The best weights so far are in weights_best.running.safetensors, from which a job that resumes
// goes on. They become weights_best.safetensors when the final weights have been written: a run
// that fails leaves those of an earlier run. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <string>

#include "client/train/curve.h"
#include "client/train/figures.h"
#include "client/train/replica_state.h"
#include "proto/job.pb.h"
#include "setup/setup.h"

namespace tern::client {

class EvaluationFiles {
 public:
  // `job` outlives this object.
  explicit EvaluationFiles(const pb::Job& job)
      : job_(job),
        best_path_so_far_(job.output_dir() + "/weights_best.running.safetensors"),
        curve_(job.output_dir(), job.name(), setup::HasForeignTable(job)) {}

  // Call when training begins after `step` steps.
  void Begin(uint64_t step) { curve_.Begin(step); }
  // Call with the figures of all workers after `step` steps: after each comparison, and after each
  // evaluation. REQUIRES, for the evaluation, that the replica has the weights that were evaluated.
  void OnCompared(uint64_t step, const FiguresExchange& figures) {
    curve_.AddLoss(step, figures.compared_sums());
  }
  void OnEvaluated(uint64_t step, const FiguresExchange& figures, ReplicaState& state);
  // Call when some worker has written the final weights.
  void OnResultsWritten(const FiguresExchange& figures);
  // Call when an error ends this worker's training, such as kDiverged: writes the rows so far.
  void OnFailed(const FiguresExchange& figures);

 private:
  // Writes the curve if this worker has the lowest rank. Returns whether it has.
  bool WriteCurve(const FiguresExchange& figures);

  const pb::Job& job_;
  const std::string best_path_so_far_;
  uint64_t written_step_ = 0;  // whose weights this worker has written there; 0: none
  Curve curve_;
};

}  // namespace tern::client

// The files that a job writes after every evaluation: the learning curve (curve.h) and, with
// evaluation.keep_best, the best weights so far. A job that ends by an error writes the curve, too.
// The worker with the lowest rank writes them. If they cannot be written, the job goes on, and the
// log has an error. Threads: the compute thread.
#pragma once

#include <cstdint>

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
      : job_(job), curve_(job.output_dir(), job.name(), setup::HasForeignTable(job)) {}

  // Call when training begins after `step` steps.
  void Begin(uint64_t step) { curve_.Begin(step); }
  // Call with the figures of all workers after `step` steps: after each comparison, and after each
  // evaluation. REQUIRES, for the evaluation, that the replica has the weights that were evaluated.
  void OnCompared(uint64_t step, const FiguresExchange& figures) {
    curve_.AddLoss(step, figures.compared_sums());
  }
  void OnEvaluated(uint64_t step, const FiguresExchange& figures, ReplicaState& state);
  // Call when an error ends this worker's training, such as kDiverged: writes the rows so far.
  void OnFailed(const FiguresExchange& figures);

 private:
  // Writes the curve if this worker has the lowest rank. Returns whether it has.
  bool WriteCurve(const FiguresExchange& figures);

  const pb::Job& job_;
  Curve curve_;
};

}  // namespace tern::client

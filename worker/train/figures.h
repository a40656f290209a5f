// What the workers tell each other now and then, counted once like the rest and answered with
// everybody's: the hashes of their W and their losses; then, where an evaluation is due, what each
// scored on its part of the test set, which those divide whose hashes came.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/train/evaluate.h"
#include "worker/train/gradient.h"
#include "worker/train/port.h"
#include "worker/train/replica.h"

namespace tern::train {

class Figures {
 public:
  // All outlive it.
  Figures(const setup::Setup& setup, uint32_t rank, Evaluate& evaluate, Replica& replica,
          Gradient& gradient)
      : setup_(setup), rank_(rank), evaluate_(evaluate), replica_(replica), gradient_(gradient) {}

  // Whether they are exchanged when `steps` steps are done; with an evaluation.
  bool Due(uint64_t steps) const;
  bool EvaluationIsDue(uint64_t steps) const;

  // This worker's, now: for kCompare; for kEvaluate, after the answer to the other:
  // kBadData where test images are damaged.
  Result<pb::Figures> Compared();
  // `last`: the job's; with the confusion where it wants that.
  Result<pb::Figures> Evaluated(bool last);
  // Everybody's, W having been that of `steps` steps. kMismatch, naming both, where two W differ.
  Status OnAnswer(const Answer& answer, uint64_t steps);
  // Whether no worker of a lower rank was there at the newest figures.
  bool IsLowest() const { return !present_.empty() && present_.front() == rank_; }
  // Of all workers, at the newest evaluation.
  const pb::Figures& newest() const { return newest_; }
  // Writes what the last evaluation confused, if the job wants that.
  Status WriteConfusion() const;

 private:
  // Of all who were compared: means, and second moments (design section 7).
  Status AverageStatistics(const std::vector<pb::Figures>& by_rank);
  Status OnCompared(const std::vector<pb::Figures>& by_rank, uint64_t steps);
  void OnEvaluated(const std::vector<pb::Figures>& by_rank, uint64_t steps);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Evaluate& evaluate_;
  Replica& replica_;
  Gradient& gradient_;
  std::vector<uint32_t> present_;  // ranks, at the newest comparison
  pb::Figures compared_;           // of all, then
  pb::Figures newest_;
  Confusion confusion_;  // of all, at the last evaluation
};

}  // namespace tern::train

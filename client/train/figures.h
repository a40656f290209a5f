// What the workers exchange about themselves from time to time, as a reduction whose answer has
// everybody's entry: first the hashes of their W and their losses (kCompare); then, if an
// evaluation is due, the scores on their parts of the test set (kEvaluate), which is divided among
// the workers of the first answer.
#pragma once

#include <cstdint>
#include <vector>

#include "client/exchange/port.h"
#include "client/train/compute.h"
#include "client/train/confusion.h"
#include "client/train/gradient.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class Figures {
 public:
  // All outlive it.
  Figures(const setup::Setup& setup, uint32_t rank, Compute& compute, Replica& replica,
          Gradient& gradient)
      : setup_(setup), rank_(rank), compute_(compute), replica_(replica), gradient_(gradient) {}

  // Whether they are exchanged after `steps` steps; and whether with an evaluation.
  bool Due(uint64_t steps) const;
  bool EvaluationIsDue(uint64_t steps) const;

  // This worker's current entry for kCompare; and, after the answer to it, for kEvaluate. kBadData
  // if test images are damaged.
  Result<pb::Figures> Compared();
  // `last`: the job's last evaluation, with the confusion matrix if the job asks for it.
  Result<pb::Figures> Evaluated(bool last);
  // Takes everybody's entries for W after `steps` steps. kMismatch, with both hashes, if two W
  // differ.
  Status OnAnswer(const Answer& answer, uint64_t steps);
  // Whether no worker with a lower rank took part in the newest figures.
  bool IsLowest() const { return !present_.empty() && present_.front() == rank_; }
  // The newest evaluation, over all workers.
  const pb::Figures& newest() const { return newest_; }
  // Writes the confusion matrix of the last evaluation, if the job asks for it.
  Status WriteConfusion() const;

 private:
  // Averages over the compared workers: means, and second moments (docs/ALGORITHMS.md, section 1).
  Status AverageStatistics(const std::vector<pb::Figures>& by_rank);
  Status OnCompared(const std::vector<pb::Figures>& by_rank, uint64_t steps);
  void OnEvaluated(const std::vector<pb::Figures>& by_rank, uint64_t steps);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Compute& compute_;
  Replica& replica_;
  Gradient& gradient_;
  std::vector<uint32_t> present_;  // ranks, at the newest comparison
  pb::Figures compared_;           // over all workers, then
  pb::Figures newest_;
  Confusion confusion_;  // over all workers, at the last evaluation
};

}  // namespace tern::client

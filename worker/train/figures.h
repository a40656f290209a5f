// What the workers tell each other now and then: the hashes of their W, losses, their parts of an
// evaluation. Counted once like the rest, and answered with everybody's.
#pragma once

#include <cstdint>

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
  Figures(const setup::Setup& setup, Evaluate& evaluate, Replica& replica, Gradient& gradient)
      : setup_(setup), evaluate_(evaluate), replica_(replica), gradient_(gradient) {}

  // Whether they are exchanged when `steps` steps are done; with an evaluation.
  bool Due(uint64_t steps) const;
  bool EvaluationIsDue(uint64_t steps) const;

  // This worker's, now.
  pb::Figures Measure(bool evaluate);
  // Everybody's, W having been that of `steps` steps. kMismatch, naming both, where two W differ.
  Status OnAnswer(const Answer& answer, uint64_t steps);
  // Whether no worker of a lower rank was there at the newest figures.
  bool IsLowest(uint32_t rank) const { return rank == lowest_; }
  // Of all workers, at the newest evaluation.
  const pb::Figures& newest() const { return newest_; }

 private:
  const setup::Setup& setup_;
  Evaluate& evaluate_;
  Replica& replica_;
  Gradient& gradient_;
  pb::Figures newest_;
  uint32_t lowest_ = 0;
};

}  // namespace tern::train

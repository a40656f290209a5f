// Quantities that the papers define, from the counters of all workers: the times of a step and of
// an exchange, the step time that the OD-SGD paper predicts from them, and the staleness of
// gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

struct StepFigures {
  // Seconds; means over the workers that have counted any, 0 if none has.
  double t_cop_s = 0;  // forward and backward of one gradient
  double t_com_s = 0;  // one exchange of the whole model, first push to last answer
  double busy_s = 0;   // t_com_s with overlapping exchanges counted once: how long the link is busy
  double step_s = 0;   // a step, as measured

  // OD-SGD equation 2: T_cop if T_com <= T_cop, else (T_cop + T_com) / 2. It holds if latency
  // dominates an exchange (docs/ALGORITHMS.md, section 8).
  double equation_2_s() const;
  // Equation 2 with the link as a lower bound: max(T_cop, busy_s, (T_cop + T_com) / 2).
  double bounded_s() const;

  // Sums over the workers.
  uint64_t gradients = 0;
  uint64_t exchanges = 0;
  uint64_t local_steps = 0;  // gradients without an exchange of their own
  uint64_t late = 0;         // rounds that closed before a worker's contribution
  uint64_t dropped = 0;      // pushes that were too stale

  std::vector<uint64_t> staleness;  // pushes by staleness 0, 1, ...; the last entry: that or more
  double mean_staleness = 0;
};

StepFigures StepFiguresOf(const std::vector<pb::Counters>& workers);

}  // namespace tern::setup

// The papers' own quantities, out of the counters of all workers: what a step and an exchange take,
// what the OD-SGD model makes of that, and how stale gradients were.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

struct StepFigures {
  // Seconds; means over the workers that counted something, 0 where none did.
  double t_cop_s = 0;  // forward and backward of one gradient
  double t_com_s = 0;  // one exchange of the whole model, first push to last answer
  double busy_s = 0;  // the same, where two exchanges at once count once: what the link is busy for
  double step_s = 0;  // measured

  // OD-SGD equation 2: T_cop where T_com is no longer, else (T_cop + T_com) / 2. It holds where an
  // exchange is latency.
  double equation_2_s() const;
  // With the link as a bound: max(T_cop, busy, (T_cop + T_com) / 2).
  double bounded_s() const;

  // Sums over the workers.
  uint64_t gradients = 0;
  uint64_t exchanges = 0;
  uint64_t local_steps = 0;  // gradients that no exchange of their own followed
  uint64_t late = 0;         // rounds that closed without a worker that came later
  uint64_t dropped = 0;      // pushes that were too stale

  std::vector<uint64_t> staleness;  // pushes by staleness 0, 1, ...; the last counts all beyond
  double mean_staleness = 0;
};

StepFigures StepFiguresOf(const std::vector<pb::Counters>& workers);

}  // namespace tern::setup

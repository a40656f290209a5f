// Computes figures of a job from the counters of all workers: the times of a step and of an
// exchange, the step time that the OD-SGD paper predicts from them, and the staleness of gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

struct StepFigures {
  // Times in seconds: means over the workers that have measured the time; 0 if none has.
  double t_cop_s = 0;  // T_cop: forward and backward pass of one gradient
  double t_com_s =
      0;  // T_com: one exchange of the whole model, from the first push to the last answer
  double busy_s = 0;  // like t_com_s, but time in which exchanges overlap is counted only once
  double step_s = 0;  // the measured time of a step

  // The step time by equation 2 of the OD-SGD paper: T_cop if T_com <= T_cop, else (T_cop + T_com)
  // / 2. The equation assumes that latency dominates the time of an exchange.
  double equation_2_s() const;
  // Like equation_2_s(), but at least the time for which the network is busy: max(T_cop, busy_s,
  // (T_cop + T_com) / 2).
  double bounded_s() const;

  // Sums over the workers.
  uint64_t gradients = 0;
  uint64_t exchanges = 0;
  uint64_t local_steps = 0;  // gradients that were not exchanged by themselves
  uint64_t late = 0;         // pushes that arrived after their round had closed
  uint64_t dropped = 0;      // pushes that the server dropped as too stale

  std::vector<uint64_t>
      staleness;  // number of pushes with staleness 0, 1, ...; the last: that staleness or more
  double mean_staleness = 0;
};

StepFigures StepFiguresOf(const std::vector<pb::Counters>& workers);

}  // namespace tern::setup

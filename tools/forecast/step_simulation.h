// Tern's own model of a step, for `tern predict`: simulates a job's steps in virtual time with the
// costs of costs.h. These take time:
//
//   worker   compute thread   forward, backward (which pushes buckets), update
//            coder thread     statistics, encoding
//            net thread       messages
//            I/O thread       bytes
//   server   control thread   maxima of the scalers
//            lane threads     sums, encoding, the update of central parameters
//            I/O thread       bytes
//
// The connections of a server or worker share its link equally, in each direction. Threads share
// the cores of their machine; all processes may be on one machine.
//
// Not modelled: other load, lost packets, unequal workers, evaluation, checkpoints.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "tools/forecast/costs.h"
#include "tools/forecast/network.h"

namespace tern::tools {

struct StepForecast {
  double step_s = 0;      // duration of a step in the steady state
  double compute_s = 0;   // T_cop: forward and backward, while other threads use the cores too
  double exchange_s = 0;  // T_com: from the first push to the last answer of an exchange
  double busy_s = 0;      // the same per step, counting overlapping exchanges once
};

// kInternal if the simulation comes to a standstill, which is a bug.
Result<StepForecast> SimulateStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                                  const Network& network);

}  // namespace tern::tools

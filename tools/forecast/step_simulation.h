// Simulates a job's training steps in virtual time, for `tern forecast`. These threads take time,
// by the costs of costs.h (a bucket is a group of tensors that are pushed together, a scaler is the
// multiplier of a code, and a lane is a server's socket for pushes):
//
//   worker   compute thread   forward, backward (which pushes buckets), update
//            coder thread     statistics, encoding
//            net thread       messages
//            I/O thread       bytes
//   server   control thread   maxima of the scalers
//            lane threads     sums, encoding, the update of weights that the servers hold
//            I/O thread       bytes
//
// The connections of a server or worker share its link equally, in each direction. Threads share
// the cores of their machine. All processes may be on one machine.
//
// The model leaves out other load, lost packets, unequal workers, evaluation and checkpoints.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "tools/forecast/costs.h"
#include "tools/forecast/network.h"

namespace tern::tools {

struct StepForecast {
  double step_s = 0;  // Duration of a step in the steady state.
  // Duration of forward and backward, with the delays by other threads on the same cores, but
  // without waits for answers.
  double compute_s = 0;
  double exchange_s = 0;  // Duration of an exchange, from its first push to its last answer.
  double busy_s = 0;      // Time with an exchange under way, divided by the number of exchanges.
};

// Simulates steps of `workers` workers. The first steps, before the steady state, are not measured.
// Returns kInternal if the simulation comes to a standstill, which is a bug.
Result<StepForecast> SimulateStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                                  const Network& network);

}  // namespace tern::tools

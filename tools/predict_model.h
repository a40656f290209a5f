// Tern's own model of a step, for `tern predict`: one job's steps played through in virtual time
// with the costs of predict_costs.h. What takes time, and what shares it:
//
//   worker   compute thread   forward, backward (a bucket may leave while it runs), update
//            coder thread     statistics, codes
//            net thread, I/O thread
//   link     of each server and worker, in and out: connections share it equally
//   server   control thread   the maxima of scalers
//            lane threads     adding up, coding the sum, the update of central parameters
//            I/O thread
//   cores    of each machine; or of one, where all processes are on it
//
// Not in it: other load, lost packets, workers that are not alike, evaluation and snapshots.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "tools/predict_costs.h"

namespace tern::tools {

// Bytes of TCP's payload in those that a link carries: 1448 in a packet of 1500 (time stamps), and
// Ethernet's header of 14.
inline constexpr double kGoodput = 1448.0 / 1514.0;

// What TCP's acknowledgements put on the other way of a link, of the payload: 66 bytes for every
// second packet.
inline constexpr double kAcknowledged = 66.0 / (2 * 1448);

struct Network {
  double server_mbit = 1000;  // of each server's link, each way, headers included
  double worker_mbit = 0;     // of each worker's; 0: no limit
  double latency_s = 0;       // of the link, one way
  double burst_bytes = 0;     // what a token bucket lets through at once after a pause
  double queue_s = 0;         // what a packet waits in the link's queue while bulk travels
  double acknowledged = 0;    // as kAcknowledged
  uint32_t cores_shared = 0;  // all processes are on one machine with so many; 0: each on its own
};

struct StepForecast {
  double step_s = 0;      // of the steady state
  double compute_s = 0;   // T_cop: forward and backward as it runs beside the rest
  double exchange_s = 0;  // T_com: first push to last answer of an exchange
  double busy_s = 0;      // the same in a step, where exchanges that overlap count once
};

Result<StepForecast> PlayStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                              const Network& network);

}  // namespace tern::tools

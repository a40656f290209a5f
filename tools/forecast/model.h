// Tern's own model of a step, for `tern predict`: plays a job's steps in virtual time with the
// costs of costs.h. What takes time:
//
//   worker   compute thread   forward, backward (a bucket may leave while it runs), update
//            coder thread     statistics, codes
//            net thread       messages
//            I/O thread       bytes
//   server   control thread   the maxima of scalers
//            lane threads     adding up, coding the sum, the update of central parameters
//            I/O thread       bytes
//
// Connections share the link of their server or worker equally, in each direction. Threads share
// the cores of their machine, or of the one machine that all processes are on.
//
// Not modelled: other load, lost packets, unequal workers, evaluation and checkpoints.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "tools/forecast/costs.h"

namespace tern::tools {

// TCP payload per byte on a link: 1448 in a packet of 1500 (with time stamps), plus Ethernet's
// header of 14.
inline constexpr double kGoodput = 1448.0 / 1514.0;

// TCP's acknowledgements in the other direction of a link, per byte of payload: 66 bytes for every
// second packet.
inline constexpr double kAcknowledged = 66.0 / (2 * 1448);

struct Network {
  double server_mbit = 1000;  // of each server's link, each direction, headers included
  double worker_mbit = 0;     // of each worker's link; 0: no limit
  double latency_s = 0;       // of the link, one direction
  double burst_bytes = 0;     // what a token bucket lets through at once after a pause
  double queue_s = 0;         // a packet's wait in the link's queue during bulk transfers
  double acknowledged = 0;    // as kAcknowledged
  uint32_t cores_shared = 0;  // all processes share one machine with this many; 0: each has its own
};

struct StepForecast {
  double step_s = 0;      // in the steady state
  double compute_s = 0;   // T_cop: forward and backward, slowed by what runs beside them
  double exchange_s = 0;  // T_com: first push to last answer of an exchange
  double busy_s = 0;      // the same per step, with the overlap of exchanges counted once
};

Result<StepForecast> PlayStep(const StepCosts& costs, const Profile& profile, uint32_t workers,
                              const Network& network);

}  // namespace tern::tools

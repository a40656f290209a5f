// The network of a forecast: rates, latencies, and the overhead of TCP.
#pragma once

#include <cstdint>

namespace tern::tools {

// TCP payload per byte on a link: 1448 in a packet of 1500 (with time stamps), plus Ethernet's
// header of 14.
inline constexpr double kGoodput = 1448.0 / 1514.0;

// TCP's acknowledgements in the other direction of a link, per byte of payload: 66 bytes for every
// second packet.
inline constexpr double kAcknowledged = 66.0 / (2 * 1448);

struct Network {
  double server_mbit = 1000;  // rate of each server's link per direction, headers included
  double worker_mbit = 0;     // rate of each worker's link; 0: no limit
  double latency_s = 0;       // one-way latency of a link
  double burst_bytes = 0;     // size of the token bucket that limits a server's link
  double queue_s = 0;         // how long a packet waits in a link's queue during bulk transfers
  double acknowledged = 0;    // bytes of acknowledgements per byte of payload
  uint32_t cores_shared = 0;  // cores of the one machine of all processes; 0: a machine each
};

}  // namespace tern::tools

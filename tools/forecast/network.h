// The network of a forecast: rates, latencies, and the overhead of TCP.
#pragma once

#include <cstdint>

namespace tern::tools {

// The fraction of the bytes on a link that is TCP payload. A packet of 1500 bytes carries 1448
// bytes of payload (TCP time stamps are on), and Ethernet adds a header of 14 bytes.
inline constexpr double kPayloadShare = 1448.0 / 1514.0;

// Bytes of TCP acknowledgements per byte of payload. The receiver sends 66 bytes in the other
// direction of the link for every second packet.
inline constexpr double kAckBytesPerByte = 66.0 / (2 * 1448);

struct Network {
  double server_mbit = 1000;  // Mbit/s of each server's link in each direction, headers included.
  double worker_mbit = 0;     // Mbit/s of each worker's link in each direction; 0: no limit.
  // What servers and workers send at most (the job's keys send_mbit), in Mbit/s; 0: no limit.
  double server_send_mbit = 0, worker_send_mbit = 0;
  double latency_s = 0;           // One-way latency from one machine to another.
  double burst_bytes = 0;         // Size of the token bucket that limits a server's link; 0: none.
  double queue_s = 0;             // How long a control message waits for a link that is busy.
  double ack_bytes_per_byte = 0;  // Bytes of TCP acknowledgements per byte of payload.
  // How many workers a host has; they share its link. A job with exchange.host_sum adds up their
  // pushes.
  uint32_t workers_a_host = 1;
  // If all processes share one machine: the number of its cores. 0: each process has its own
  // machine with enough cores.
  uint32_t cores_shared = 0;
};

}  // namespace tern::tools

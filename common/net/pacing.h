// Pacing: how fast the kernel hands the packets of a TCP connection to the network.
#pragma once

namespace tern::net {

struct Pacing {
  // The most that the connection sends, in Mbit/s with the headers of full Ethernet frames. 0: no
  // limit.
  double limit_mbit = 0;
  // If a round trip takes longer than 5 ms, the kernel spreads what it sends over the round trip.
  // Otherwise it sends all that the congestion window has room for at once. If that is more than
  // the queues on the way hold, TCP needs many round trips to recover what they drop; if it is
  // less, sending at once is faster. On near links even sending has no use and costs CPU time.
  bool is_even_if_far = false;
};

// Sets the pacing of the connected TCP socket `fd`. Does nothing if it is not connected any more.
void Pace(int fd, const Pacing& pacing);

}  // namespace tern::net

#include "common/net/pacing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

namespace tern::net {
namespace {

constexpr uint32_t kFarRoundTripUs = 5'000;
// Ethernet carries 1448 bytes of a TCP stream in 1538. The kernel counts the stream's bytes.
constexpr double kStreamShare = 1448.0 / 1538.0;
// Bytes per second: more than links have. With any limit the kernel sends evenly; if the limit is
// higher, at the rate that follows from the congestion window and the round trip.
constexpr uint32_t kHighestLimit = 4'000'000'000;

bool IsFar(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_rtt > kFarRoundTripUs;
}

}  // namespace

void Pace(int fd, const Pacing& pacing) {
  const bool has_limit = pacing.limit_mbit > 0;
  if (!has_limit && !(pacing.is_even_if_far && IsFar(fd))) return;
  const double bytes_per_s =
      has_limit ? pacing.limit_mbit * 1e6 / 8 * kStreamShare : double{kHighestLimit};
  const auto limit = static_cast<uint32_t>(std::min<double>(bytes_per_s, kHighestLimit));
  setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof limit);
}

}  // namespace tern::net

#include "common/net/socket_faults.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/failpoint.h"

namespace tern::net {
namespace {

// Closes every TCP connection of this process, as a broken network or a firewall does. The sockets
// stay open, and see the end of their connections.
void CutAllConnections() {
  std::error_code ignored_error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored_error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer;
    const bool is_connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0;
    if (is_connected && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      (void)shutdown(fd, SHUT_RDWR);
  }
}

// Flips the bit with this number, modulo the number of bits in the frame.
void FlipBit(std::span<uint8_t> frame, uint64_t number) {
  const uint64_t bit = number % (8 * frame.size());
  frame[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
}

}  // namespace

bool IsLostInSending() {
  const auto failpoint = HitFailpoint(FailPlace::kNetSend);
  if (!failpoint.has_value()) return false;
  if (failpoint->action == FailAction::kCut) CutAllConnections();
  return failpoint->action == FailAction::kDrop;
}

bool IsLostInReceiving(std::span<uint8_t> header, std::span<uint8_t> payload) {
  const auto failpoint = HitFailpoint(FailPlace::kNetReceive);
  if (!failpoint.has_value()) return false;
  if (failpoint->action == FailAction::kCut) CutAllConnections();
  if (failpoint->action == FailAction::kFlip) {
    // Either frame is chosen half of the time, or most flips would be in the much longer payload.
    const bool is_in_payload = !payload.empty() && failpoint->random % 2 == 1;
    const std::span<uint8_t> frame = is_in_payload ? payload : header;
    if (!frame.empty()) FlipBit(frame, failpoint->random / 2);
  }
  return failpoint->action == FailAction::kDrop;
}

}  // namespace tern::net

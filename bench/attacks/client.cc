#include "bench/attacks/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/common/net/zmtp_bytes.h"

namespace tern::attacks {
namespace {

// The shortest command with which a server answers a handshake, an ERROR, is longer.
constexpr size_t kCommandHeadBytes = 8;

}  // namespace

Client::Client(const Aim& aim, uint16_t port)
    : aim_(aim), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval longest_wait{0, 100'000};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &longest_wait, sizeof longest_wait);
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &longest_wait, sizeof longest_wait);
  const linger reset{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  is_open_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (is_open_) ++aim.tally->connections;
}

Client::~Client() {
  if (fd_ >= 0) close(fd_);
}

bool Client::Send(std::string_view bytes) {
  while (is_open_ && !bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      aim_.tally->sent_bytes += static_cast<uint64_t>(sent);
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if ((errno != EAGAIN && errno != EINTR) || aim_.IsOver()) {
      is_open_ = false;
    }
  }
  return is_open_;
}

bool Client::Receive(size_t count) {
  char buffer[4096];
  while (is_open_ && count > 0) {
    const ssize_t received = recv(fd_, buffer, std::min(count, sizeof buffer), 0);
    if (received > 0) {
      count -= static_cast<size_t>(received);
    } else if (received == 0 || (errno != EAGAIN && errno != EINTR) || aim_.IsOver()) {
      is_open_ = false;
    }
  }
  return is_open_;
}

bool Client::Look() {
  char buffer[4096];
  while (is_open_) {
    const ssize_t received = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (received < 0 && errno == EAGAIN) break;
    if (received <= 0 && errno != EINTR) is_open_ = false;
  }
  return is_open_;
}

bool Client::ShakeHands(const std::string& routing_id) {
  Send(net::ZmtpGreeting("NULL") + net::ZmtpReady(routing_id));
  return Receive(net::kZmtpGreetingBytes + kCommandHeadBytes);
}

}  // namespace tern::attacks

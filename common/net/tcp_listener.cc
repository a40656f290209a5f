#include "common/net/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::net {
namespace {

constexpr int kWaitingClients = 128;  // Those beyond are refused by the system.
// How much of what a client sends the system keeps, at most twice this. Requests are shorter.
constexpr int kReceiveBytes = 8192;

// Returns a socket that listens at a numeric host; -1 with errno if that fails.
int ListenAt(const std::string& numeric_host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* address = nullptr;
  if (getaddrinfo(numeric_host.c_str(), std::to_string(port).c_str(), &hints, &address) != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  const int fd = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  const int off = 0;
  if (fd >= 0) {
    // Without SO_REUSEADDR the port of a process that has just ended could not be bound.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
    if (numeric_host == "::") setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  const bool is_listening = fd >= 0 && bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
                            listen(fd, kWaitingClients) == 0;
  freeaddrinfo(address);
  if (is_listening) return fd;
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

Origin OriginOf(const sockaddr_storage& address) {
  Origin origin{};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    std::memcpy(&origin[4], &v4.sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    const uint8_t* bytes = v6.sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      std::memcpy(&origin[4], bytes + 12, 4);
    } else {
      std::memcpy(origin.data(), bytes, origin.size());
    }
  }
  return origin;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof v4);  // IPv6's address has the port in the same place.
  return ntohs(v4.sin_port);
}

}  // namespace

Result<std::unique_ptr<TcpListener>> TcpListener::Listen(const std::string& host, uint16_t port) {
  const auto addresses = Resolve(host == "*" ? "::" : host);
  if (!addresses.ok()) return addresses.status();
  int fd = ListenAt(addresses->front(), port);
  // A machine may have no IPv6.
  if (fd < 0 && errno == EAFNOSUPPORT && host == "*") fd = ListenAt("0.0.0.0", port);
  if (fd < 0) {
    return Status(Code::kAddress,
                  Cat("cannot listen on ", ToString(Address{host, port}), ": ",
                      std::string(std::strerror(errno)),
                      "; the port is in use, or the host is not an address of this machine; "
                      "choose another"));
  }
  return std::unique_ptr<TcpListener>(new TcpListener(fd, PortOf(fd)));
}

TcpListener::~TcpListener() { close(fd_); }

std::optional<TcpListener::Client> TcpListener::Accept() {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const int fd =
      accept4(fd_, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return std::nullopt;
  return Client{fd, OriginOf(address)};
}

}  // namespace tern::net

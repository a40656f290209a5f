// A TCP socket on which a process listens for connections of clients that do not speak ZeroMQ.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace tern::net {

// Where a client comes from: its IPv4 address, or the first 64 bits of its IPv6 address, because
// one host may use all addresses with these bits.
using Origin = std::array<uint8_t, 8>;

class TcpListener {
 public:
  struct Client {
    int fd;  // Nonblocking. The caller closes it.
    Origin origin;
  };

  // Listens on host:port. "*" is all addresses of the machine, port 0 one that the system picks.
  // kAddress: the port is in use, or the host is not an address of this machine.
  static Result<std::unique_ptr<TcpListener>> Listen(const std::string& host, uint16_t port);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  // Readable when a client waits.
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }
  // The next client that waits; nullopt if there is none or it is gone already, with errno of
  // accept(2).
  std::optional<Client> Accept();

 private:
  TcpListener(int fd, uint16_t port) : fd_(fd), port_(port) {}

  const int fd_;
  const uint16_t port_;
};

}  // namespace tern::net

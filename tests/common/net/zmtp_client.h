// A TCP client that speaks ZeroMQ's protocol (ZMTP 3.1, mechanism NULL) byte by byte, so that it
// can send what libzmq never would.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/common/net/zmtp_bytes.h"

namespace tern::net {

class ZmtpClient {
 public:
  // Connects to 127.0.0.1:port and introduces itself as a DEALER with this routing id; an empty one
  // means that the ROUTER gives it one.
  ZmtpClient(uint16_t port, const std::string& routing_id) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    Send(ZmtpGreeting("NULL"));
    char greeting_of_router[kZmtpGreetingBytes];
    is_greeted_ = recv(fd_, greeting_of_router, sizeof greeting_of_router, MSG_WAITALL) ==
                  static_cast<ssize_t>(sizeof greeting_of_router);
    Send(ZmtpReady(routing_id));
  }
  ~ZmtpClient() { close(fd_); }
  ZmtpClient(const ZmtpClient&) = delete;
  ZmtpClient& operator=(const ZmtpClient&) = delete;

  // Sends a frame, which is the last one of its message unless `has_more`. Returns whether the
  // connection was still open.
  bool SendFrame(const std::string& data, bool has_more) {
    return is_greeted_ && Send(ZmtpFrame(data, has_more));
  }
  // Whether the router accepted the connection and sent its greeting.
  bool is_greeted() const { return is_greeted_; }
  // Receives and drops what arrives until the other side closes the connection. False if it does
  // not for `seconds`, or did not even send its greeting.
  bool WaitUntilClosed(int seconds = 20) {
    const timeval timeout{seconds, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    char buffer[4096];
    ssize_t received_bytes;
    while ((received_bytes = recv(fd_, buffer, sizeof buffer, 0)) > 0) {
    }
    return is_greeted_ && (received_bytes == 0 || errno == ECONNRESET);
  }

 private:
  bool Send(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  const int fd_;
  bool is_greeted_ = false;
};

}  // namespace tern::net

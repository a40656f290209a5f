// A TCP relay on loopback that records every byte that goes through it, in both directions. It
// forwards one connection.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace tern::net {

class RecordingRelay {
 public:
  explicit RecordingRelay(uint16_t server_port) : server_port_(server_port) {
    sockaddr_in address = Loopback(0);
    socklen_t address_bytes = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &address_bytes), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Forward(); });
  }
  ~RecordingRelay() {
    Stop();
    close(listener_);
  }

  uint16_t port() const { return port_; }
  // Ends the connection, and returns all bytes that went through.
  const std::string& Stop() {
    must_stop_ = true;
    if (thread_.joinable()) thread_.join();
    return recorded_;
  }

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  // Waits until `fd` is readable; false if the relay must stop.
  bool Await(pollfd* fds, nfds_t num_fds) const {
    while (!must_stop_) {
      if (poll(fds, num_fds, 20) > 0) return true;
    }
    return false;
  }
  void Forward() {
    pollfd listener{listener_, POLLIN, 0};
    if (!Await(&listener, 1)) return;
    const int client = accept(listener_, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(server_port_);
    bool is_open =
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    while (is_open && Await(fds, 2)) {
      for (int i = 0; i < 2 && is_open; ++i) {
        if (fds[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t num_read = recv(fds[i].fd, buffer, sizeof buffer, 0);
        is_open = num_read > 0 && send(fds[1 - i].fd, buffer, static_cast<size_t>(num_read),
                                       MSG_NOSIGNAL) == num_read;
        if (num_read > 0) recorded_.append(buffer, static_cast<size_t>(num_read));
      }
    }
    close(client);
    close(server);
  }

  const uint16_t server_port_;
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  uint16_t port_ = 0;
  std::string recorded_;  // of the thread until Stop() has joined it
  std::atomic<bool> must_stop_{false};
  std::thread thread_;
};

}  // namespace tern::net

// Simulates the network link of a server's machine, which a test can take down. While the link is
// up, TcpLink forwards the given ports of 127.0.0.1 to the same ports of 127.0.0.2. Data that is in
// flight when the link goes down arrives when the link is up again, as with TCP. A connection that
// a client starts while the link is down reaches the server when the link is up again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tern::e2e {

class TcpLink {
 public:
  explicit TcpLink(const std::vector<uint16_t>& ports);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  void SetLinkUp(bool is_up);
  // All bytes that were forwarded so far, in both directions, up to kMaxRecordedBytes.
  std::string Recording() const;
  static constexpr size_t kMaxRecordedBytes = 32 << 20;

 private:
  // One direction of a connection.
  struct Direction {
    int from_fd = -1, to_fd = -1;
    // Bytes that were read from `from_fd` and not yet written to `to_fd`.
    std::string buffered_bytes;
    bool is_ended = false;
  };
  // A client's connection to the link, and the link's connection to the server for this client.
  struct ForwardedConnection {
    int client_fd = -1, server_fd = -1;
    Direction directions[2];
  };
  void ForwardUntilQuit();
  void AcceptAll(int listener, uint16_t port);
  // Forwards as many bytes as possible without waiting, in both directions. Returns whether both
  // directions are still open.
  bool Forward(ForwardedConnection* connection);
  // The same for one direction.
  bool Forward(Direction* direction);

  std::vector<uint16_t> ports_;
  std::vector<int> listeners_;
  std::vector<std::unique_ptr<ForwardedConnection>> connections_;
  int wake_fd_ = -1;  // an eventfd; writing to it wakes the thread from poll()
  std::atomic<bool> is_up_{true}, must_quit_{false};
  mutable std::mutex recording_mutex_;
  std::string recording_;  // guarded by recording_mutex_
  std::thread thread_;
};

}  // namespace tern::e2e

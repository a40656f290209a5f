#include "tests/e2e/tcp_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tern::e2e {
namespace {

constexpr size_t kMaxBufferedBytes = 1 << 20;

sockaddr_in AddressOf(uint32_t host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host);
  return address;
}

int NewSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

TcpLink::TcpLink(const std::vector<uint16_t>& ports)
    : ports_(ports), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (const uint16_t port : ports_) {
    const int fd = NewSocket(), enable = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &enable, sizeof enable);
    const sockaddr_in address = AddressOf(INADDR_LOOPBACK, port);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << port;
    EXPECT_EQ(listen(fd, 100), 0);
    listeners_.push_back(fd);
  }
  thread_ = std::thread([this] { ForwardUntilQuit(); });
}

TcpLink::~TcpLink() {
  must_quit_ = true;
  SetLinkUp(true);
  thread_.join();
  for (const auto& connection : connections_) {
    close(connection->client_fd);
    close(connection->server_fd);
  }
  for (const int fd : listeners_) close(fd);
  close(wake_fd_);
}

void TcpLink::SetLinkUp(bool is_up) {
  is_up_ = is_up;
  const uint64_t wake_increment = 1;
  EXPECT_EQ(write(wake_fd_, &wake_increment, sizeof wake_increment),
            static_cast<ssize_t>(sizeof wake_increment));
}

std::string TcpLink::Recording() const {
  const std::lock_guard lock(recording_mutex_);
  return recording_;
}

void TcpLink::ForwardUntilQuit() {
  while (!must_quit_) {
    std::vector<pollfd> poll_fds = {{wake_fd_, POLLIN, 0}};
    if (is_up_) {
      for (const int fd : listeners_) poll_fds.push_back({fd, POLLIN, 0});
      for (const auto& connection : connections_) {
        for (const Direction& direction : connection->directions) {
          if (!direction.is_ended && direction.buffered_bytes.size() < kMaxBufferedBytes)
            poll_fds.push_back({direction.from_fd, POLLIN, 0});
          if (!direction.buffered_bytes.empty()) poll_fds.push_back({direction.to_fd, POLLOUT, 0});
        }
      }
    }
    poll(poll_fds.data(), poll_fds.size(), -1);
    uint64_t wake_count = 0;
    if (read(wake_fd_, &wake_count, sizeof wake_count) < 0 && errno != EAGAIN) return;
    if (!is_up_) continue;
    for (size_t i = 0; i < listeners_.size(); ++i) AcceptAll(listeners_[i], ports_[i]);
    std::erase_if(connections_, [this](const auto& connection) {
      if (Forward(connection.get())) return false;
      close(connection->client_fd);
      close(connection->server_fd);
      return true;
    });
  }
}

void TcpLink::AcceptAll(int listener, uint16_t port) {
  for (int client_fd;
       (client_fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    const int server_fd = NewSocket();
    const sockaddr_in address = AddressOf(INADDR_LOOPBACK + 1, port);
    const bool is_connecting =
        connect(server_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
        errno == EINPROGRESS;
    if (!is_connecting) {
      close(client_fd);
      close(server_fd);
      continue;
    }
    auto connection = std::make_unique<ForwardedConnection>();
    connection->client_fd = client_fd;
    connection->server_fd = server_fd;
    connection->directions[0].from_fd = connection->directions[1].to_fd = client_fd;
    connection->directions[0].to_fd = connection->directions[1].from_fd = server_fd;
    connections_.push_back(std::move(connection));
  }
}

bool TcpLink::Forward(ForwardedConnection* connection) {
  const bool first_is_open = Forward(&connection->directions[0]),
             second_is_open = Forward(&connection->directions[1]);
  return first_is_open && second_is_open;
}

bool TcpLink::Forward(Direction* direction) {
  std::array<char, 65536> read_buffer;
  while (!direction->is_ended && direction->buffered_bytes.size() < kMaxBufferedBytes) {
    const ssize_t read_bytes = recv(direction->from_fd, read_buffer.data(), read_buffer.size(), 0);
    if (read_bytes < 0 && (errno == EAGAIN || errno == ENOTCONN))
      break;  // ENOTCONN: the connection is not established yet
    if (read_bytes <= 0) direction->is_ended = true;
    if (read_bytes <= 0) continue;
    direction->buffered_bytes.append(read_buffer.data(), static_cast<size_t>(read_bytes));
    const std::lock_guard lock(recording_mutex_);
    if (recording_.size() < kMaxRecordedBytes)
      recording_.append(read_buffer.data(), static_cast<size_t>(read_bytes));
  }
  while (!direction->buffered_bytes.empty()) {
    const ssize_t sent_bytes = send(direction->to_fd, direction->buffered_bytes.data(),
                                    direction->buffered_bytes.size(), MSG_NOSIGNAL);
    if (sent_bytes < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
    if (sent_bytes < 0) return false;
    direction->buffered_bytes.erase(0, static_cast<size_t>(sent_bytes));
  }
  return !direction->is_ended;
}

}  // namespace tern::e2e

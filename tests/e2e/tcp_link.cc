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
  SetUp(true);
  thread_.join();
  for (const auto& pair : pairs_) {
    close(pair->client_fd);
    close(pair->server_fd);
  }
  for (const int fd : listeners_) close(fd);
  close(wake_fd_);
}

void TcpLink::SetUp(bool up) {
  is_up_ = up;
  const uint64_t one = 1;
  EXPECT_EQ(write(wake_fd_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

void TcpLink::ForwardUntilQuit() {
  while (!must_quit_) {
    std::vector<pollfd> polled = {{wake_fd_, POLLIN, 0}};
    if (is_up_) {
      for (const int fd : listeners_) polled.push_back({fd, POLLIN, 0});
      for (const auto& pair : pairs_) {
        for (const Direction& direction : pair->directions) {
          if (!direction.is_ended && direction.buffered.size() < kMaxBufferedBytes)
            polled.push_back({direction.from_fd, POLLIN, 0});
          if (!direction.buffered.empty()) polled.push_back({direction.to_fd, POLLOUT, 0});
        }
      }
    }
    poll(polled.data(), polled.size(), -1);
    uint64_t wake_count = 0;
    if (read(wake_fd_, &wake_count, sizeof wake_count) < 0 && errno != EAGAIN) return;
    if (!is_up_) continue;
    for (size_t i = 0; i < listeners_.size(); ++i) AcceptAll(listeners_[i], ports_[i]);
    std::erase_if(pairs_, [](const auto& pair) {
      if (Forward(pair.get())) return false;
      close(pair->client_fd);
      close(pair->server_fd);
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
    auto pair = std::make_unique<Pair>();
    pair->client_fd = client_fd;
    pair->server_fd = server_fd;
    pair->directions[0].from_fd = pair->directions[1].to_fd = client_fd;
    pair->directions[0].to_fd = pair->directions[1].from_fd = server_fd;
    pairs_.push_back(std::move(pair));
  }
}

bool TcpLink::Forward(Pair* pair) {
  const bool first_is_open = Forward(&pair->directions[0]),
             second_is_open = Forward(&pair->directions[1]);
  return first_is_open && second_is_open;
}

bool TcpLink::Forward(Direction* direction) {
  std::array<char, 65536> piece;
  while (!direction->is_ended && direction->buffered.size() < kMaxBufferedBytes) {
    const ssize_t read_bytes = recv(direction->from_fd, piece.data(), piece.size(), 0);
    if (read_bytes < 0 && (errno == EAGAIN || errno == ENOTCONN))
      break;  // ENOTCONN: the connection is not established yet
    if (read_bytes <= 0) direction->is_ended = true;
    if (read_bytes > 0) direction->buffered.append(piece.data(), static_cast<size_t>(read_bytes));
  }
  while (!direction->buffered.empty()) {
    const ssize_t sent_bytes = send(direction->to_fd, direction->buffered.data(),
                                    direction->buffered.size(), MSG_NOSIGNAL);
    if (sent_bytes < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
    if (sent_bytes < 0) return false;
    direction->buffered.erase(0, static_cast<size_t>(sent_bytes));
  }
  return !direction->is_ended;
}

}  // namespace tern::e2e

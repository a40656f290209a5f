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

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

TcpLink::TcpLink(const std::vector<uint16_t>& ports)
    : ports_(ports), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (const uint16_t port : ports_) {
    const int fd = Socket(), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = AddressOf(INADDR_LOOPBACK, port);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << port;
    EXPECT_EQ(listen(fd, 100), 0);
    listeners_.push_back(fd);
  }
  thread_ = std::thread([this] { Run(); });
}

TcpLink::~TcpLink() {
  quit_ = true;
  SetUp(true);
  thread_.join();
  for (const auto& pair : pairs_) {
    close(pair->client);
    close(pair->server);
  }
  for (const int fd : listeners_) close(fd);
  close(wake_);
}

void TcpLink::SetUp(bool up) {
  up_ = up;
  const uint64_t one = 1;
  EXPECT_EQ(write(wake_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

void TcpLink::Run() {
  while (!quit_) {
    std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
    if (up_) {
      for (const int fd : listeners_) fds.push_back({fd, POLLIN, 0});
      for (const auto& pair : pairs_) {
        for (const Direction& direction : pair->directions) {
          if (!direction.ended && direction.buffered.size() < kMaxBufferedBytes)
            fds.push_back({direction.from, POLLIN, 0});
          if (!direction.buffered.empty()) fds.push_back({direction.to, POLLOUT, 0});
        }
      }
    }
    poll(fds.data(), fds.size(), -1);
    uint64_t woken = 0;
    if (read(wake_, &woken, sizeof woken) < 0 && errno != EAGAIN) return;
    if (!up_) continue;
    for (size_t i = 0; i < listeners_.size(); ++i) Accept(listeners_[i], ports_[i]);
    std::erase_if(pairs_, [](const auto& pair) {
      if (Forward(pair.get())) return false;
      close(pair->client);
      close(pair->server);
      return true;
    });
  }
}

void TcpLink::Accept(int listener, uint16_t port) {
  for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    const int server = Socket();
    const sockaddr_in address = AddressOf(INADDR_LOOPBACK + 1, port);
    const bool tried =
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
        errno == EINPROGRESS;
    if (!tried) {
      close(fd);
      close(server);
      continue;
    }
    auto pair = std::make_unique<Pair>();
    pair->client = fd;
    pair->server = server;
    pair->directions[0].from = pair->directions[1].to = fd;
    pair->directions[0].to = pair->directions[1].from = server;
    pairs_.push_back(std::move(pair));
  }
}

bool TcpLink::Forward(Pair* pair) {
  const bool up = Forward(&pair->directions[0]), down = Forward(&pair->directions[1]);
  return up && down;
}

bool TcpLink::Forward(Direction* direction) {
  std::array<char, 65536> piece;
  while (!direction->ended && direction->buffered.size() < kMaxBufferedBytes) {
    const ssize_t got = recv(direction->from, piece.data(), piece.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == ENOTCONN))
      break;  // ENOTCONN: the connection is not established yet
    if (got <= 0) direction->ended = true;
    if (got > 0) direction->buffered.append(piece.data(), static_cast<size_t>(got));
  }
  while (!direction->buffered.empty()) {
    const ssize_t put =
        send(direction->to, direction->buffered.data(), direction->buffered.size(), MSG_NOSIGNAL);
    if (put < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
    if (put < 0) return false;
    direction->buffered.erase(0, static_cast<size_t>(put));
  }
  return !direction->ended;
}

}  // namespace tern::e2e

// TCP connections to a daemon's port for attacks, and how long an attack goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "proto/wire.pb.h"

namespace tern::attacks {

// What an attack has done so far.
struct Tally {
  uint64_t connections = 0, sent_bytes = 0;
};

// What an attack is told.
struct Aim {
  std::vector<uint16_t> ports;  // of 127.0.0.1
  Time end{};                   // by Now(); the attack then returns
  pb::Hello hello;              // with the job's name, and its digests if they are known
  Tally* tally = nullptr;

  bool IsOver() const { return Now() >= end; }
};

// One connection. No call waits longer than the aim's end.
class Client {
 public:
  // Connects; is_open() is false if that fails.
  Client(const Aim& aim, uint16_t port);
  // Closes the connection by a reset, which also drops what was not sent. Otherwise the system
  // would run out of ports in a minute.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False once the other side has closed the connection, as far as a call has found out.
  bool is_open() const { return is_open_; }
  // Sends all bytes. Returns is_open().
  bool Send(std::string_view bytes);
  // Waits until the other side has sent `count` bytes, and drops them. Returns is_open().
  bool Receive(size_t count);
  // Finds out, without waiting, whether the other side has closed the connection, and drops what it
  // has sent. Returns is_open().
  bool Look();
  // Does the handshake of a DEALER with this routing id (NULL), and waits until the server has done
  // its part. Returns is_open().
  bool ShakeHands(const std::string& routing_id);

 private:
  const Aim& aim_;
  const int fd_;
  bool is_open_ = false;
};

}  // namespace tern::attacks

// The bytes of ZeroMQ's protocol (ZMTP 3.1), for clients that send what libzmq never would.
#pragma once

#include <cstdint>
#include <string>

namespace tern::net {

inline constexpr size_t kZmtpGreetingBytes = 64;

// What a client sends first. `mechanism`: "NULL", "PLAIN" or "CURVE".
inline std::string ZmtpGreeting(const std::string& mechanism) {
  std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03";
  greeting += std::string(1, '\1') + mechanism;
  greeting.resize(kZmtpGreetingBytes);
  return greeting;
}

// A command of at most 255 bytes; `body` begins with the length of its name and the name.
inline std::string ZmtpCommand(const std::string& body) {
  return std::string("\x04") + static_cast<char>(body.size()) + body;
}

// The command with which a DEALER with this routing id ends the handshake of NULL. An empty id
// means that the ROUTER gives it one.
inline std::string ZmtpReady(const std::string& routing_id) {
  const auto property = [](const std::string& name, const std::string& value) {
    return static_cast<char>(name.size()) + name + std::string(3, '\0') +
           static_cast<char>(value.size()) + value;
  };
  return ZmtpCommand("\x05READY" + property("Socket-Type", "DEALER") +
                     property("Identity", routing_id));
}

// A frame, which is the last one of its message unless `has_more`.
inline std::string ZmtpFrame(const std::string& data, bool has_more) {
  std::string frame(1, has_more ? '\3' : '\2');  // The size has 8 bytes.
  for (int shift = 56; shift >= 0; shift -= 8)
    frame += static_cast<char>(static_cast<uint64_t>(data.size()) >> shift);
  return frame + data;
}

}  // namespace tern::net

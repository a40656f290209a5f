// Parses addresses as a job file writes them. Names are not resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern::config {

struct Address {
  std::string host;  // lower case, without brackets: 10.0.0.1, ::1, node3
  uint16_t port = 0;
};

// Parses HOST:PORT: "10.0.0.1:7500", "[::1]:7500", "node3:7500". The port must be 1 to 65535.
// Nullopt if the text is anything else.
std::optional<Address> ParseAddress(const std::string& text);

// Parses a host without a port: an IP address, a name, or "*". An IPv6 address may have brackets.
// The result has no brackets and is in lower case. Nullopt if the text is no host.
std::optional<std::string> ParseHost(const std::string& text);

// Whether a parsed host is `localhost` or in 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& host);
// Whether a parsed host is 0.0.0.0, :: or *, to which a server can bind but no peer can connect.
bool IsWildcard(const std::string& host);

}  // namespace tern::config

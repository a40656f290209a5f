// Addresses as a job file writes them. Does not resolve names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern::config {

struct Address {
  std::string host;  // lower case, without brackets: 10.0.0.1, ::1, node3
  uint16_t port = 0;
};

// "10.0.0.1:7500", "[::1]:7500", "node3:7500"; the port is 1 to 65535.
std::optional<Address> ParseAddress(const std::string& text);

// A host without a port. An IPv6 literal may have brackets; the result has none and is in lower
// case.
std::optional<std::string> ParseHost(const std::string& text);

// Whether a parsed host is `localhost` or in 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& host);
// Whether it is 0.0.0.0, :: or *, to which a server can bind but no peer can connect.
bool IsWildcard(const std::string& host);

}  // namespace tern::config

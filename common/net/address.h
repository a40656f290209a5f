// HOST:PORT, where HOST is an IPv4 address, an IPv6 address in brackets, or a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::net {

struct Address {
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: the system picks a free port; valid only for binding

  friend bool operator==(const Address&, const Address&) = default;
};

// Parses HOST:PORT. If `text` is anything else: kAddress with a message that quotes it.
Result<Address> ParseAddress(std::string_view text);
// Formats an address for ParseAddress: "10.0.0.1:70", "[::1]:70".
std::string ToString(const Address& address);

// Resolves `host` (brackets allowed) to numeric addresses, at least one, in the system's order of
// preference. May query name servers and take seconds. kAddress: `host` does not resolve.
Result<std::vector<std::string>> Resolve(const std::string& host);

// `host` (brackets allowed) as the text of a number, if it is one; never asks a name server.
std::optional<std::string> NumericAddress(const std::string& host);

// Whether all addresses of `host` are loopback addresses (127.0.0.0/8, ::1). Resolves names. False
// for "*" and for a name that does not resolve.
bool IsLoopback(const std::string& host);

}  // namespace tern::net

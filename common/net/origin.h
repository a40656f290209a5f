// Which addresses of peers count as one.
#pragma once

#include <string>

namespace tern::net {

// All of 127.0.0.0/8, which are one machine's, have one origin; so has an IPv6 network of 64 bits,
// which is what one host gets; else each address has its own. `address` is numeric; an address of
// IPv4 may be written as one of IPv6 (::ffff:10.0.0.1).
std::string OriginOf(const std::string& address);
// An origin as people read it: "10.0.0.1", "2001:db8::/64".
std::string OriginText(const std::string& origin);
// The origin of a connected socket's peer; empty if the socket is not connected any more.
std::string OriginOfPeer(int fd);

}  // namespace tern::net

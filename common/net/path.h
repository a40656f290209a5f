// Which way a connection took, on a machine with several interfaces.
#pragma once

#include <string>

namespace tern::net {

// Both ends of the connected TCP socket `fd`, and the interface of the local one: "10.0.0.2 (eth0)
// to 10.0.0.3:7500". Empty if `fd` is not connected any more.
std::string DescribePath(int fd);

}  // namespace tern::net

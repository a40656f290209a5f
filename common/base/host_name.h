// The name of this machine.
#pragma once

#include <string>

namespace tern {

// Returns "unknown" if the system gives no name.
std::string HostName();

}  // namespace tern

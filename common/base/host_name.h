// The name of this machine.
#pragma once

#include <string>

namespace tern {

// As the system tells it; "unknown" if it does not.
std::string HostName();

}  // namespace tern

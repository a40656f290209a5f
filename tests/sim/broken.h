// The simulator checks every machine after every event.
#pragma once

#include <string>

namespace tern::sim {

// What a machine of this thread has broken since the last call, or nothing.
std::string TakeBroken();

}  // namespace tern::sim

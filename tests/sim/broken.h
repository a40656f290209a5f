// Collects broken invariants: in the simulator, every protocol machine checks its invariants after
// every event.
#pragma once

#include <string>

namespace tern::sim {

// Returns the invariant that a machine on this thread has broken since the last call, or an empty
// string.
std::string TakeBroken();

}  // namespace tern::sim

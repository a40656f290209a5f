// Collects broken invariants. In the simulator, every state machine of the protocol checks its own
// invariants after every event.
#pragma once

#include <string>

namespace tern::sim {

// Returns the first invariant that a state machine on this thread has broken since the last call,
// or an empty string if none was broken.
std::string TakeBrokenInvariant();

}  // namespace tern::sim

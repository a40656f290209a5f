// The job (as a Setup) of a schedule whose servers hold the parameters, because those run the real
// server/ lanes. It has four tensors of two elements, each a chunk, with codec fp32. So a chunk's
// weights, and a push, have the size of one 64-bit word of the toy job.
#pragma once

#include <memory>

#include "setup/setup.h"
#include "tests/sim/toy.h"

namespace tern::sim {

// REQUIRES schedule.servers_keep().
std::unique_ptr<setup::Setup> MakeLaneJob(const Schedule& schedule, const Layout& layout,
                                          const pb::Hello& hello);

}  // namespace tern::sim

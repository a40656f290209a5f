// The job of a schedule whose servers hold the parameters, as their lanes take it: four tensors of
// two elements each, a chunk each, in codec fp32. So a chunk's weights, and a push, are as many
// bytes as a word of the toy job.
#pragma once

#include <memory>

#include "setup/setup.h"
#include "tests/sim/toy.h"

namespace tern::sim {

// REQUIRES schedule.servers_keep().
std::unique_ptr<setup::Setup> MakeLaneJob(const Schedule& schedule, const Layout& layout,
                                          const pb::Hello& hello);

}  // namespace tern::sim

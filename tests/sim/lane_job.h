// Makes the job (a Setup) for simulated servers that hold the parameters. Such servers run the real
// data lanes of server/ (a lane is the state machine behind one socket), which need a complete job.
// The job has four tensors of two floats. Each tensor is one chunk, with codec fp32, so a chunk's
// weights, and a push of them, fill exactly one 64-bit word of the toy job (toy.h).
#pragma once

#include <memory>

#include "setup/setup.h"
#include "tests/sim/toy.h"

namespace tern::sim {

// Returns the job of the schedule. `layout` says which lane serves which chunk; `hello` becomes the
// setup's hello.
std::unique_ptr<setup::Setup> MakeLaneJob(const Schedule& schedule, const Layout& layout,
                                          const pb::Hello& hello);

}  // namespace tern::sim

// Pulls the parameters from the servers, in jobs whose servers hold them. Threads: the compute
// thread.
#pragma once

#include "client/train/algorithm.h"
#include "common/base/status.h"

namespace tern::client {

// Asks the servers for their current weights, or with `wants_average` for the moving average of the
// weights, waits for the answers, and writes them to w. If a server sends a change of weights
// instead (exchange.pull: changes), adds the change to w; w must then be the weights that this
// worker received last.
Status Pull(const Context& context, float* w, bool wants_average);

}  // namespace tern::client
